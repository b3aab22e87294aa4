"""What further labels are worth: whom there is to ask, who comes into question, and the gain of an answer."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal._arrays import BoolArray, FloatArray, IntArray, row_slices
from conal.errors import InputError
from conal.metrics.rates import Rate
from conal.report.evidence import Evidence

__all__ = [
    "CAUTION",
    "EXPERT",
    "Asking",
    "Learning",
    "Lessons",
    "Pairs",
    "Reduced",
    "answer_information",
    "candidates",
    "cautious",
    "checked_by_others",
    "classes_kept",
    "closer_decision",
    "expected_gain",
    "measured_accuracy",
    "reduced",
    "tells_apart",
    "value_of_answers",
]


# Whom there is to ask, and what is known: all that a plan of further labels is made from.


CAUTION = 5.0
"""Pseudo-labels by which each row of a candidate's matrix is shrunk to the common confusion: three right labels of
three prove little, and the best of many candidates would be chosen by luck."""

MOST_GROUPS = 50
"""Groups that can be asked instead of annotators."""


def cautious(confusion: FloatArray, met: FloatArray, common: FloatArray) -> FloatArray:
    """(n, C, C) learned matrices, each row shrunk to the common confusion.

    This is the mean of a Dirichlet distribution, and thus the probability of the next answer. So what is not known
    about an annotator is in the value of one more answer.
    """
    weight = met[:, :, None]
    return np.asarray((weight * confusion + CAUTION * common) / (weight + CAUTION))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of a task and an annotator, sorted by task.

    Parameters
    ----------
    indptr : (N + 1,)
        Where each task's pairs begin.
    annotators : (P,)
    """

    indptr: IntArray
    annotators: IntArray

    @classmethod
    def of(cls, tasks: npt.ArrayLike, annotators: npt.ArrayLike, n_tasks: int) -> Pairs:
        """From pairs in any order.

        >>> Pairs.of([1, 0, 1], [5, 6, 4], 3).indptr.tolist()
        [0, 1, 3, 3]
        """
        at, who = np.asarray(tasks, np.int64), np.asarray(annotators, np.int64)
        order = np.lexsort((who, at))
        return cls(np.searchsorted(at[order], np.arange(n_tasks + 1)), who[order])

    @cached_property
    def tasks(self) -> IntArray:
        """(P,) the task of every pair."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


def checked_by_others(
    asked: Pairs, posterior: FloatArray, n_annotators: int, known: BoolArray | None = None
) -> FloatArray:
    """(R, C) expected number of an annotator's labels on tasks of each class, as far as others can judge them.

    A label is part of the posterior that judges it. So it counts as (n - 1) / n where a task has n labels, and as 1
    where the truth is known: without this, plans prefer people who agree with themselves.

    >>> pairs = Pairs.of([0, 1, 1], [0, 0, 1], 2)
    >>> checked_by_others(pairs, np.array([[1.0, 0.0], [0.5, 0.5]]), 2).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    given = np.diff(asked.indptr)
    weight = (given - 1) / np.maximum(given, 1)
    if known is not None:
        weight = np.where(known, 1.0, weight)
    met = np.empty((n_annotators, posterior.shape[1]))
    for c in range(posterior.shape[1]):
        each = (weight * posterior[:, c])[asked.tasks]
        met[:, c] = np.bincount(asked.annotators, weights=each, minlength=n_annotators)
    return met


