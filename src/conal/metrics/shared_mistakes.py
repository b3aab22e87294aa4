"""Do annotators err alike: the same mistakes (co-direction), and how many independent annotators labels are worth."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform
from scipy.special import stdtrit

from conal._arrays import BoolArray, FloatArray, IntArray, grouped_sums
from conal.data.annotations import Annotations
from conal.data.encoding import Names
from conal.metrics.classification import task_posterior
from conal.parameters import share

# The jackknife: how much a statistic varies, from its values with parts of the data left out.


def jackknife_margin(left_out: FloatArray, confidence: float) -> FloatArray:
    r"""Half the width of the interval of a statistic, from its values (n, ...) with each of n parts left out.

    .. math::
        t_{n-1} \sqrt{\tfrac{n - 1}{n} \sum_k (\theta_{(-k)} - \bar\theta)^2}

    References
    ----------
    Efron and Tibshirani (1993). An introduction to the bootstrap. Chapman and Hall. Chapter 11.

    Examples
    --------
    Of a mean, it is the usual interval.

    >>> values = np.array([1.0, 2.0, 3.0, 6.0])
    >>> round(float(jackknife_margin((values.sum() - values) / 3, 0.95)), 3)
    3.437
    >>> round(float(stdtrit(3, 0.975) * values.std(ddof=1) / 2), 3)
    3.437
    """
    n = len(left_out)
    spread = np.sqrt((n - 1) / n * ((left_out - left_out.mean(0)) ** 2).sum(0))
    return np.asarray(stdtrit(max(n - 1, 1), (1 + confidence) / 2) * spread)


# Co-direction: do different people make the same mistakes, as far as one person makes the same mistake again?

# Values and intervals by inferred against true labels on 280 simulated crowds: studies/results/0.2.0/commonness.csv.
MIN_MISTAKES = 2.0
"""An annotator counts for a class with at least this many expected mistakes on it: fewer make no pair."""
MIN_ANNOTATORS = 3
WIDEST = 1.0
"""A wider interval says nothing."""
RESOLUTION = 0.02
"""Intervals end at least this far from the value: inferred labels are never better than that."""
MIN_PAIRS = 1e-9


class Estimate(NamedTuple):
    """A value with its interval; all NaN, with the reason, where the data do not tell.

    Attributes
    ----------
    value, low, high : float
    reason : str
        Why there is no value; empty if there is one.
    """

    value: float
    low: float
    high: float
    reason: str = ""

    @classmethod
    def unknown(cls, reason: str) -> Estimate:
        """No value, for this reason."""
        return cls(np.nan, np.nan, np.nan, reason)


class CoDirection(NamedTuple):
    """How far mistakes have a direction that people share.

    Attributes
    ----------
    overall : Estimate
    by_class : list of Estimate
        For the mistakes on each true class.
    by_annotator : (R,)
        Of the annotator's mistakes with those of the others; NaN for annotators with too few mistakes, and where
        ``overall`` has no value.
    mistakes : (R,)
        Expected number of mistakes of every annotator.
    """

    overall: Estimate
    by_class: list[Estimate]
    by_annotator: FloatArray
    mistakes: FloatArray


def co_direction(
    data: Any,
    posterior: npt.ArrayLike,
    *,
    confusion: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    min_labels_per_class: float = 0.0,
) -> CoDirection:
    r"""Of two mistakes on tasks of the same true class: are they the same mistake, whoever makes them?

    Take two mistakes on different tasks of one true class. Let b be the probability that they are the same wrong label
    if two people made them, w if one person did, and 1 / (C - 1) what chance gives. Co-direction is

    .. math::
        \frac{b - \tfrac{1}{C - 1}}{w - \tfrac{1}{C - 1}}

    0 if everybody has confusions of their own, 1 if all confuse the same classes. It is *not* the share of mistakes
    that are common: simulated crowds in which half of all labels come from a common confusion have 0.44 to 0.61.
    Neither is it about single tasks; see :func:`effective_number`.

    Both probabilities are U-statistics: no mistake is paired with itself, and two people's mistakes on one task are no
    pair. Everybody counts alike, however many labels they gave. Mistakes are expected ones, by the posterior. Its own
    errors blur directions, and the label that is judged has a part in it. So the statistic is computed a second time
    with posteriors that leave this label out (if ``confusion`` is given), which errs to the other side; the interval
    covers both, with the jackknife over annotators.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    posterior : (N, C)
        Probability of every class for every task; one-hot rows where the truth is known.
    confusion : (R, C, C), optional
        P(observed | true) of every annotator, by which an annotator's own label is taken out of the posterior.
    confidence : float
        Of the intervals.
    min_labels_per_class : float
        Without a value if half of the annotators gave fewer labels than this times the number of classes. Labels that
        were inferred from such crowds are too often wrong to judge mistakes by.

    Examples
    --------
    Six people take 0 for 1; then three of them take it for 2.

    >>> truth = np.zeros(12, dtype=int)
    >>> alike = np.where(np.arange(12)[:, None] % 6 == np.arange(6), 1, 0)
    >>> co_direction(Annotations.from_matrix(alike, classes=range(3)), np.eye(3)[truth]).overall.value
    1.0
    >>> apart = np.where(np.arange(6) < 3, alike, 2 * alike)
    >>> round(co_direction(Annotations.from_matrix(apart, classes=range(3)), np.eye(3)[truth]).overall.value, 2)
    -0.2
    """
    crowd = Annotations.of(data)
    q = task_posterior(posterior, crowd)
    share().check("confidence", confidence)
    first = _Mistakes(crowd, q[crowd.tasks])
    sides = [first]
    if confusion is not None:
        sides.append(_Mistakes(crowd, _without_own(crowd, q, np.asarray(confusion, dtype=np.float64))))
    reason, every = _reason(crowd, min_labels_per_class), np.arange(crowd.n_classes)
    overall, *by_class = (
        Estimate.unknown(reason) if reason else _estimate(sides, classes, confidence)
        for classes in (every, *every[:, None])
    )
    by_annotator = first.by_annotator() if np.isfinite(overall.value) else np.full(crowd.n_annotators, np.nan)
    return CoDirection(overall, by_class, by_annotator, first.mistakes)


def _reason(crowd: Annotations, min_labels_per_class: float) -> str:
    if crowd.n_classes < 3:
        return "with two classes there is only one possible mistake"
    given = crowd.labels_per_annotator()
    given = given[given > 0]
    if len(given) and np.median(given) < min_labels_per_class * crowd.n_classes:
        return "most annotators gave too few labels"
    return ""


def _without_own(crowd: Annotations, q: FloatArray, confusion: FloatArray) -> FloatArray:
    """(P, C) posterior of every annotation's task without the annotation itself; certain ones stay certain."""
    others = q[crowd.tasks] / np.maximum(confusion[crowd.annotators, :, crowd.labels], MIN_PAIRS)
    return np.asarray(others / np.maximum(others.sum(1, keepdims=True), MIN_PAIRS))


