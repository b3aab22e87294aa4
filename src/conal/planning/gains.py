"""What further labels are worth: the labelling problem, the candidates for a task, and the gain of answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from conal._arrays import BoolArray, FloatArray, IntArray, grouped_sums, row_slices
from conal.errors import InputError
from conal.metrics.rates import Rate
from conal.report.evidence import Evidence, entropy

# The labelling problem: what is known of the tasks, and who can be asked about them.

CAUTION = 5.0
"""Pseudo-labels by which each row of a candidate's matrix is shrunk to the common confusion: three right labels of
three prove little, and the best of many candidates would be chosen by luck."""

MOST_GROUPS = 50
"""Groups that can be asked instead of annotators."""


def cautious(confusion: FloatArray, class_counts: FloatArray, common: FloatArray) -> FloatArray:
    """(n, C, C) learned matrices, each row shrunk to the common confusion.

    This is the mean of a Dirichlet distribution, and thus the probability of the next answer. So what is not known
    about an annotator is in the value of one more answer.
    """
    weight = class_counts[:, :, None]
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
    existing: Pairs, posterior: FloatArray, n_annotators: int, known: BoolArray | None = None
) -> FloatArray:
    """(R, C) expected number of an annotator's labels on tasks of each class, as far as others can judge them.

    A label is part of the posterior that judges it. So it counts as (n - 1) / n where a task has n labels, and as 1
    where the truth is known: without this, plans prefer people who agree with themselves.

    >>> pairs = Pairs.of([0, 1, 1], [0, 0, 1], 2)
    >>> checked_by_others(pairs, np.array([[1.0, 0.0], [0.5, 0.5]]), 2).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    given = np.diff(existing.indptr)
    weight = (given - 1) / np.maximum(given, 1)
    if known is not None:
        weight = np.where(known, 1.0, weight)
    return grouped_sums(existing.annotators, (weight[:, None] * posterior)[existing.tasks], n_annotators)