@dataclass(frozen=True, eq=False)
class Asking:
    """Tasks, their posterior, and the people who can be asked about them.

    Parameters
    ----------
    posterior : (N, C)
        P(true class) of every task; as sure as it is right, or the plan promises too much.
    confusion : (R, C, C)
        ``confusion[r, c, l]`` = P(the next answer of r is l | true c); see :func:`cautious`.
    asked : Pairs
        Who has labelled what; nobody is asked twice.
    met : (R, C)
        Expected number of labels behind each row of the matrices; see :func:`checked_by_others`.
    costs : (R,), optional
        Cost of a label; 1 by default.
    limits : (R,), optional
        How many more labels each can give; any number by default. 0 for those who are not to be asked.
    closed : (N,) bool, optional
        Tasks that nobody is asked about, such as those whose true label is known.
    allowed : Pairs, optional
        The only pairs that may be chosen; all by default.
    now : Rate, optional
        The share of right labels of all tasks, where it was measured; by default it is the posterior's.
    """

    posterior: FloatArray
    confusion: FloatArray
    asked: Pairs
    met: FloatArray
    costs: FloatArray | None = None
    limits: FloatArray | None = None
    closed: BoolArray | None = None
    allowed: Pairs | None = None
    now: Rate | None = None

    def __post_init__(self) -> None:
        (n, c), r = self.posterior.shape, len(self.confusion)
        shapes = {"confusion": (r, c, c), "met": (r, c), "costs": (r,), "limits": (r,), "closed": (n,)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array is not None and array.shape != shape:
                raise InputError(f"{name}: has shape {array.shape}, expected {shape} for these tasks and annotators")
        if len(self.asked.indptr) != n + 1:
            raise InputError(f"asked: is about {len(self.asked.indptr) - 1:,} tasks, the posterior about {n:,}")

    @cached_property
    def price(self) -> FloatArray:
        """(R,) cost of a label of each annotator."""
        return np.ones(len(self.confusion)) if self.costs is None else np.asarray(self.costs, float)

    @cached_property
    def accuracy(self) -> float:
        """The share of right labels now."""
        if self.now is not None:
            return self.now.value
        return float(self.posterior.max(1).sum() / max(len(self.posterior), 1))

    @cached_property
    def room(self) -> FloatArray:
        """(R,) how many more labels each annotator can give."""
        return np.full(len(self.confusion), np.inf) if self.limits is None else np.asarray(self.limits, float)

    @cached_property
    def top_two(self) -> IntArray:
        """(N, 2) the two most probable classes of every task, the smaller code first."""
        if self.posterior.shape[1] < 2:
            return np.zeros((len(self.posterior), 2), np.int64)
        return np.sort(np.argsort(-self.posterior, axis=1, kind="stable")[:, :2], axis=1)

    @cached_property
    def pair_key(self) -> IntArray:
        """(N,) one number for the two most probable classes."""
        return np.asarray(self.top_two[:, 0] * self.posterior.shape[1] + self.top_two[:, 1])

    @classmethod
    def by_evidence(
        cls, evidence: Evidence, limits: FloatArray | None = None, costs: FloatArray | None = None
    ) -> Asking:
        """What a fitted model knows of its crowd; annotators who may not be listed are not asked."""
        crowd = evidence.annotations
        everyone = np.arange(crowd.n_annotators)
        asked = Pairs(crowd.indptr, crowd.annotators.astype(np.int64))
        known = None if evidence.known is None else evidence.known >= 0
        met = checked_by_others(asked, evidence.posterior, crowd.n_annotators, known)
        room = np.full(crowd.n_annotators, np.inf) if limits is None else limits
        return cls(
            evidence.posterior,
            cautious(evidence.confusion_of(everyone), met, evidence.common),
            asked,
            met,
            evidence.costs if costs is None else costs,
            np.where(evidence.told, room, 0.0),
            known,
            now=measured_accuracy(evidence),
        )

    def in_groups(self, codes: IntArray, n_groups: int, per_task: int) -> Asking:
        """The same tasks with a group in the place of each annotator: any member answers, who has not yet.

        A group's matrix is the mean of its members', weighted by their labels; its cost is their mean cost.

        Parameters
        ----------
        codes : (R,)
            The group of every annotator.
        n_groups : int
        per_task : int
            A group is asked at most so often about a task, and at most once for every member.
        """
        if n_groups > MOST_GROUPS:
            raise InputError(f"by group: there are {n_groups:,} groups, at most {MOST_GROUPS} can be planned for")
        size = np.bincount(codes, minlength=n_groups)
        weight = self.met.sum(1) + CAUTION
        total = np.bincount(codes, weights=weight, minlength=n_groups)
        confusion = np.zeros((n_groups, *self.confusion.shape[1:]))
        np.add.at(confusion, codes, weight[:, None, None] * self.confusion)
        met, price, room = (np.zeros((n_groups, *values.shape[1:])) for values in (self.met, self.price, self.room))
        for sums, values in ((met, self.met), (price, self.price), (room, self.room)):
            np.add.at(sums, codes, values)
        shape = len(self.posterior), n_groups
        done = np.zeros(shape, np.int64)  # groups are few
        np.add.at(done, (self.asked.tasks, codes[self.asked.annotators]), 1)
        turn = np.arange(per_task)[None, :, None]
        tasks, _, groups = np.nonzero(np.broadcast_to(turn < (size - done)[:, None, :], (shape[0], per_task, n_groups)))
        allowed = Pairs(np.searchsorted(tasks, np.arange(shape[0] + 1)), groups)
        nobody = Pairs(np.zeros(shape[0] + 1, np.int64), np.empty(0, np.int64))
        means = confusion / np.maximum(total, 1e-12)[:, None, None]
        return Asking(
            self.posterior, means, nobody, met, price / np.maximum(size, 1), room, self.closed, allowed, self.now
        )


def measured_accuracy(evidence: Evidence) -> Rate | None:
    """The share of right labels, as measured on the tasks that have labels, and as believed of the others."""
    rate = evidence.inferred_rate
    if rate is None:
        return None
    labelled = evidence.annotations.labels_per_task() > 0
    rest, share = evidence.posterior[~labelled].max(1).sum() / len(labelled), labelled.mean()
    value, low, high = (float(rest + share * end) for end in rate[:3])
    return rate._replace(value=value, low=low, high=high)


# Who comes into question for which task: for every two classes, those who tell them apart best.

WIDTH = 8
"""Annotators who are considered for a task."""
MOST_ALLOWED = 24
"""The same where the pairs that may be chosen are listed."""


def tells_apart(confusion: FloatArray, a: int, b: int) -> FloatArray:
    """(R,) how different the answers to tasks of two classes are: 0 for guesses, 1 for people who never confuse them.

    >>> tells_apart(np.array([[[0.9, 0.1], [0.3, 0.7]]]), 0, 1).round(3).tolist()
    [0.6]
    """
    return np.asarray(np.abs(confusion[:, a] - confusion[:, b]).sum(1) / 2)


def candidates(asking: Asking, tasks: IntArray, room: FloatArray, width: int = WIDTH) -> IntArray:
    """(n, width) annotators who may be asked about each task, -1 where there are fewer.

    Cost goes with the number of tasks, and with that of annotators once per pair of classes.

    Parameters
    ----------
    room : (R,)
        How many more labels each annotator can give; those with none are left out.
    """
    free = room >= 1
    if asking.allowed is not None:
        return _of_pairs(asking.allowed, tasks, free, max(width, MOST_ALLOWED))
    found = np.full((len(tasks), width), -1)
    keys, group = np.unique(asking.pair_key[tasks], return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(keys) + 1))
    n_classes = asking.posterior.shape[1]
    for k, key in enumerate(keys):
        rows = order[starts[k] : starts[k + 1]]
        a, b = divmod(int(key), n_classes)
        ranking = _ranking(asking, a, b, free)
        found[rows] = _not_asked(asking, tasks[rows], ranking, width)
    return found


