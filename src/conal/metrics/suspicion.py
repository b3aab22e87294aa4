"""Careless, colluding and copying annotators: tests, false alarms, and labels without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtr, softmax, xlogy

from conal._arrays import BoolArray, FloatArray, IntArray, grouped_sums
from conal.data.annotations import Annotations
from conal.metrics.classification import task_posterior

FEWEST = 10
"""Annotators with fewer labels are not judged."""

# Whom to flag, so that few of the flagged are false alarms: by p-values, or by probabilities of a false alarm.


def discoveries(p_values: FloatArray, level: float = 0.05) -> BoolArray:
    r"""(n,) which hypotheses to reject: those with :math:`p \le p_{(k)}`, the largest with :math:`p_{(k)} \le k q / n`.

    The expected share of false ones among them is at most the level q. NaN stands for no test, and does not count.

    References
    ----------
    Benjamini and Hochberg (1995). Controlling the false discovery rate. Journal of the Royal Statistical Society B 57.

    Examples
    --------
    >>> discoveries(np.array([0.03, 0.8, 0.01, np.nan, 0.04])).tolist()
    [False, False, True, False, False]
    >>> discoveries(np.array([0.03, 0.03, 0.01, 0.04])).tolist()
    [True, True, True, True]
    """
    ordered = np.sort(p_values[np.isfinite(p_values)])
    passed = ordered <= level * np.arange(1, len(ordered) + 1) / max(len(ordered), 1)
    return np.asarray(p_values <= ordered[passed].max(initial=-np.inf))


def likely(false_alarm: FloatArray, level: float = 0.05) -> BoolArray:
    """(n,) whom to flag: as many as there can be with a mean probability of a false alarm of at most the level.

    NaN stands for somebody who is not judged.

    References
    ----------
    Sun and Cai (2007). Oracle and adaptive compound decision rules for false discovery rate control. Journal of the
    American Statistical Association 102.

    Examples
    --------
    >>> likely(np.array([0.01, 0.9, np.nan, 0.08, 0.3])).tolist()
    [True, False, False, True, False]
    """
    ordered = np.sort(false_alarm[np.isfinite(false_alarm)])
    passed = np.cumsum(ordered) <= level * np.arange(1, len(ordered) + 1)
    return np.asarray(false_alarm <= ordered[passed].max(initial=-np.inf))


# What the others say about a task: posteriors without an annotator's own label, and the typical annotator's matrix.

ROW_POOLING = 3.0
"""Pseudo-labels per row that draw an annotator's matrix to that of all labels."""
MAX_WEIGHT = 20.0
"""Tasks of a class from which on an annotator counts fully in the median."""
TYPICAL = 0.8
"""Part of the typical matrix that is the median of the annotators; the rest is that of all labels."""
MIN_COUNT = 1e-9
MIN_PRIOR = 1e-3
"""A classifier that has seen the labels may be too sure of them."""


@dataclass(frozen=True, eq=False)
class LeftOut:
    r"""The labels of a crowd, judged by what is known without them.

    .. math::
        q_i^{-r}(c) \propto f_i(c) \prod_{s \ne r} \pi^s_{c, y_i^s}, \qquad
        m_i^r(l) = \sum_c q_i^{-r}(c) \, \bar\pi_{cl}

    Parameters
    ----------
    crowd : Annotations
    counts : (R, C, C)
        Expected counts ``[r, true, observed]``.
    log_prob : (P, C)
        Log P(label | true class c) by the annotator's matrix.
    log_joint : (N, C)
        Log of the prior and of all labels of a task, not normalised.
    posterior : (P, C)
        ``posterior[k, c]`` = P(true class c | all labels of the task but label k).
    times : (P,), optional
        When each label was given; anything that sorts.
    """

    crowd: Annotations
    counts: FloatArray
    log_prob: FloatArray
    log_joint: FloatArray
    posterior: FloatArray
    times: npt.NDArray[Any] | None = None

    @cached_property
    def typical(self) -> FloatArray:
        """(C, C) the typical annotator's matrix."""
        return typical_confusion(self.counts)

    @cached_property
    def expected(self) -> FloatArray:
        """(P, C) how probably the typical annotator gives each label to the task of each label, by the others."""
        return np.asarray(self.posterior @ self.typical)

    @cached_property
    def given(self) -> IntArray:
        """(R, C) how often each annotator gave each label."""
        R, C = self.crowd.n_annotators, self.crowd.n_classes
        cells = self.crowd.annotators.astype(np.int64) * C + self.crowd.labels
        return np.bincount(cells, minlength=R * C).reshape(R, C)

    @cached_property
    def habits(self) -> FloatArray:
        """(R, C) how often each annotator gives each label, as a share, with one pseudo-label."""
        given = self.given + 1 / self.crowd.n_classes
        return np.asarray(given / given.sum(1, keepdims=True))

    def changes(self, counted: BoolArray | None = None) -> IntArray:
        """(R,) how many tasks get another label, by one E-step, without the labels of each annotator.

        ``counted`` (N,) says which tasks count; all by default.
        """
        label = self.log_joint.argmax(1)[self.crowd.tasks]
        changed = self.posterior.argmax(1) != label
        if counted is not None:
            changed &= counted[self.crowd.tasks]
        return np.bincount(self.crowd.annotators[changed], minlength=self.crowd.n_annotators).astype(np.int64)

    def sums(self, values: FloatArray) -> FloatArray:
        """(R,) sums over the labels of each annotator."""
        return grouped_sums(self.crowd.annotators, values, self.crowd.n_annotators)

    @cached_property
    def in_time(self) -> tuple[IntArray, IntArray]:
        """Labels by annotator and time, and where those of each annotator begin; one entry more is their number."""
        who = self.crowd.annotators
        order = np.argsort(who, kind="stable") if self.times is None else np.lexsort((self.times, who))
        return order, np.append(0, np.cumsum(self.crowd.labels_per_annotator()))

    def after(self, number: IntArray) -> BoolArray:
        """(P,) the labels that came after so many others of their annotator; ``number`` is (R,)."""
        (order, starts), who = self.in_time, self.crowd.annotators
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order)) - starts[who[order]]
        return np.asarray(place >= number[who])


