"""Effective number of annotators: how many independent ones a task's labels are worth."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform

from conal.data.annotations import Annotations
from conal.data.encoding import Names
from conal.metrics.jackknife import jackknife_margin
from conal.metrics.validation import task_posterior
from conal.parameters import share

__all__ = ["EffectiveNumber", "effective_number"]

FloatArray = npt.NDArray[np.float64]

PARTS = 20
"""Parts of the tasks, each of which the jackknife leaves out once."""
LEAST = 1e-12
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
    order: npt.NDArray[np.int64]


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
    n = _labels_per_task(crowd)
    compared = _compared(crowd)
    errors = _Errors(crowd, q, compared)
    products = [errors.products(k) for k in range(min(PARTS, len(tasks)))]
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
    return EffectiveNumber(value, low, high, n, rho, names, correlation, groups, _order(names, _tree(near)))


def _compared(crowd: Annotations) -> npt.NDArray[np.int64]:
    """Codes of all annotators, or of those with the most labels if there are too many for a matrix of pairs."""
    most = np.argsort(-crowd.labels_per_annotator(), kind="stable")[:MAX_ANNOTATORS]
    return np.sort(most)


def _labels_per_task(crowd: Annotations) -> float:
    given = crowd.labels_per_task()
    given = given[given > 0]
    return float(given.mean()) if len(given) else 0.0


class _Errors:
    """Errors of the compared annotators, less what their own matrices explain, for every true class that is possible.

    ``residuals`` (P, C) is whether a label is wrong if c is true, minus the annotator's rate of errors on class c;
    ``variances`` (P, C) what its square is expected to be, by this rate.
    """

    def __init__(self, crowd: Annotations, q: FloatArray, compared: npt.NDArray[np.int64]) -> None:
        crowd = crowd.select(np.isin(crowd.annotators, compared))
        C, R = crowd.n_classes, len(compared)
        self.tasks, self.people = crowd.tasks, np.searchsorted(compared, crowd.annotators)
        self.shape = crowd.n_tasks, R
        self.weights = q[crowd.tasks]
        wrong = crowd.labels[:, None] != np.arange(C)
        cells = (self.people[:, None] * C + np.arange(C)).ravel()
        met = np.bincount(cells, weights=self.weights.ravel(), minlength=R * C)
        made = np.bincount(cells, weights=(self.weights * wrong).ravel(), minlength=R * C)
        rate = (made / np.maximum(met, LEAST)).reshape(R, C)
        self.residuals = wrong - rate[self.people]
        self.variances = (rate * (1 - rate))[self.people]

    def products(self, part: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(R, R) sums over every twentieth task of e_r e_s, of r's variance where s labelled too, and of common tasks.

        The variance is that of all labels of r. The squares of e_r on common tasks are large just where the products
        are: with few common tasks, the ratio of the two is biased.
        """
        kept = np.flatnonzero(self.tasks % PARTS == part)
        where = self.tasks[kept], self.people[kept]

        def table(values: FloatArray) -> Any:
            return sparse.csr_array((values, where), shape=self.shape)

        there = table(np.ones(len(kept)))
        both, squares = np.zeros((2, self.shape[1], self.shape[1]))
        for c in range(self.weights.shape[1]):
            weight, residuals = self.weights[kept, c], self.residuals[kept, c]
            both += (table(residuals).T @ table(residuals * weight)).toarray()
            squares += (table(self.variances[kept, c] * weight).T @ there).toarray()
        return both, squares, (there.T @ there).toarray()


def _correlation(both: FloatArray, squares: FloatArray) -> FloatArray:
    scale = np.sqrt(np.maximum(squares * squares.T, 0.0))
    return np.where(scale > 1e-9, both / np.maximum(scale, LEAST), np.nan)


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


def _beyond_chance(both: FloatArray, squares: FloatArray, shared: FloatArray) -> npt.NDArray[np.bool_]:
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


def _order(names: Names, tree: FloatArray | None) -> npt.NDArray[np.int64]:
    return np.arange(len(names)) if tree is None else np.asarray(leaves_list(tree), dtype=np.int64)