def _ranking(asking: Asking, a: int, b: int, free: BoolArray) -> IntArray:
    """Annotators who tell two classes apart: the best for their cost and the best at any cost, in turns."""
    apart = tells_apart(asking.confusion, a, b)
    who = np.flatnonzero(free & (apart > 0))
    by_cost = who[np.argsort(-apart[who] / np.maximum(asking.price[who], 1e-9), kind="stable")]
    by_skill = who[np.argsort(-apart[who], kind="stable")]
    turns = np.column_stack([by_cost, by_skill]).ravel()
    _, first = np.unique(turns, return_index=True)
    return turns[np.sort(first)]


def _not_asked(asking: Asking, tasks: IntArray, ranking: IntArray, width: int) -> IntArray:
    """(n, width) the first of the ranking who have not labelled each task."""
    begin, end = asking.asked.indptr[tasks], asking.asked.indptr[tasks + 1]
    most = int((end - begin).max(initial=0))
    ranking = ranking[: width + most]  # so many remain in any case
    place = np.full(len(asking.confusion), -1)
    place[ranking] = np.arange(len(ranking))
    taken = np.zeros((len(tasks), len(ranking)), bool)
    for step in range(most):
        rows = np.flatnonzero(begin + step < end)
        at = place[asking.asked.annotators[begin[rows] + step]]
        taken[rows[at >= 0], at[at >= 0]] = True
    first = np.argsort(taken, axis=1, kind="stable")[:, :width]
    found = np.full((len(tasks), width), -1)
    if len(ranking):
        found[:, : first.shape[1]] = np.where(np.take_along_axis(taken, first, 1), -1, ranking[first])
    return found