def left_out(
    data: Any,
    posterior: npt.ArrayLike,
    classifier: FloatArray | None = None,
    times: npt.ArrayLike | None = None,
) -> LeftOut:
    """Posteriors without each label, by one E-step with matrices that follow from a posterior.

    The matrices are drawn to that of all labels by a few pseudo-labels.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    posterior : (N, C)
        Probability of every class for every task, such as that of Dawid-Skene.
    classifier : (N, C), optional
        Probability of every class by the features of the task: the prior, which is otherwise that of the classes.
    times : (n_annotations,), optional
        When each label was given, in the order of ``annotations.labels``; anything that sorts.
    """
    crowd = Annotations.of(data)
    q = task_posterior(posterior, crowd)
    counts = crowd.expected_counts(q[crowd.tasks])
    pooled = counts.sum(0) + 0.5
    matrices = counts + ROW_POOLING * pooled / pooled.sum(1, keepdims=True)
    matrices /= matrices.sum(2, keepdims=True)
    log_prob = np.log(matrices[crowd.annotators, :, crowd.labels])
    prior = q.mean(0) + MIN_COUNT if classifier is None else np.maximum(classifier, MIN_PRIOR)
    log_joint = np.log(prior) + grouped_sums(crowd.tasks, log_prob, crowd.n_tasks)
    without = np.asarray(softmax(log_joint[crowd.tasks] - log_prob, axis=1))
    return LeftOut(crowd, counts, log_prob, log_joint, without, None if times is None else np.asarray(times))


def typical_confusion(counts: FloatArray) -> FloatArray:
    """(C, C) the weighted median of the annotators' matrices, from expected counts (R, C, C).

    A group that exchanges classes moves the matrix of all labels, but hardly the median. What one annotator in two
    does, such as a common confusion, stays in it.

    >>> honest, ring = [[9.0, 1.0], [1.0, 9.0]], [[0.0, 10.0], [10.0, 0.0]]
    >>> typical_confusion(np.array([honest, honest, honest, ring, ring])).round(2).tolist()
    [[0.83, 0.17], [0.17, 0.83]]
    """
    if not len(counts):
        return np.full(counts.shape[1:], 1 / counts.shape[1])
    met = counts.sum(2)
    rates = counts / np.maximum(met, MIN_COUNT)[:, :, None]
    order = np.argsort(rates, axis=0, kind="stable")
    weights = np.broadcast_to(np.minimum(met, MAX_WEIGHT)[:, :, None], rates.shape)
    reached = np.cumsum(np.take_along_axis(weights, order, axis=0), axis=0)
    middle = (reached >= reached[-1] / 2).argmax(0)
    median = np.take_along_axis(np.take_along_axis(rates, order, axis=0), middle[None], axis=0)[0]
    total = median.sum(1, keepdims=True)
    median = np.where(total > MIN_COUNT, median / np.maximum(total, MIN_COUNT), 1 / len(median))
    pooled = counts.sum(0) + 0.5
    return np.asarray(TYPICAL * median + (1 - TYPICAL) * pooled / pooled.sum(1, keepdims=True))


# Do an annotator's answers depend on the task as those of others do, in another way, or not at all?

RELATIVE_CARE = 0.6
"""Share of careful answers that an honest annotator has at least, beside what a quarter of the crowd has."""
MIN_CARE, MAX_CARE = 0.25, 0.5
"""Ends of that share."""
SCORED = 0.5
"""Share of careful answers at which labels are scored."""
SHUFFLES = 399


class Attention(NamedTuple):
    """The share of answers that are as careful as the typical annotator's, and how surely it is too low.

    Attributes
    ----------
    share : (R,)
        Estimated share; NaN without labels.
    least : float
        The share that honest annotators of this crowd have at least.
    p_value : (R,)
        Of the hypothesis that the share is at least that; NaN where too few labels were given.
    """

    share: FloatArray
    least: float
    p_value: FloatArray


def attention(found: LeftOut) -> Attention:
    r"""Whether an annotator's answers are as careful as those of the typical annotator, at least in part.

    Labels are scored by the likelihood ratio of answers that are partly careful, against habit:

    .. math::
        \lambda_i^r(l) = \log \frac{\tfrac12 m_i^r(l) + \tfrac12 h^r_l}{h^r_l}

    where m is what the typical annotator says by the labels of the others, and h the annotator's own habit. If a share
    a of the answers is careful, a label of task i has the probabilities :math:`a m_i^r(l) + (1 - a) h^r_l`. The
    estimate of a is that under which the sum of the scores is what one expects, and the p-value is the probability of a
    sum that small, by the normal distribution, at the least share that honest people of this crowd have: 0.6 times the
    upper quartile of the estimates, and from 0.25 to 0.5. So a crowd of whom everybody errs in an own way is not called
    careless. Annotators with fewer than 10 labels are not tested.
    """
    crowd = found.crowd
    habit, careful = found.habits[crowd.annotators], found.expected
    scores = np.log(SCORED * careful / habit + 1 - SCORED)
    score = scores[np.arange(crowd.n_annotations), crowd.labels]
    by_habit = (habit * scores).sum(1)
    room, above = found.sums((careful * scores).sum(1) - by_habit), found.sums(score - by_habit)
    share = np.clip(np.where(room > 1e-9, above / np.maximum(room, 1e-9), np.nan), 0.0, 1.0)
    tested = crowd.labels_per_annotator() >= FEWEST
    known = share[tested & np.isfinite(share)]
    least = float(np.clip(RELATIVE_CARE * np.quantile(known, 0.75), MIN_CARE, MAX_CARE)) if len(known) else MAX_CARE
    proba = least * careful + (1 - least) * habit
    mean = (proba * scores).sum(1)
    variance = found.sums((proba * scores**2).sum(1) - mean**2)
    p_value = ndtr(found.sums(score - mean) / np.sqrt(np.maximum(variance, 1e-300)))
    return Attention(share, least, np.where(tested, p_value, np.nan))