@dataclass(frozen=True, eq=False)
class LabelingProblem:
    """Tasks, their posterior, and the annotators who can be asked about them.

    Parameters
    ----------
    posterior : (N, C)
        P(true class) of every task; as sure as it is right, or the plan forecasts too much.
    confusion : (R, C, C)
        ``confusion[r, c, l]`` = P(the next answer of r is l | true c); see :func:`cautious`.
    existing : Pairs
        Who has labelled what; nobody is asked twice.
    class_counts : (R, C)
        Expected number of labels behind each row of the matrices; see :func:`checked_by_others`.
    costs : (R,), optional
        Cost of a label; 1 by default.
    limits : (R,), optional
        How many more labels each can give; any number by default. 0 for those who are not to be asked.
    done : (N,) bool, optional
        Tasks that nobody is asked about, such as those whose true label is known.
    allowed : Pairs, optional
        The only pairs that may be chosen; all by default.
    now : Rate, optional
        The share of right labels of all tasks, where it was measured; by default it is the posterior's.
    """

    posterior: FloatArray
    confusion: FloatArray
    existing: Pairs
    class_counts: FloatArray
    costs: FloatArray | None = None
    limits: FloatArray | None = None
    done: BoolArray | None = None
    allowed: Pairs | None = None
    now: Rate | None = None

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
    def capacity(self) -> FloatArray:
        """(R,) how many more labels each annotator can give."""
        return np.full(len(self.confusion), np.inf) if self.limits is None else np.asarray(self.limits, float)

    @classmethod
    def by_evidence(
        cls, evidence: Evidence, limits: FloatArray | None = None, costs: FloatArray | None = None
    ) -> LabelingProblem:
        """What a fitted model knows of its crowd; annotators who may not be listed are not asked."""
        crowd = evidence.annotations
        everyone = np.arange(crowd.n_annotators)
        existing = Pairs(crowd.indptr, crowd.annotators.astype(np.int64))
        known = None if evidence.known is None else evidence.known >= 0
        counts = checked_by_others(existing, evidence.posterior, crowd.n_annotators, known)
        return cls(
            evidence.posterior,
            cautious(evidence.confusion_of(everyone), counts, evidence.common),
            existing,
            counts,
            evidence.costs if costs is None else costs,
            np.where(evidence.visible_annotators, np.inf if limits is None else limits, 0.0),
            known,
            now=measured_accuracy(evidence),
        )

    def in_groups(self, codes: IntArray, n_groups: int, per_task: int) -> LabelingProblem:
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
        n_tasks, size = len(self.posterior), np.bincount(codes, minlength=n_groups)

        def sums(values: FloatArray) -> FloatArray:
            flat = grouped_sums(codes, values.reshape(len(values), -1), n_groups)
            return flat.reshape(n_groups, *values.shape[1:])

        weight = self.class_counts.sum(1) + CAUTION
        total = np.maximum(sums(weight), 1e-12)
        confusion = sums(weight[:, None, None] * self.confusion) / total[:, None, None]
        given = np.zeros((n_tasks, n_groups), np.int64)  # groups are few
        np.add.at(given, (self.existing.tasks, codes[self.existing.annotators]), 1)
        free = np.arange(per_task)[None, :, None] < (size - given)[:, None, :]
        tasks, _, groups = np.nonzero(free)
        return replace(
            self,
            confusion=confusion,
            existing=Pairs.of([], [], n_tasks),
            class_counts=sums(self.class_counts),
            costs=sums(self.price) / np.maximum(size, 1),
            limits=sums(self.capacity),
            allowed=Pairs(np.searchsorted(tasks, np.arange(n_tasks + 1)), groups),
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


# Candidates for a task: those who tell its two most probable classes apart best.

WIDTH = 8
"""Annotators who are considered for a task."""
MOST_ALLOWED = 24
"""The same where the pairs that may be chosen are listed."""


def candidates(problem: LabelingProblem, tasks: IntArray, capacity: FloatArray, width: int = WIDTH) -> IntArray:
    """(n, width) annotators who may be asked about each task, -1 where there are fewer.

    Cost goes with the number of tasks, and with that of annotators once per pair of classes.

    Parameters
    ----------
    capacity : (R,)
        How many more labels each annotator can give; those with none are left out.
    """
    free = capacity >= 1
    if problem.allowed is not None:
        return _of_pairs(problem.allowed, tasks, free, max(width, MOST_ALLOWED))
    found = np.full((len(tasks), width), -1)
    top_two = np.sort(np.argsort(-problem.posterior[tasks], axis=1, kind="stable")[:, :2], axis=1)
    pairs, group = np.unique(top_two, axis=0, return_inverse=True)
    for k, classes in enumerate(pairs.tolist()):
        rows = np.flatnonzero(group.ravel() == k)
        found[rows] = _without_label(problem, tasks[rows], _ranking(problem, classes, free), width)
    return found


def _ranking(problem: LabelingProblem, classes: list[int], free: BoolArray) -> IntArray:
    """Annotators who tell two classes apart: the best for their cost and the best at any cost, in turns."""
    one, other = problem.confusion[:, classes[0]], problem.confusion[:, classes[-1]]
    apart = np.abs(one - other).sum(1) / 2  # 0 for guesses
    who = np.flatnonzero(free & (apart > 0))
    by_cost = who[np.argsort(-apart[who] / np.maximum(problem.price[who], 1e-9), kind="stable")]
    by_skill = who[np.argsort(-apart[who], kind="stable")]
    turns = np.column_stack([by_cost, by_skill]).ravel()
    _, first = np.unique(turns, return_index=True)
    return turns[np.sort(first)]


def _without_label(problem: LabelingProblem, tasks: IntArray, ranking: IntArray, width: int) -> IntArray:
    """(n, width) the first of the ranking who have not labelled each task."""
    begin, end = problem.existing.indptr[tasks], problem.existing.indptr[tasks + 1]
    most = int((end - begin).max(initial=0))
    ranking = ranking[: width + most]  # so many remain in any case
    place = np.full(len(problem.confusion), -1)
    place[ranking] = np.arange(len(ranking))
    taken = np.zeros((len(tasks), len(ranking)), bool)
    for step in range(most):
        rows = np.flatnonzero(begin + step < end)
        at = place[problem.existing.annotators[begin[rows] + step]]
        taken[rows[at >= 0], at[at >= 0]] = True
    first = np.argsort(taken, axis=1, kind="stable")[:, :width]
    found = np.full((len(tasks), width), -1)
    if len(ranking):
        found[:, : first.shape[1]] = np.where(np.take_along_axis(taken, first, 1), -1, ranking[first])
    return found


def _of_pairs(pairs: Pairs, tasks: IntArray, free: BoolArray, width: int) -> IntArray:
    """(n, width) the first free annotators of each task's pairs."""
    n_pairs = pairs.indptr[tasks + 1] - pairs.indptr[tasks]
    row = np.repeat(np.arange(len(tasks)), n_pairs)
    first = np.cumsum(n_pairs) - n_pairs
    who = pairs.annotators[np.arange(len(row)) + (pairs.indptr[tasks] - first)[row]]
    row, who = row[free[who]], who[free[who]]
    place = np.arange(len(row)) - np.searchsorted(row, row)
    found = np.full((len(tasks), min(width, max(int(n_pairs.max(initial=0)), 1))), -1)
    kept = place < found.shape[1]
    found[row[kept], place[kept]] = who[kept]
    return found


# What answers on a task are worth: how much surer its label is expected to be after them.

EXPERT = -1
"""The annotator's number that stands for an expert, who is always right."""
CHUNK = 8_000_000
"""Products that are computed at a time."""
MOST_OUTCOMES = 5_000
"""Numbers per task, answers times classes; with more classes, only the most probable ones are told apart."""


def _classes_kept(n_answers: int, n_classes: int) -> int:
    """How many classes of a task are told apart by so many answers.

    >>> _classes_kept(1, 50), _classes_kept(3, 8), _classes_kept(3, 50)
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
    (n, k), n_classes = annotators.shape, posterior.shape[1]
    kept = _classes_kept(k, n_classes) if kept is None else kept
    n_kept = n_classes if n_classes <= kept + 1 else kept  # all others together are one answer, and would be one class
    outcomes = (n_kept + (n_kept < n_classes)) ** k
    value = np.empty((n, k))
    for part in row_slices(n, cells=outcomes * n_kept, limit=CHUNK):
        q, before = posterior[part], posterior[part].max(1)
        classes = None if n_kept == n_classes else np.argsort(-q, axis=1, kind="stable")[:, :n_kept]
        joint = (q if classes is None else np.take_along_axis(q, classes, 1))[:, None, :]  # (m, outcomes so far, K)
        for j in range(k):
            who = annotators[part, j]
            matrix = _matrices(confusion, np.maximum(who, 0), classes)
            after = joint[:, :, None, :] * matrix.transpose(0, 2, 1)[:, None]
            joint = after.reshape(len(joint), -1, n_kept)
            before = np.where(who < 0, before, np.maximum(joint.max(2).sum(1), before))  # rounding
            value[part, j] = before
    return value


def _matrices(confusion: FloatArray, annotators: IntArray, classes: IntArray | None) -> FloatArray:
    """(m, K, L) rows and answers of some classes (m, K); all other answers are one, the last."""
    if classes is None:
        return confusion[annotators]
    rows = confusion[annotators[:, None], classes]  # (m, K, C)
    own = np.take_along_axis(rows, np.broadcast_to(classes[:, None, :], (*rows.shape[:2], classes.shape[1])), 2)
    return np.concatenate([own, np.maximum(1 - own.sum(2, keepdims=True), 0.0)], axis=2)


def answer_information(posterior: FloatArray, confusion: FloatArray, annotators: IntArray) -> FloatArray:
    r"""(n, k) bits that an answer of each annotator is expected to tell about the true class; -inf for nobody (-1).

    .. math::
        H\bigl(\textstyle\sum_c q_c \mu_{c \cdot}\bigr) - \sum_c q_c H(\mu_{c \cdot})

    Above 0 also where no single answer can change the label.

    >>> noisy, blind = [[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]
    >>> answer_information(np.array([[0.5, 0.5]]), np.array([noisy, blind]), np.array([[0, 1, -1]])).round(3).tolist()
    [[0.531, 0.0, -inf]]
    """
    spread = entropy(confusion)  # (R, C)
    found = np.empty(annotators.shape)
    for part in row_slices(len(annotators), cells=annotators.shape[1] * posterior.shape[1] ** 2, limit=CHUNK):
        who, q = np.maximum(annotators[part], 0), posterior[part]
        answers = np.einsum("nc,nkcl->nkl", q, confusion[who])
        found[part] = np.maximum(entropy(answers) - np.einsum("nc,nkc->nk", q, spread[who]), 0.0)
    return np.where(annotators < 0, -np.inf, found)