def _of_pairs(pairs: Pairs, tasks: IntArray, free: BoolArray, width: int) -> IntArray:
    """(n, width) the first annotators of each task's pairs."""
    begin, end = pairs.indptr[tasks], pairs.indptr[tasks + 1]
    found = np.full((len(tasks), min(width, max(int((end - begin).max(initial=0)), 1))), -1)
    width = found.shape[1]
    filled = np.zeros(len(tasks), np.int64)
    for step in range(int((end - begin).max(initial=0))):
        rows = np.flatnonzero((begin + step < end) & (filled < width))
        who = pairs.annotators[begin[rows] + step]
        rows, who = rows[free[who]], who[free[who]]
        found[rows, filled[rows]] = who
        filled[rows] += 1
    return found


# What answers on a task are worth: how much surer its label is expected to be after them.

CHUNK = 8_000_000
"""Products that are computed at a time."""
MOST_OUTCOMES = 5_000
"""Numbers per task, answers times classes; with more classes, only the most probable ones are told apart."""
TINY = 1e-300


class Reduced(NamedTuple):
    """Tasks with their most probable classes only.

    ``posterior[i, k]`` is that of class ``classes[i, k]``; what other classes have is left out.
    """

    posterior: FloatArray
    classes: IntArray


def reduced(posterior: FloatArray, kept: int) -> Reduced:
    """The most probable classes of every task, at most ``kept``; all of them where there is one more.

    >>> reduced(np.array([[0.1, 0.6, 0.3, 0.0]]), kept=2).classes.tolist()
    [[1, 2]]
    """
    n_classes = posterior.shape[1]
    if n_classes <= kept + 1:
        return Reduced(posterior, np.broadcast_to(np.arange(n_classes), posterior.shape))
    classes = np.argsort(-posterior, axis=1, kind="stable")[:, :kept]
    return Reduced(np.take_along_axis(posterior, classes, 1), classes)


def reduced_matrices(tasks: Reduced, confusion: FloatArray, annotators: IntArray) -> FloatArray:
    """(n, k, K, L) matrices of k annotators each, rows and answers of the kept classes, all other answers last."""
    n_classes = confusion.shape[1]
    if tasks.classes.shape[1] == n_classes:
        return confusion[annotators]
    rows = confusion[annotators[:, :, None], tasks.classes[:, None, :]]  # (n, k, K, C)
    at = np.broadcast_to(tasks.classes[:, None, None, :], (*rows.shape[:3], tasks.classes.shape[1]))
    own = np.take_along_axis(rows, at, 3)
    rest = np.maximum(1 - own.sum(3, keepdims=True), 0.0)
    return np.concatenate([own, rest], axis=3)


def classes_kept(n_answers: int, n_classes: int) -> int:
    """How many classes of a task are told apart by so many answers.

    >>> classes_kept(1, 50), classes_kept(3, 8), classes_kept(3, 50)
    (50, 8, 7)
    """
    if n_classes ** (n_answers + 1) <= MOST_OUTCOMES:
        return n_classes
    return next((k for k in range(n_classes - 1, 2, -1) if k * (k + 1) ** n_answers <= MOST_OUTCOMES), 2)


def value_of_answers(
    posterior: FloatArray, confusion: FloatArray, annotators: IntArray, kept: int | None = None
) -> FloatArray:
    r"""(n, k) expected probability that a task's label is right, after the answers of its first 1, 2, ... annotators.

    All answers :math:`l_1, ..., l_k` are enumerated. The label is then the most probable class:

    .. math::
        V_i(r_1, ..., r_k) = \sum_{l_1, ..., l_k} \max_c q_i(c) \prod_j \mu^{r_j}_{c, l_j}

    One answer may be worth nothing where two are worth much: it cannot overrule a label that is 80 % sure. So values
    of several answers are looked at together, not one by one.

    Parameters
    ----------
    posterior : (n, C)
    confusion : (R, C, C)
        ``confusion[r, c, l]`` = P(annotator r says l | true c).
    annotators : (n, k) int
        Who is asked about each task, in this order; -1 where nobody is.
    kept : int, optional
        Of the classes, the most probable ones, which answers can tell apart. Answers of all others count as one, so
        that the value is a bound from below.

    Examples
    --------
    >>> good = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> value_of_answers(np.array([[0.5, 0.5]]), good, np.array([[0, 0]])).round(3).tolist()
    [[0.9, 0.9]]
    """
    n, k = annotators.shape
    tasks = reduced(posterior, classes_kept(k, posterior.shape[1]) if kept is None else kept)
    n_kept = tasks.posterior.shape[1]
    outcomes = (n_kept + (n_kept < posterior.shape[1])) ** k
    value = np.empty((n, k))
    best = posterior.max(1)
    for part in row_slices(n, cells=outcomes * n_kept, limit=CHUNK):
        joint = tasks.posterior[part][:, None, :]  # (m, outcomes so far, K)
        some = Reduced(tasks.posterior[part], tasks.classes[part])
        for j in range(k):
            who = annotators[part, j]
            matrix = reduced_matrices(some, confusion, np.maximum(who, 0)[:, None])[:, 0]  # (m, K, L)
            after = joint[:, :, None, :] * matrix.transpose(0, 2, 1)[:, None]
            joint = after.reshape(len(joint), -1, n_kept)
            before = best[part] if j == 0 else value[part, j - 1]
            value[part, j] = np.where(who < 0, before, np.maximum(joint.max(2).sum(1), before))  # rounding
    return value