def dependence(found: LeftOut, annotator: int, seed: int = 0) -> float:
    r"""P-value of the hypothesis that an annotator's labels have nothing to do with the true classes.

    The likelihood-ratio statistic :math:`\sum_{cl} n_{cl} \log \frac{n_{cl} n}{n_{c\cdot} n_{\cdot l}}` of expected
    counts, by posteriors without the annotator's own labels, against the same labels shuffled over the tasks.
    """
    rows = np.flatnonzero(found.crowd.annotators == annotator)
    q, labels = found.posterior[rows], found.crowd.labels[rows]
    rng = np.random.default_rng(seed)
    observed = _information(q, labels)
    shuffled = [_information(q, rng.permutation(labels)) for _ in range(SHUFFLES)]
    return float((1 + np.sum(np.array(shuffled) >= observed - 1e-9)) / (1 + SHUFFLES))


def _information(q: FloatArray, labels: npt.NDArray[np.integer]) -> float:
    """The statistic up to what shuffling does not change: row and column sums are the same."""
    counts = grouped_sums(labels, q, q.shape[1])
    return float(xlogy(counts, counts).sum())


# How careful the people of a crowd are, estimated together: who is careless, and who turned careless at some point.

SHARES = np.linspace(0.0, 1.0, 21)
"""Shares of careful answers that people may have."""
CARELESS_SHARES = SHARES <= 0.25
"""Those that no honest annotator has."""
BEFORE = SHARES >= 0.3
"""Those that people have who turn later."""
FEWEST_AFTER = 5
"""Labels before and after a turn, at least."""
HABIT = 15.0
"""Labels that what all people say counts beside an annotator's own, in the habit by which a label is judged."""
PSEUDO_PEOPLE = 0.05
"""Annotators of every kind and share, beside those of the crowd."""
POPULATION_STEPS = 300
MIN_PROBABILITY = 1e-12


class Population(NamedTuple):
    """How probably annotators are careless or turned, by their labels and by what others of the crowd do.

    Attributes
    ----------
    careless : (R,)
        P(the share of careful answers is at most 0.25); NaN where too few labels were given.
    turned : (R,)
        P(answers are careful up to a point in time, and not afterwards); 0 where times are unknown or labels few.
    before : (R,)
        Number of labels before the most probable turn.
    """

    careless: FloatArray
    turned: FloatArray
    before: IntArray


def population(found: LeftOut) -> Population:
    r"""Who is careless and who turned, by a mixture for all annotators of the crowd.

    If a share a of the answers of annotator r is careful, label y of task i has the probability
    :math:`f_a = a m_i^r(y) + (1 - a) h^r_y` (:class:`LeftOut`; the habit h is by the other labels of the annotator).
    People of a crowd have different shares, or turn after t labels, all t alike:

    .. math::
        L_r = \sum_a w_a \prod_k f_a(y_k) + \sum_a v_a \frac1{|T|} \sum_{t \in T} \prod_{k \le t} f_a(y_k)
        \prod_{k > t} f_0(y_k)

    The weights w and v are those under which the labels of all annotators are most probable (nonparametric maximum
    likelihood, by EM), and the posterior says who is what. So 30 labels are enough to know a clicker among people who
    are careful otherwise, while in a crowd with all shares between, nobody stands out.

    Annotators with fewer than 10 labels are not judged, and with fewer than twice as many not said to have
    turned.

    References
    ----------
    Kiefer and Wolfowitz (1956). Consistency of the maximum likelihood estimator in the presence of infinitely many
    incidental parameters. Annals of Mathematical Statistics 27.
    """
    R, given = found.crowd.n_annotators, found.crowd.labels_per_annotator()
    careful, by_habit = _label_chances(found)
    steady = np.stack([found.sums(_log_chances(careful, by_habit, a)) for a in SHARES.tolist()], axis=1)
    turning, before = np.full((R, int(BEFORE.sum())), -np.inf), given.astype(np.int64)
    for r, rows in _labels_in_time(found):
        logs = np.stack([_log_chances(careful[rows], by_habit[rows], a) for a in SHARES.tolist()])
        turning[r], before[r] = _turns(logs, steady[r, 0])
    enough = given >= FEWEST
    posterior = np.full((R, len(SHARES) + turning.shape[1]), np.nan)
    posterior[enough] = _mixed(np.concatenate([steady, turning], axis=1)[enough])
    turned = np.where(enough, posterior[:, len(SHARES) :].sum(1), 0.0)
    return Population(posterior[:, : len(SHARES)][:, CARELESS_SHARES].sum(1), turned, before)