class _Mistakes:
    """Sums over pairs of mistakes, by class and annotator, so that annotators can be left out without a new pass.

    ``same`` and ``pairs`` are (2, C, R): index 0 within an annotator, 1 with all others. A pair counts 1 / (M_r M_s),
    with M the annotator's mistakes on the class: everybody counts alike.
    """

    def __init__(self, crowd: Annotations, weights: FloatArray) -> None:
        self.chance = 1.0 / max(crowd.n_classes - 1, 1)
        wrong = weights.copy()
        wrong[np.arange(len(wrong)), crowd.labels] = 0.0
        self.mistakes = grouped_sums(crowd.annotators, wrong.sum(1), crowd.n_annotators)
        found = np.array([self._of_class(crowd, wrong[:, c]) for c in range(crowd.n_classes)])
        self.same, self.pairs = found.transpose(1, 2, 0, 3)

    @staticmethod
    def _of_class(crowd: Annotations, wrong: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(2, R) same and all pairs of the mistakes on one class; ``wrong`` (P,) weighs the labels."""
        R, C = crowd.n_annotators, crowd.n_classes
        by_label = grouped_sums(crowd.annotators.astype(np.int64) * C + crowd.labels, wrong, R * C).reshape(R, C)
        total = by_label.sum(1)
        counts = total >= MIN_MISTAKES
        scale = np.where(counts, 1.0 / np.maximum(total, MIN_PAIRS), 0.0)
        share = wrong * scale[crowd.annotators]
        itself = grouped_sums(crowd.annotators, share**2, R)
        p = by_label * scale[:, None]
        within_same, within_all = (p**2).sum(1) - itself, counts - itself
        at_task = np.zeros((crowd.n_tasks, C))
        np.add.at(at_task, (crowd.tasks, crowd.labels), share)
        there_same = share * (at_task[crowd.tasks, crowd.labels] - share)
        there_all = share * (at_task.sum(1)[crowd.tasks] - share)
        same_task, all_task = (grouped_sums(crowd.annotators, each, R) for each in (there_same, there_all))
        between_same = (p * (p.sum(0) - p)).sum(1) - same_task
        between_all = counts * (counts.sum() - 1.0) - all_task
        return np.array([within_same, between_same]), np.array([within_all, between_all])

    def ratio(self, classes: IntArray) -> tuple[float, float]:
        """Co-direction and w - chance, over some classes."""
        found = self._ratios(classes, np.zeros((2, 2, 1)))
        return float(found[0, 0]), float(found[0, 1])

    def ratios_without(self, classes: IntArray, who: IntArray) -> FloatArray:
        """(n, 2) the same with each of these annotators left out; a pair of two is in the sums of both."""
        times = np.array([1, 2])[:, None]
        return self._ratios(
            classes, np.array([times * table[:, classes].sum(1)[:, who] for table in (self.same, self.pairs)])
        )

    def _ratios(self, classes: IntArray, left_out: FloatArray) -> FloatArray:
        """(n, 2) from the sums over all annotators, less ``left_out[same or pairs, within or between, n]``."""
        totals = np.array([table[:, classes].sum((1, 2)) for table in (self.same, self.pairs)])[:, :, None]
        same, pairs = totals - left_out
        within, between = same / np.maximum(pairs, MIN_PAIRS) - self.chance
        ratio = np.where(within > 0, between / np.where(within > 0, within, 1.0), np.nan)
        return np.column_stack([ratio, within])

    def who(self, classes: IntArray) -> IntArray:
        """Annotators who count."""
        return np.flatnonzero(self.pairs[0][classes].sum(0) > 0)

    def by_annotator(self) -> FloatArray:
        """(R,) b of the annotator with all others, against w of all."""
        _, within = self.ratio(np.arange(len(self.same[0])))
        same, pairs = self.same[1].sum(0), self.pairs[1].sum(0)
        return np.where(pairs > 0, (same / np.maximum(pairs, MIN_PAIRS) - self.chance) / within, np.nan)


def _estimate(sides: list[_Mistakes], classes: IntArray, confidence: float) -> Estimate:
    """The value by the first side, and an interval that covers the jackknife intervals of all."""
    n = len(sides[0].who(classes))
    if n < MIN_ANNOTATORS:
        return Estimate.unknown("too few annotators made mistakes")
    ends, within = [], []
    for side in sides:
        who = side.who(classes)
        left = side.ratios_without(classes, who)
        value, room = side.ratio(classes)
        margin = jackknife_margin(left, confidence)
        ends += [value - margin[0], value + margin[0]]
        within.append(room - margin[1])
    if not min(within) > 0:
        return Estimate.unknown("single annotators have no clear direction either")
    value, low, high = sides[0].ratio(classes)[0], min(ends), max(ends)
    if len(sides) > 1:  # by inferred labels
        low, high = min(low, value - RESOLUTION), max(high, value + RESOLUTION)
    if not high - low <= WIDEST:
        return Estimate.unknown("too few mistakes to tell")
    return Estimate(value, low, high)


# Effective number of annotators: how many independent ones a task's labels are worth.

PARTS = 20
"""Parts of the tasks, each of which the jackknife leaves out once."""
MIN_SCALE = 1e-12
MAX_ANNOTATORS = 300
"""Matrices of pairs have this size at most; of a larger crowd, those with the most labels are compared."""
TOGETHER = 0.3
"""Mean correlation from which on annotators form a group."""
MIN_SHARED = 20
"""Pairs with fewer common tasks do not decide about groups, nor about the order."""
FALSE_GROUPS = 0.05
"""Probability of any group where all err independently, at most: a pair counts if it is beyond chance among all."""


class EffectiveNumber(NamedTuple):
    """How many independent annotators there are.

    Attributes
    ----------
    value, low, high : float
        The effective number, and its jackknife interval; NaN without pairs of annotators on common tasks.
    n : float
        Labels per task that it compares with.
    rho : float
        Mean correlation of the errors of two annotators.
    annotators : (R,)
        The user's names, in the order of ``correlation``.
    correlation : (R, R)
        Correlation of errors in pairs, beyond -1 and 1 by chance where common tasks are few; NaN without any, and for
        annotators whose matrices leave no error unexplained.
    groups : list of arrays
        Names of annotators who err together, largest groups first: errors correlate by 0.3 or more in the mean of the
        group, where pairs count whose correlation is not due to chance, among so many pairs.
    order : (R,)
        Positions of the annotators in an order that puts those next to each other who err together.
    """

    value: float
    low: float
    high: float
    n: float
    rho: float
    annotators: Names
    correlation: FloatArray
    groups: list[Names]
    order: IntArray


def effective_number(data: Any, posterior: npt.ArrayLike, *, confidence: float = 0.95) -> EffectiveNumber:
    r"""How many independent annotators the labels of a task are worth, if they err on the same tasks.

    Let :math:`e_i^r` be 1 where annotator r is wrong on task i, minus r's mean :math:`p^r_c` over tasks of the same
    true class c: what r's own confusion matrix explains is gone. With :math:`\bar\rho` the mean over pairs of
    annotators of the correlation of their e over common tasks, and n labels per task,

    .. math::
        n_\text{eff} = \frac{n}{1 + (n - 1) \bar\rho}, \qquad
        \rho_{rs} = \frac{\sum_i e_i^r e_i^s}{\sqrt{v_{rs} v_{sr}}}, \qquad
        v_{rs} = \sum_i p^r_{z_i} (1 - p^r_{z_i})

    with sums over the tasks that both labelled.

    **With inferred labels this is an upper bound.** A mistake that most annotators share moves the inferred label, and
    so is no mistake any more. On juries of language models the bound is far above the value by true labels. With true
    labels of some tasks, pass these: it is an estimate then, and 50 random ones suffice on such juries.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    posterior : (N, C)
        Probability of every class for every task; one-hot where the truth is known, and zeros for tasks that are to be
        left out.
    confidence : float
        Of the interval, by the jackknife over twenty parts of the tasks.

    References
    ----------
    Kish (1965). Survey sampling. Wiley. The effective sample size of clusters.

    Examples
    --------
    Three annotators who are wrong on the same tasks are worth one.

    >>> truth = np.zeros(40, dtype=int)
    >>> labels = np.repeat((np.arange(40) % 4 == 0).astype(int)[:, None], 3, axis=1)
    >>> found = effective_number(Annotations.from_matrix(labels, classes=range(2)), np.eye(2)[truth])
    >>> found.value, found.rho, [group.tolist() for group in found.groups]
    (1.0, 1.0, [[0, 1, 2]])
    """
    crowd = Annotations.of(data)
    q = task_posterior(posterior, crowd)
    share().check("confidence", confidence)
    tasks = np.flatnonzero(q.sum(1) > 0)
    crowd, q = crowd[tasks], q[tasks]
    n = crowd.n_annotations / max(int((crowd.labels_per_task() > 0).sum()), 1)
    most = np.argsort(-crowd.labels_per_annotator(), kind="stable")[:MAX_ANNOTATORS]
    compared = np.sort(most)  # all, or those with the most labels if there are too many for a matrix of pairs
    products = _error_products(crowd, q, compared)
    empty = np.zeros((len(compared), len(compared)))
    both, squares, shared = (sum((found[k] for found in products), start=empty) for k in range(3))
    correlation = _correlation(both, squares)
    rho = _mean_of_pairs(correlation)
    value = _effective(n, rho)
    left = [_effective(n, _mean_of_pairs(_correlation(both - s, squares - v))) for s, v, _ in products]
    low, high = _interval(value, np.array(left), n, confidence)
    names = crowd.annotator_ids[compared]
    near = np.where(np.isfinite(correlation) & (shared >= MIN_SHARED), correlation, 0.0)
    groups = _groups(names, _tree(np.where(_beyond_chance(both, squares, shared), near, 0.0)))
    tree = _tree(near)
    order = np.arange(len(names)) if tree is None else np.asarray(leaves_list(tree), dtype=np.int64)
    return EffectiveNumber(value, low, high, n, rho, names, correlation, groups, order)


def _error_products(crowd: Annotations, q: FloatArray, compared: IntArray) -> list[tuple[FloatArray, ...]]:
    """Of every twentieth task, (R, R) each: sums of e_r e_s, of r's variance where s labelled too, and common tasks.

    The variance is that of all labels of r. The squares of e_r on common tasks are large just where the products
    are: with few common tasks, the ratio of the two is biased.
    """
    crowd = crowd.select(np.isin(crowd.annotators, compared))
    C, R = crowd.n_classes, len(compared)
    people, weights = np.searchsorted(compared, crowd.annotators), q[crowd.tasks]
    wrong = crowd.labels[:, None] != np.arange(C)
    rate = grouped_sums(people, weights * wrong, R) / np.maximum(grouped_sums(people, weights, R), MIN_SCALE)
    residuals, variances = wrong - rate[people], (rate * (1 - rate))[people]
    found: list[tuple[FloatArray, ...]] = []
    for part in range(min(PARTS, crowd.n_tasks)):
        kept = np.flatnonzero(crowd.tasks % PARTS == part)

        def table(values: FloatArray, kept: IntArray = kept) -> Any:
            return sparse.csr_array((values[kept], (crowd.tasks[kept], people[kept])), shape=(crowd.n_tasks, R))

        there = table(np.ones(len(people)))
        both, squares = np.zeros((2, R, R))
        for c in range(C):
            both += (table(residuals[:, c]).T @ table(residuals[:, c] * weights[:, c])).toarray()
            squares += (table(variances[:, c] * weights[:, c]).T @ there).toarray()
        found.append((both, squares, (there.T @ there).toarray()))
    return found


def _correlation(both: FloatArray, squares: FloatArray) -> FloatArray:
    scale = np.sqrt(np.maximum(squares * squares.T, 0.0))
    return np.where(scale > 1e-9, both / np.maximum(scale, MIN_SCALE), np.nan)


def _mean_of_pairs(correlation: FloatArray) -> float:
    pairs = correlation[np.triu_indices(len(correlation), 1)]
    pairs = pairs[np.isfinite(pairs)]
    return float(pairs.mean()) if len(pairs) else np.nan


def _effective(n: float, rho: float) -> float:
    """At most n: annotators whose errors repel each other are not worth more than independent ones."""
    return float(n / (1 + (n - 1) * max(rho, 0.0))) if np.isfinite(rho) else np.nan


def _interval(value: float, left: FloatArray, n: float, confidence: float) -> tuple[float, float]:
    """Jackknife of the logarithm, between 1 and n."""
    left = left[np.isfinite(left)]
    if not np.isfinite(value) or len(left) < 2:
        return np.nan, np.nan
    margin = float(np.exp(jackknife_margin(np.log(left), confidence)))
    return max(value / margin, min(1.0, value)), min(value * margin, max(n, value))


def _beyond_chance(both: FloatArray, squares: FloatArray, shared: FloatArray) -> BoolArray:
    """(R, R) the pairs whose common errors independent ones would not reach, by Bernstein's inequality.

    The normal approximation is too small where errors are rare. The level is divided by the number of pairs.
    """
    pairs = int((shared[np.triu_indices(len(shared), 1)] >= MIN_SHARED).sum())
    variance = squares * squares.T / np.maximum(shared, 1.0)
    least = 2 * np.log(max(pairs, 1) / FALSE_GROUPS) * (variance + np.maximum(both, 0.0) / 3)
    return np.asarray((both > 0) & (both**2 > least))


def _tree(near: FloatArray) -> FloatArray | None:
    """Annotators who err together, joined by average linkage; None for a single one."""
    if len(near) < 2:
        return None
    distance = np.clip(1 - near, 0.0, 2.0)
    np.fill_diagonal(distance, 0.0)
    return np.asarray(linkage(squareform(distance, checks=False), "average"))


def _groups(names: Names, tree: FloatArray | None) -> list[Names]:
    """Annotators whose errors correlate by 0.3 or more in the mean of the group."""
    if tree is None:
        return []
    found = fcluster(tree, 1 - TOGETHER, "distance")
    groups = [names[found == k] for k in np.unique(found)]
    return sorted((group for group in groups if len(group) > 1), key=len, reverse=True)