def expected_gain(posterior: FloatArray, confusion: FloatArray) -> FloatArray:
    r"""(n, R) expected decrease of the probability that the label is wrong, after one more answer.

    The answer is l with probability :math:`\sum_c q_c \mu_{cl}`, and the label is then the class c with the largest
    :math:`q_c \mu_{cl}`:

    .. math::
        \sum_l \max_c q_c \mu^r_{cl} - \max_c q_c

    Parameters
    ----------
    posterior : (n, C)
    confusion : (R, C, C)
        ``confusion[r, c, l]`` = P(annotator r says l | true c).

    Examples
    --------
    >>> expected_gain(np.array([[0.5, 0.5]]), np.array([[[0.9, 0.1], [0.1, 0.9]]])).round(3).tolist()
    [[0.4]]
    """
    n, C = posterior.shape
    gain = np.empty((n, len(confusion)))
    for r, matrix in enumerate(confusion):
        for part in row_slices(n, cells=C * C, limit=CHUNK):
            q = posterior[part]
            after = (q[:, :, None] * matrix).max(1).sum(1)
            gain[part, r] = after - q.max(1)
    return np.maximum(gain, 0.0)  # rounding alone can make it negative


def answer_information(posterior: FloatArray, confusion: FloatArray, annotators: IntArray) -> FloatArray:
    r"""(n, k) bits that an answer of each annotator is expected to tell about the true class; -inf for nobody (-1).

    .. math::
        H\bigl(\textstyle\sum_c q_c \mu_{c \cdot}\bigr) - \sum_c q_c H(\mu_{c \cdot})

    Above 0 also where no single answer can change the label.

    >>> noisy, blind = [[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]
    >>> answer_information(np.array([[0.5, 0.5]]), np.array([noisy, blind]), np.array([[0, 1, -1]])).round(3).tolist()
    [[0.531, 0.0, -inf]]
    """
    spread = _bits(confusion)  # (R, C)
    found = np.empty(annotators.shape)
    for part in row_slices(len(annotators), cells=annotators.shape[1] * posterior.shape[1] ** 2, limit=CHUNK):
        who, q = np.maximum(annotators[part], 0), posterior[part]
        answers = np.einsum("nc,nkcl->nkl", q, confusion[who])
        found[part] = np.maximum(_bits(answers) - np.einsum("nc,nkc->nk", q, spread[who]), 0.0)
    return np.where(annotators < 0, -np.inf, found)


def _bits(shares: FloatArray) -> FloatArray:
    """Entropy along the last axis, in bits."""
    return np.asarray(-(shares * np.log2(np.maximum(shares, TINY))).sum(-1))


# What answers teach beyond their own task: how somebody, or everybody, takes two classes for each other.
#
# The tasks whose two most probable classes are a and b share what is not known about that pair: of the crowd's common
# confusion, and of every annotator's own. An error there moves the log-odds of all of them together, by
# :math:`\delta \sim N(0, s^2)`. Whoever learns :math:`\delta` decides these tasks better, each by
#
# .. math::
#     h(x, s) = E_\delta | \sigma(x + \delta) - \tfrac12 | - | E_\delta \sigma(x + \delta) - \tfrac12 |
#
# with the log-odds x of a against b. If m tasks of the pair are known as well as if an expert had labelled them,
# :math:`s^2 = 4 / m`, and k more answers teach the share :math:`k / (m + k)` of that variance: the first answer teaches
# most, and where the crowd tells the classes apart, m is large and nothing is left to learn.

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
SHARES = np.array([0, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1]) ** 2
"""Shares of the variance for which values are computed; between them they are interpolated."""
GRID: list[float] = SHARES.tolist()
FREE = 4.0
"""Tasks that count as known in every pair: where nothing else is known, s = 1."""
SURE = 5.0
"""Log-odds that nothing learned about the pair turns round."""