def _label_chances(found: LeftOut) -> tuple[FloatArray, FloatArray]:
    """(P,) each of every label: its probability by the typical annotator, and by the annotator's other labels."""
    crowd = found.crowd
    usual = np.bincount(crowd.labels, minlength=crowd.n_classes) + 1.0
    drawn = HABIT * (usual / usual.sum())[crowd.labels]
    same = found.given[crowd.annotators, crowd.labels] - 1
    others = crowd.labels_per_annotator()[crowd.annotators] - 1
    return found.expected[np.arange(crowd.n_annotations), crowd.labels], (same + drawn) / (others + HABIT)


def _log_chances(careful: FloatArray, by_habit: FloatArray, share: float) -> FloatArray:
    """Logarithms of the probabilities of labels if this share of the answers is careful."""
    return np.asarray(np.log(np.maximum(share * careful + (1 - share) * by_habit, MIN_PROBABILITY)))


def _labels_in_time(found: LeftOut) -> Iterator[tuple[int, IntArray]]:
    """Annotators with enough labels, all of which have a time, and their labels in the order of time."""
    if found.times is None:
        return
    missing = np.isnat(found.times) if found.times.dtype.kind in "mM" else np.zeros(len(found.times), dtype=bool)
    order, starts = found.in_time
    for r in np.flatnonzero((np.diff(starts) >= 2 * FEWEST) & (found.sums(missing) == 0)).tolist():
        yield r, order[starts[r] : starts[r + 1]]


def _turns(logs: FloatArray, by_habit: float) -> tuple[FloatArray, int]:
    """Log-likelihoods of a turn somewhere, for every share before, and after how many labels it is most probable.

    ``logs`` (shares, n) are of labels in the order of time, and ``by_habit`` is the sum of the first row.
    """
    gained = np.cumsum(logs[BEFORE] - logs[0], axis=1)[:, FEWEST_AFTER - 1 : logs.shape[1] - FEWEST_AFTER]
    top = gained.max(1, keepdims=True)
    by_share = np.log(np.exp(gained - top).mean(1)) + top[:, 0]
    places = np.exp(gained - top.max()).sum(0)
    return by_habit + by_share, int(places.argmax()) + FEWEST_AFTER


def _mixed(logs: FloatArray) -> FloatArray:
    """(R, K) posterior of the parts of a mixture, from log-likelihoods (R, K), with weights by EM."""
    likelihood: FloatArray = np.exp(logs - logs.max(1, keepdims=True, initial=-np.inf))
    weights = np.full(logs.shape[1], 1 / logs.shape[1])
    posterior: FloatArray = likelihood
    for _ in range(POPULATION_STEPS):
        posterior = likelihood * weights
        posterior /= posterior.sum(1, keepdims=True)
        weights = posterior.sum(0) + PSEUDO_PEOPLE
        weights /= weights.sum()
    return posterior


# Rings: annotators who exchange the classes in the same way.

MIN_FOLLOWING = 3.0
"""Standard deviations by which the labels must follow the exchange rather than the classes."""
FEWEST_MEMBERS = 2
MAX_RIGHT = 0.5
"""Part of the labels that depend on the class, below which right ones are few enough to look for an exchange."""
MAX_PEOPLE = 300
"""Those who follow an exchange most clearly; groups are looked for among so many."""


class Ring(NamedTuple):
    """Members of a ring, and what they call each class, ``exchange[c]``."""

    members: IntArray
    exchange: IntArray


def find_rings(found: LeftOut) -> list[Ring]:
    """Groups of annotators whose labels follow an exchange of classes rather than the classes, the largest first.

    Everybody's own exchange is the assignment of labels to classes that fits best. Two belong together if the labels of
    each follow the exchange of the other (:func:`follows`). Somebody who only makes a common confusion often is right
    more often still, and follows none.
    """
    excess = _excess(found)
    most, right = excess.max(2).sum(1), np.einsum("rcc->r", excess)
    doubtful = (found.crowd.labels_per_annotator() >= FEWEST) & (right < MAX_RIGHT * most)
    exchanges = {r: _best(excess[r]) for r in np.flatnonzero(doubtful).tolist()}
    clear = {r: follows(found, r, each) for r, each in exchanges.items()}
    people = np.array(
        sorted(r for r in sorted(clear, key=lambda r: -clear[r])[:MAX_PEOPLE] if clear[r] > MIN_FOLLOWING)
    )
    if len(people) < FEWEST_MEMBERS:
        return []
    links = np.array(
        [[follows(found, r, exchanges[s]) > MIN_FOLLOWING for s in people.tolist()] for r in people.tolist()]
    )
    _, group = connected_components(csr_array(links & links.T), directed=False)
    groups = [people[group == k] for k in range(group.max() + 1)]
    rings = [Ring(some, _best(excess[some].sum(0))) for some in groups if len(some) >= FEWEST_MEMBERS]
    return sorted(rings, key=lambda ring: -len(ring.members))


def follows(found: LeftOut, annotator: int, exchange: IntArray) -> float:
    r"""Standard deviations by which an annotator's labels follow an exchange of classes rather than the classes.

    With :math:`d_i(l) = q_i^{-r}(\sigma^{-1}(l)) - q_i^{-r}(l)`, the sum of :math:`d_i(y_i) - \sum_l h_l d_i(l)` over
    its standard deviation if labels were given by habit h alone.
    """
    rows = np.flatnonzero(found.crowd.annotators == annotator)
    q, habit = found.posterior[rows], found.habits[annotator]
    meant = np.empty(len(exchange), dtype=np.int64)
    meant[exchange] = np.arange(len(exchange))
    gain = q[:, meant] - q
    chance = gain @ habit
    spread = float(np.sqrt(np.sum((gain**2) @ habit - chance**2)))
    total = float(np.sum(gain[np.arange(len(rows)), found.crowd.labels[rows]] - chance))
    return total / spread if spread > 1e-9 else 0.0


def _excess(found: LeftOut) -> FloatArray:
    """(R, C, C) expected counts of labels by class, less what each annotator's habit gives by chance."""
    counts = found.crowd.expected_counts(found.posterior)
    return np.asarray(counts - counts.sum(2, keepdims=True) * found.habits[:, None, :])


def _best(excess: FloatArray) -> IntArray:
    """What each class is called, if every class has another name; ties keep the name."""
    return np.asarray(linear_sum_assignment(excess + 1e-9 * np.eye(len(excess)), maximize=True)[1], dtype=np.int64)


# Followers: annotators who make the common mistake nearly always, where others make it sometimes.

COMMON_MISTAKE = 0.1
"""Share of the typical annotator's labels from which on a mistake is common."""
MORE_THAN_USUAL = 0.2
"""By how much the share of deliberate mistakes is above the upper quartile of the crowd, at least."""
MIN_DELIBERATE, MAX_DELIBERATE = 0.4, 0.75
"""Ends of the share that is tested."""
MIN_MET = 3.0
"""Tasks of a class from which on an annotator's answers to it count."""
MOST_ANSWERS = 0.5
"""Share of the answers to a class that are the common mistake."""
MOST_CLASSES = 0.75
"""Share of the classes that have a common mistake for which that is so."""


class Following(NamedTuple):
    """How often annotators make the common mistake on purpose, and how surely it is too often.

    Attributes
    ----------
    share : (R,)
        Estimated share of deliberate answers; NaN where no class has a common mistake.
    p_value : (R,)
        Of the hypothesis that the share is what honest people of this crowd have at most; NaN where too few labels
        were given.
    """

    share: FloatArray
    p_value: FloatArray


def common_mistakes(matrices: FloatArray, least: float = 0.0) -> IntArray:
    """(..., C) what every class is mostly taken for by mistake; itself where that is rarer than ``least``, or never.

    >>> common_mistakes(np.array([[0.8, 0.2, 0.0], [0.0, 1.0, 0.0], [0.3, 0.1, 0.6]])).tolist()
    [1, 1, 0]
    """
    wrong = matrices * (1 - np.eye(matrices.shape[-1]))
    common = (wrong.max(-1) > 0) & (wrong.max(-1) >= least)
    return np.where(common, wrong.argmax(-1), np.arange(matrices.shape[-1]))


def following(found: LeftOut) -> Following:
    r"""Whether an annotator's answers follow the common mistakes more often than those of others explain.

    With t(c) the most frequent mistake of the typical annotator about class c, who means to follow says
    :math:`e_i^r(l) = \sum_{c : t(c) = l} q_i^{-r}(c)`. Labels are scored by the likelihood ratio

    .. math::
        \lambda_i^r(l) = \log \frac{\tfrac12 e_i^r(l) + \tfrac12 m_i^r(l)}{m_i^r(l)}

    against m, what the typical annotator says, who makes the common mistakes as often as others do. Share and p-value
    are found as those of :func:`attention`, at 0.2 above the upper quartile of the crowd's shares, and from 0.4 to
    0.75: honest people differ in how often they make a common mistake.
    """
    crowd = found.crowd
    mistakes = common_mistakes(found.typical, COMMON_MISTAKE)
    usual = found.expected
    follow = np.asarray(found.posterior @ np.eye(crowd.n_classes)[mistakes])
    scores = np.log(SCORED * follow / np.maximum(usual, MIN_PROBABILITY) + 1 - SCORED)
    score = scores[np.arange(crowd.n_annotations), crowd.labels]
    by_chance = (usual * scores).sum(1)
    room, above = found.sums((follow * scores).sum(1) - by_chance), found.sums(score - by_chance)
    any_mistake = (mistakes != np.arange(crowd.n_classes)).any()
    share = np.where((room > 1e-9) & any_mistake, above / np.maximum(room, 1e-9), np.nan)
    tested = (crowd.labels_per_annotator() >= FEWEST) & np.isfinite(share)
    if not tested.any():
        return Following(share, np.full(len(share), np.nan))
    honest = np.quantile(share[tested], 0.75) + MORE_THAN_USUAL
    most = float(np.clip(honest, MIN_DELIBERATE, MAX_DELIBERATE))
    proba = most * follow + (1 - most) * usual
    mean = (proba * scores).sum(1)
    variance = found.sums((proba * scores**2).sum(1) - mean**2)
    p_value = ndtr(-found.sums(score - mean) / np.sqrt(np.maximum(variance, 1e-300)))
    return Following(share, np.where(tested, p_value, np.nan))


def follows_all(found: LeftOut) -> BoolArray:
    """(R,) whether the common mistakes are most answers to most classes, and go towards two classes or more.

    Honest people may take one class for another nearly always, or say one class too often.
    """
    mistakes = common_mistakes(found.typical, COMMON_MISTAKE)
    counts = found.crowd.expected_counts(found.posterior)
    met = counts.sum(2)
    confused = (mistakes != np.arange(len(mistakes))) & (met >= MIN_MET)
    most = counts[:, np.arange(len(mistakes)), mistakes] > MOST_ANSWERS * met
    said = ((most & confused)[:, :, None] & (mistakes[:, None] == np.arange(len(mistakes)))).any(1).sum(1)
    return np.asarray(((most & confused).sum(1) >= MOST_CLASSES * confused.sum(1)) & (said > 1))


# Copies: pairs of annotators who agree on their mistakes beyond what their own confusion explains.