def closer_decision(log_odds: FloatArray, spread: FloatArray) -> FloatArray:
    r"""h(x, s): how much more often the likelier of two classes is right once the shift :math:`\delta` is known.

    >>> closer_decision(np.array([0.0, 0.0, 6.0]), np.array([0.0, 1.0, 1.0])).round(3).tolist()
    [0.0, 0.186, 0.0]
    """
    shifted = np.tanh((log_odds[..., None] + spread[..., None] * NODES) / 2) / 2
    weights = WEIGHTS / WEIGHTS.sum()
    return np.asarray(np.abs(shifted) @ weights - np.abs(shifted @ weights))


class Learning:
    """What is left to learn about each of many pairs of classes, and what the next answer about one teaches.

    Parameters
    ----------
    key : (n,) int
        The pair that each row is about: one of the crowd's, or one of an annotator's.
    chance : (n, 2)
        Probability of the two classes on the row's task.
    n_keys : int

    Examples
    --------
    Where the crowd guesses, an expert's answer tells about all tasks of the pair; where it is sure, about none:

    >>> guess, sure = np.full((20, 2), 0.5), np.tile([0.98, 0.02], (20, 1))
    >>> pairs = Learning(np.repeat([0, 1], 20), np.concatenate([guess, sure]), 2)
    >>> [round(pairs.next_value(0, planned), 2) for planned in (0, 1, 2)], round(pairs.next_value(1, 0), 3)
    ([1.76, 0.5, 0.27], 0.0)
    """

    def __init__(self, key: IntArray, chance: FloatArray, n_keys: int) -> None:
        total = np.maximum(chance.sum(1), 1e-12)
        even = (chance[:, 0] - chance[:, 1]) / total
        known = np.bincount(key, weights=even**2 * total, minlength=n_keys)
        self.known = known + FREE
        spread = 2 / np.sqrt(self.known)  # the information of one answer about even odds is 1/4
        log_odds = np.log(np.maximum(chance[:, 0], 1e-9)) - np.log(np.maximum(chance[:, 1], 1e-9))
        near = np.flatnonzero(np.abs(log_odds) < SURE)
        at, weight = key[near], total[near]
        each = (closer_decision(log_odds[near], share**0.5 * spread[at]) * weight for share in SHARES)
        sums = [np.bincount(at, weights=column, minlength=n_keys) for column in each]
        values = np.column_stack(sums).astype(np.float64)
        self.values = _concave(values)

    def next_value(self, key: int, planned: float, certainty: float = 1.0) -> float:
        """Expected number of tasks that one more answer decides rightly, after ``planned`` others.

        Parameters
        ----------
        certainty : float
            How well the answer shows what it teaches: 1 for an expert's.
        """
        known, ends = self.known.item(key), []  # plain numbers: arrays of one are slow
        for n in (planned, planned + certainty):
            share = n / (known + n)
            left = min(bisect_right(GRID, share), len(GRID) - 1) - 1
            low, high = self.values.item(key, left), self.values.item(key, left + 1)
            ends.append(low + (share - GRID[left]) / (GRID[left + 1] - GRID[left]) * (high - low))
        return float(max(ends[1] - ends[0], 0.0))

    def next_values(self, keys: IntArray, planned: FloatArray, certainty: FloatArray) -> FloatArray:
        """The same for many pairs."""
        known = self.known[keys]
        before, after = (self._learned(keys, n / (known + n)) for n in (planned, planned + certainty))
        return np.maximum(after - before, 0.0)

    def _learned(self, keys: IntArray, share: FloatArray) -> FloatArray:
        """What is decided rightly once a share of the variance is known."""
        left = np.minimum(np.searchsorted(SHARES, share, side="right"), len(SHARES) - 1) - 1
        part = (share - SHARES[left]) / (SHARES[left + 1] - SHARES[left])
        low, high = self.values[keys, left], self.values[keys, left + 1]
        return np.asarray(low + part * (high - low))


def _concave(values: FloatArray) -> FloatArray:
    """The least concave values above these, for every row: several answers may teach what one does not.

    >>> _concave(np.array([[0, 0, 0, 0, 0, 1.0]])).round(3).tolist()
    [[0.0, 0.016, 0.062, 0.25, 0.562, 1.0]]
    """
    found = values.copy()
    for i, j, k in combinations(range(len(SHARES)), 3):
        part = (SHARES[j] - SHARES[i]) / (SHARES[k] - SHARES[i])
        found[:, j] = np.maximum(found[:, j], values[:, i] + part * (values[:, k] - values[:, i]))
    return found


# What planned answers teach about other tasks: about the confusion of the crowd, or of one annotator.

EXPERT = -1
"""The annotator's number that stands for an expert, who is always right."""


class Lessons:
    """The pairs of classes that there is something to learn about, and the answers that are planned for each."""

    def __init__(self, asking: Asking) -> None:
        self.n_classes, self.pair_key = asking.posterior.shape[1], asking.pair_key
        self.certainty = np.square(asking.posterior).sum(1)
        chance = np.take_along_axis(asking.posterior, asking.top_two, 1)
        pairs, self.pair = np.unique(asking.pair_key, return_inverse=True)
        matters = np.ones(len(chance), bool) if asking.closed is None else ~asking.closed
        self.crowd = Learning(self.pair[matters], chance[matters], len(pairs))
        labelled = asking.asked.tasks[matters[asking.asked.tasks]]
        people = asking.asked.annotators[matters[asking.asked.tasks]]
        self.own_keys, at = np.unique(self._own_key(people, labelled), return_inverse=True)
        self.own = Learning(at, chance[labelled], len(self.own_keys))
        self.planned = np.zeros(len(pairs)), np.zeros(len(self.own_keys))

    def _own_key(self, annotators: IntArray, tasks: IntArray) -> IntArray:
        return np.asarray(annotators * self.n_classes**2 + self.pair_key[tasks])

    def _place(self, tasks: IntArray, annotators: IntArray) -> IntArray:
        """Where each person's pair of classes is among the keys; -1 if this person has labelled no such task."""
        wanted = self._own_key(annotators, tasks)
        if not len(self.own_keys):
            return np.full(wanted.shape, -1)
        at = np.minimum(np.searchsorted(self.own_keys, wanted), len(self.own_keys) - 1)
        return np.where(self.own_keys[at] == wanted, at, -1)

    def first_values(self, tasks: IntArray, annotators: IntArray) -> FloatArray:
        """(n, o, k) what each answer teaches before anything is planned."""
        every = np.broadcast_to(tasks[:, None, None], annotators.shape)
        return self._first_values(every.ravel(), annotators.ravel()).reshape(annotators.shape)

    def next_value(self, task: int, annotator: int) -> float:
        """What one more answer teaches after those that are planned."""
        if annotator == EXPERT:
            pair = self.pair.item(task)
            return self.crowd.next_value(pair, self.planned[0].item(pair))
        at = self._place_of_one(task, annotator)
        return 0.0 if at < 0 else self.own.next_value(at, self.planned[1].item(at), self.certainty.item(task))

    def _place_of_one(self, task: int, annotator: int) -> int:
        wanted = annotator * self.n_classes**2 + self.pair_key.item(task)
        at = int(self.own_keys.searchsorted(wanted))
        return at if at < len(self.own_keys) and self.own_keys.item(at) == wanted else -1

    def _first_values(self, tasks: IntArray, annotators: IntArray) -> FloatArray:
        found = np.zeros(len(tasks))
        experts = np.flatnonzero(annotators == EXPERT)
        key = self.pair[tasks[experts]]
        found[experts] = self.crowd.next_values(key, self.planned[0][key], np.ones(len(key)))
        people = np.flatnonzero(annotators >= 0)
        at = self._place(tasks[people], annotators[people])
        people, at = people[at >= 0], at[at >= 0]
        found[people] = self.own.next_values(at, self.planned[1][at], self.certainty[tasks[people]])
        return found

    def note(self, task: int, annotator: int) -> None:
        """Remember that an answer is planned."""
        if annotator == EXPERT:
            self.planned[0][self.pair[task]] += 1
            return
        at = self._place_of_one(task, annotator)
        if at >= 0:
            self.planned[1][at] += self.certainty[task]