MIN_SHARED = 20
"""Common tasks of two annotators who are compared."""
MAX_PAIRS = 3_000_000
"""Pairs of labels of one task that are compared; of more, those of random tasks are."""
COPIED = 0.15
"""Share of the answers that must be copied, beyond what pairs of this crowd seem to copy in the mean."""
PAIR_POOLING = 5.0
"""Labels per class that the typical annotator's matrix counts beside a pair's labels on common tasks."""
OUTLIER = 3.0


class Copies(NamedTuple):
    """Pairs of annotators with enough common tasks; all arrays have one entry for each.

    Attributes
    ----------
    first, second : annotators
    shared : number of common tasks
    agreed : on how many of them both gave the same label
    expected : on how many they would, by what confusion explains
    mistakes : on how many the first or second label is wrong, by the labels of all others
    agreed_mistakes : on how many of these both gave the same wrong label
    p_value : of the hypothesis that no more than a small share is copied
    """

    first: IntArray
    second: IntArray
    shared: IntArray
    agreed: IntArray
    expected: FloatArray
    mistakes: IntArray
    agreed_mistakes: IntArray
    p_value: FloatArray


def find_copies(found: LeftOut, excluded: BoolArray, seed: int = 0) -> Copies:
    r"""Which pairs of annotators agree more often than two people would who only see the same task.

    By the labels of all others, :math:`q_i^{-rs}`, and the matrices of both on their common tasks, two honest people
    agree on a task with probability

    .. math:: e_i = \sum_c q_i^{-rs}(c) \sum_l \pi^r_{cl} \pi^s_{cl}

    A common confusion is part of both matrices, and so of e: it explains why they make the same mistakes. If a share
    :math:`\kappa` is copied, they agree with :math:`e + \kappa (1 - e)`. Tasks that mislead many let all pairs agree
    too often, so the mean :math:`\bar\kappa` of the crowd's pairs is added to what is allowed:

    .. math::
        z = \frac{\sum_i [y_i^r = y_i^s] - \bar e_i}{\sqrt{\sum_i \bar e_i (1 - \bar e_i)}}, \qquad
        \bar e = e + (0.15 + \bar\kappa) (1 - e)

    Parameters
    ----------
    found : LeftOut
    excluded : (R,) bool
        Annotators who are not compared: of two who always say the same class, neither copies.
    """
    crowd, R = found.crowd, found.crowd.n_annotators
    first, second = _label_pairs(found, excluded, np.random.default_rng(seed))
    keys, pair = np.unique(crowd.annotators[first].astype(np.int64) * R + crowd.annotators[second], return_inverse=True)
    joint = found.log_joint[crowd.tasks[first]] - found.log_prob[first] - found.log_prob[second]
    q = np.asarray(softmax(joint, axis=1))  # of the task without either label
    labels = crowd.labels[first], crowd.labels[second]
    e = _agreement(found, labels, q, pair, len(keys))
    same, best = labels[0] == labels[1], q.argmax(1)
    wrong = (labels[0] != best) | (labels[1] != best)

    def sums(values: npt.NDArray[Any]) -> FloatArray:
        return grouped_sums(pair, values, len(keys))

    shared, agreed, expected = np.bincount(pair, minlength=len(keys)), sums(same), sums(e)
    usual = (agreed - expected) / np.sqrt(np.maximum(sums(e * (1 - e)), 1e-9)) < OUTLIER
    mean = (agreed - expected)[usual].sum() / max((shared - expected)[usual].sum(), 1e-9)
    allowed = e + min(COPIED + max(0.0, float(mean)), 1.0) * (1 - e)
    z = (agreed - sums(allowed)) / np.sqrt(np.maximum(sums(allowed * (1 - allowed)), 1e-9))
    kept = np.flatnonzero(shared >= MIN_SHARED)
    numbers = [each[kept].astype(np.int64) for each in (shared, agreed, sums(wrong), sums(wrong & same))]
    both, equal, mistakes, equal_mistakes = numbers
    people = keys[kept] // R, keys[kept] % R
    return Copies(*people, both, equal, expected[kept], mistakes, equal_mistakes, ndtr(-z[kept]))


def _label_pairs(found: LeftOut, excluded: BoolArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Every two labels of the same task, of every task or of random ones."""
    crowd = found.crowd
    kept = np.flatnonzero(~excluded[crowd.annotators])
    per_task = np.bincount(crowd.tasks[kept], minlength=crowd.n_tasks)
    order = rng.permutation(crowd.n_tasks)
    compared = np.zeros(crowd.n_tasks, dtype=bool)
    compared[order[np.cumsum(per_task[order] * (per_task[order] - 1) // 2) <= MAX_PAIRS]] = True
    kept = kept[compared[crowd.tasks[kept]]]
    first, second = pairs_within_tasks(crowd.tasks[kept])
    return kept[first], kept[second]


def pairs_within_tasks(tasks: npt.NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Positions of every two labels of one task, by the sorted tasks of labels.

    >>> [some.tolist() for some in pairs_within_tasks(np.array([0, 0, 0, 2, 3, 3]))]
    [[0, 1, 4, 0], [1, 2, 5, 2]]
    """
    _, starts, sizes = np.unique(tasks, return_index=True, return_counts=True)
    ends = np.repeat(starts + sizes, sizes)
    place = np.arange(len(tasks))
    found = [np.flatnonzero(place + ahead < ends) for ahead in range(1, int(sizes.max(initial=1)))]
    first = np.concatenate([np.empty(0, dtype=np.int64), *found])
    return first, first + np.repeat(np.arange(1, len(found) + 1), [len(each) for each in found])


def _agreement(
    found: LeftOut, labels: tuple[npt.NDArray[Any], npt.NDArray[Any]], q: FloatArray, pair: IntArray, n: int
) -> FloatArray:
    """(pairs of labels,) how probably two people agree who only see the same task, by their labels on common tasks.

    Their matrices are by labels of others alone: by its posterior, a pair that outvotes the others would seem right.
    """
    C, rows = found.crowd.n_classes, []
    for own in labels:
        counts = grouped_sums(pair * C + own, q, n * C).reshape(n, C, C).transpose(0, 2, 1)
        pooled = counts + PAIR_POOLING * found.typical
        rows.append(pooled / pooled.sum(2, keepdims=True))
    by_class = np.einsum("pcl,pcl->pc", *rows)
    return np.asarray((q * by_class[pair]).sum(1))


# All tests together, and the labels that are left without those who are flagged.

MAX_CARELESS_P_VALUE = 0.05
"""P-value of careful answers, below which somebody may be called careless, whatever the others of the crowd do."""
FROM_THE_START = 0.1
"""Probability of having been careless from the start, above which nobody is said to have turned."""
MAX_DEPENDENCE_P_VALUE = 0.005
"""P-value of independence, below which answers depend on the task."""
MAJORITY = 0.5
"""Share of the labels from which on those who seem to exchange classes are rather right."""
MIN_COPIED_SHARE = 0.5
"""Share of the answers that seem to be copied by a pair that is named. Families of language models stay below."""


@dataclass(frozen=True, eq=False)
class Detections:
    """Who answers without regard to the task, exchanges classes, copies, or turned careless.

    At most 5 % of those who are named are expected to be false alarms, for each kind; people who are careless and
    people who turned are controlled together.

    Attributes
    ----------
    attention : Attention
        How careful everybody is.
    careless : (n,) annotators whose answers do not depend on the task
    rings : groups who exchange classes in the same way
    copies : Copies
        Flagged pairs.
    turned : (n,) annotators whose answers no longer depend on the task
    before : (R,)
        Number of labels before the turn of those who turned.
    followers : (n,) annotators who make the common mistakes on purpose
    upside_down : float
        Share of the labels of a group who exchange classes, if that is more than half: the posterior then rather has
        the names of a smaller group. Such a group is not among ``rings``; 0 where there is none.
    """

    attention: Attention
    careless: IntArray
    rings: list[Ring]
    copies: Copies
    turned: IntArray
    before: IntArray
    followers: IntArray
    upside_down: float = 0.0

    @property
    def by_kind(self) -> dict[str, IntArray]:
        """Annotators of each kind: careless, turned, exchange (of classes), followers and copies."""
        return {
            "careless": self.careless,
            "turned": self.turned,
            "exchange": np.concatenate([self.careless[:0], *(ring.members for ring in self.rings)]),
            "followers": self.followers,
            "copies": np.union1d(self.copies.first, self.copies.second),
        }

    def trusted(self, found: LeftOut, *, rings: bool = True) -> BoolArray:
        """(n_annotations,) the labels that are left without careless ones, followers and copies.

        Those who turned keep what they said before. Of people who copy from each other, one label of a task counts:
        that of the annotator with the most labels. The labels of rings are kept unless ``rings`` is false: a model
        with a matrix for each annotator reads an exchange backwards, and a vote does not.
        """
        crowd = found.crowd
        out = np.append(self.careless, self.followers)
        out = out if rings else np.append(out, self.by_kind["exchange"])
        kept = ~np.isin(crowd.annotators, out)
        if len(self.turned):
            kept &= ~(found.after(self.before) & np.isin(crowd.annotators, self.turned))
        return kept & ~_repeated(crowd, self.copies)


def detect(found: LeftOut, *, level: float = 0.05, seed: int = 0) -> Detections:
    """Annotators who are careless, collude or copy, by the labels of the others.

    Parameters
    ----------
    found : LeftOut
        See :func:`left_out`. Without times, nobody is said to have turned.
    level : float
        Expected share of false alarms among those who are named, for each kind.
    seed : int
        Of the shuffles.

    Examples
    --------
    >>> from conal.aggregation import DawidSkene
    >>> from conal.datasets import CrowdSettings, simulate_crowd
    >>> z = np.arange(400) % 4
    >>> settings = CrowdSettings(n_annotators=10, adversaries="clickers", adversary_share=0.2, seed=1)
    >>> crowd, truth = simulate_crowd(z, np.ones((400, 1)), range(4), settings)
    >>> found = detect(left_out(crowd, DawidSkene().fit(crowd).probas_))
    >>> found.careless.tolist() == np.flatnonzero(truth.adversaries.kind == "clickers").tolist()
    True
    """
    crowd = found.crowd
    care, people = attention(found), population(found)
    flagged = likely(1 - people.careless - people.turned, level)
    little_care = care.p_value < MAX_CARELESS_P_VALUE
    from_the_start = little_care & (people.careless > FROM_THE_START)
    turned = np.flatnonzero(flagged & (people.turned > people.careless) & ~from_the_start)
    low = np.setdiff1d(np.flatnonzero(flagged & little_care), turned)
    followers = np.flatnonzero(discoveries(following(found).p_value, level) & follows_all(found))
    rings = [_joined(found, ring, low) for ring in find_rings(found)]
    rings = [ring._replace(members=np.setdiff1d(ring.members, followers)) for ring in rings]
    rings = [ring for ring in rings if len(ring.members) >= FEWEST_MEMBERS]
    shares = [float(np.isin(crowd.annotators, ring.members).mean()) for ring in rings]
    members = np.concatenate([followers, *(ring.members for ring in rings)])
    rest = np.setdiff1d(low, members).tolist()
    careless = np.array([r for r in rest if dependence(found, r, seed) >= MAX_DEPENDENCE_P_VALUE], dtype=np.int64)
    excluded = np.isin(np.arange(crowd.n_annotators), [*careless, *members])
    copies = _flagged(find_copies(found, excluded, seed), crowd, level)
    upside_down = max((share for share in shares if share > MAJORITY), default=0.0)
    rings = [ring for ring, share in zip(rings, shares, strict=True) if share <= MAJORITY]
    return Detections(care, careless, rings, copies, turned, people.before, followers, upside_down)


def _joined(found: LeftOut, ring: Ring, low: IntArray) -> Ring:
    """The ring, with others who are not careful and follow its exchange, if they alone gave too few labels to tell."""
    others = np.setdiff1d(low, ring.members).tolist()
    more = [r for r in others if follows(found, r, ring.exchange) > MIN_FOLLOWING]
    return ring._replace(members=np.union1d(ring.members, np.array(more, dtype=np.int64)))


def _flagged(pairs: Copies, crowd: Annotations, level: float) -> Copies:
    """Pairs that are named: annotators by their best pair, corrected for the number of their pairs (Bonferroni)."""
    R = crowd.n_annotators
    both = np.concatenate([pairs.first, pairs.second])
    n_pairs = np.bincount(both, minlength=R)
    best = np.full(R, np.nan)
    np.fmin.at(best, both, np.tile(pairs.p_value, 2))
    flagged = discoveries(np.minimum(best * n_pairs, 1.0), level)
    limit = best[flagged] * n_pairs[flagged]
    cut = limit.max() if len(limit) else -1.0
    fewer = np.minimum(n_pairs[pairs.first], n_pairs[pairs.second])
    kept = flagged[pairs.first] & flagged[pairs.second] & (pairs.p_value * fewer <= cut)
    kept &= pairs.agreed - pairs.expected >= MIN_COPIED_SHARE * (pairs.shared - pairs.expected)
    return pairs._replace(**{name: column[kept] for name, column in pairs._asdict().items()})


def _repeated(crowd: Annotations, copies: Copies) -> npt.NDArray[np.bool_]:
    """(n_annotations,) labels on tasks that the annotator with more labels of a pair labelled too."""
    given, R = crowd.labels_per_annotator(), crowd.n_annotators
    keys = crowd.tasks.astype(np.int64) * R + crowd.annotators
    repeated = np.zeros(crowd.n_annotations, dtype=bool)
    rank = np.argsort(np.argsort(-given, kind="stable"))
    for r, s in zip(copies.first.tolist(), copies.second.tolist(), strict=True):
        source, copyist = (r, s) if rank[r] < rank[s] else (s, r)
        mine = np.flatnonzero(crowd.annotators == copyist)
        repeated[mine] |= np.isin(crowd.tasks[mine].astype(np.int64) * R + source, keys)
    return repeated


class Defence(NamedTuple):
    """Kept annotations, boolean mask of all annotations, and the detections."""

    annotations: Annotations
    kept: BoolArray
    detections: Detections

    def __str__(self) -> str:
        """How many labels are left out, and of whom, without names."""
        out = int((~self.kept).sum())
        if not out:
            return "--defend: no label is left out"
        kinds = {
            "careless": "whose answers do not depend on the task",
            "exchange": "who exchange classes",
            "followers": "who follow the common mistakes",
            "turned": "whose answers no longer depend on the task",
            "copies": "who give the same answers as somebody else",
        }
        people = self.detections.by_kind
        said = "; ".join(f"{len(people[kind]):,} {what}" for kind, what in kinds.items() if len(people[kind]))
        return f"--defend: {out:,} of {len(self.kept):,} labels are left out. Annotators: {said}"


def defended(
    crowd: Annotations, posterior: FloatArray, *, rings: bool = True, times: npt.ArrayLike | None = None
) -> Defence:
    """The annotations without answers that do not depend on the task, and with copies counted once.

    A task keeps its labels if all of them would be left out.

    Parameters
    ----------
    crowd : Annotations
    posterior : (N, C)
        Of the tasks' classes by all labels, such as that of Dawid-Skene.
    rings : bool
        Whether the labels of people who exchange classes stay: a matrix for each annotator reads them backwards, and
        votes do not.
    times : (n_annotations,), optional
        When each label was given; those of the annotations by default, if they have any.

    Examples
    --------
    >>> from conal.aggregation import DawidSkene
    >>> from conal.datasets import CrowdSettings, simulate_crowd
    >>> settings = CrowdSettings(n_annotators=10, adversaries="clickers", adversary_share=0.2, seed=1)
    >>> crowd, _ = simulate_crowd(np.arange(400) % 4, np.ones((400, 1)), range(4), settings)
    >>> print(defended(crowd, DawidSkene().fit(crowd).probas_))
    --defend: 217 of 1,184 labels are left out. Annotators: 2 whose answers do not depend on the task
    """
    found = left_out(crowd, posterior, times=crowd.times if times is None else times)
    return without(found, detect(found), rings=rings)


def without(found: LeftOut, detections: Detections, *, rings: bool = True) -> Defence:
    """As :func:`defended`, once it is known who is flagged."""
    crowd = found.crowd
    kept = detections.trusted(found, rings=rings)
    kept = kept | (np.bincount(crowd.tasks[kept], minlength=crowd.n_tasks)[crowd.tasks] == 0)
    return Defence(crowd.select(kept), kept, detections)
