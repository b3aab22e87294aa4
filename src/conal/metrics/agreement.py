"""Agreement of annotators beyond chance: coefficients with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from conal._support.arrays import row_slices
from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.parameters import one_of, share, whole

__all__ = ["Agreement", "cohen_kappa", "fleiss_kappa", "krippendorff_alpha"]

FloatArray = npt.NDArray[np.float64]

CHUNK_CELLS = 2**21
"""Replicates times tasks that are held at once, 16 MB."""


class Agreement(NamedTuple):
    """A coefficient and its bootstrap interval; both ends are None without bootstrap replicates."""

    value: float
    low: float | None
    high: float | None


class Units(NamedTuple):
    """Contributions of each task; a coefficient is a function of their sums over tasks.

    A bootstrap replicate counts task i w_i times, so its sums are products with the weights w.
    """

    disagreement: FloatArray  # (U,)
    shares: Any  # (U, C) sparse: what the task adds to each class


Coefficient = Callable[[FloatArray, FloatArray], FloatArray]
"""From summed disagreement (B,) and summed class shares (B, C) to the coefficient (B,)."""


def krippendorff_alpha(
    data: Any, level: Literal["nominal"] = "nominal", *, n_boot: int = 1000, confidence: float = 0.95, seed: int = 0
) -> Agreement:
    r"""Krippendorff's alpha: 1 for perfect agreement, 0 for agreement by chance, negative for less.

    Any number of annotators may have labelled each task. With :math:`n_{ic}` labels c for task i,
    :math:`m_i = \sum_c n_{ic}`, :math:`n_c = \sum_i n_{ic}` and :math:`n = \sum_c n_c`, over tasks with two or more
    labels (a single one cannot agree or disagree with anything):

    .. math::
        \alpha = 1 - \frac{D_o}{D_e}, \qquad
        D_o = \frac1n \sum_i \sum_{c \ne k} \frac{n_{ic} n_{ik}}{m_i - 1}, \qquad
        D_e = \sum_{c \ne k} \frac{n_c n_k}{n (n - 1)}

    Where all labels are one class, nothing is expected to differ and nothing does; alpha is then 1 by convention, also
    in a bootstrap replicate.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    level : {"nominal"}
        Classes differ or they do not; no order among them.
    n_boot : int
        Bootstrap replicates for the percentile interval; 0 for none. Tasks are drawn with replacement and both
        disagreements are computed again.
    confidence : float
        Share of replicates between the ends of the interval.
    seed : int

    References
    ----------
    Krippendorff (2011). Computing Krippendorff's alpha-reliability. University of Pennsylvania.

    Examples
    --------
    >>> round(krippendorff_alpha([[0, 0, -1], [1, 1, 1], [0, 1, -1], [1, -1, -1]], n_boot=0).value, 4)
    0.5
    """
    one_of("nominal").check("level", level)
    _check_bootstrap(n_boot, confidence, seed)
    counts, sizes = _pairable_counts(data)
    units = Units(_differing_pairs(counts, sizes) / (sizes - 1), counts)

    def alpha(disagreement: FloatArray, shares: FloatArray) -> FloatArray:
        n = shares.sum(-1)
        return _one_minus_ratio((n - 1) * disagreement, (shares * (n[:, None] - shares)).sum(-1))

    return _with_interval(units, alpha, n_boot, confidence, seed)


def fleiss_kappa(data: Any, *, n_boot: int = 1000, confidence: float = 0.95, seed: int = 0) -> Agreement:
    r"""Fleiss' kappa: agreement of pairs of labels, corrected for chance.

    Gwet's generalisation to tasks with different numbers of labels, in which every task weighs the same. With
    :math:`n_{ic}` labels c for task i and :math:`m_i = \sum_c n_{ic}`, over the N tasks with two or more labels:

    .. math::
        \kappa = \frac{\bar P - P_e}{1 - P_e}, \qquad
        \bar P = \frac1N \sum_i \sum_c \frac{n_{ic} (n_{ic} - 1)}{m_i (m_i - 1)}, \qquad
        P_e = \sum_c \Bigl( \frac1N \sum_i \frac{n_{ic}}{m_i} \Bigr)^2

    This is Fleiss' own kappa where all :math:`m_i` are equal. Tasks with a single label are left out altogether, while
    Gwet lets them count in :math:`P_e`. Where all labels are one class, kappa is 1 by convention, also in a bootstrap
    replicate.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    n_boot, confidence, seed
        As for :func:`krippendorff_alpha`.

    References
    ----------
    Fleiss (1971). Measuring nominal scale agreement among many raters. Psychological Bulletin 76, 378-382.

    Gwet (2014). Handbook of inter-rater reliability, 4th edition. Advanced Analytics.

    Examples
    --------
    >>> round(fleiss_kappa([[0, 0], [1, 1], [0, 1], [1, 1]], n_boot=0).value, 4)
    0.4667
    """
    _check_bootstrap(n_boot, confidence, seed)
    counts, sizes = _pairable_counts(data)
    N = len(sizes)
    per_label = counts.data / np.repeat(sizes, np.diff(counts.indptr))
    shares = sparse.csr_array((per_label, counts.indices, counts.indptr), counts.shape)
    units = Units(_differing_pairs(counts, sizes) / (sizes * (sizes - 1)), shares)

    def kappa(disagreement: FloatArray, shares: FloatArray) -> FloatArray:
        return _one_minus_ratio(N * disagreement, (shares * (N - shares)).sum(-1))

    return _with_interval(units, kappa, n_boot, confidence, seed)


def cohen_kappa(data: Any, *, n_boot: int = 1000, confidence: float = 0.95, seed: int = 0) -> Agreement:
    r"""Cohen's kappa of two annotators: agreement, corrected for chance given how often each uses each class.

    Over the N tasks that both labelled, where the first gives a share :math:`p_c` of them the label c and the second
    a share :math:`q_c`:

    .. math::
        \kappa = \frac{P_o - P_e}{1 - P_e}, \qquad P_e = \sum_c p_c q_c

    with :math:`P_o` the share of tasks on which both agree. Where both give one and the same label throughout, kappa
    is 1 by convention, also in a bootstrap replicate.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
        Of exactly two annotators.
    n_boot, confidence, seed
        As for :func:`krippendorff_alpha`.

    References
    ----------
    Cohen (1960). A coefficient of agreement for nominal scales. Educational and Psychological Measurement 20, 37-46.

    Examples
    --------
    >>> round(cohen_kappa([[0, 0], [1, 1], [0, 1], [1, 1]], n_boot=0).value, 4)
    0.5
    """
    _check_bootstrap(n_boot, confidence, seed)
    crowd = Annotations.of(data)
    if crowd.n_annotators != 2:
        raise InputError(
            f"annotations: {crowd.n_annotators} annotators; Cohen's kappa is for two, Fleiss' kappa for more"
        )
    both = np.flatnonzero(crowd.labels_per_task() == 2)
    if not len(both):
        raise InputError("annotations: no task was labelled by both annotators, so there is nothing to compare")
    first, second = crowd.labels[crowd.indptr[both]], crowd.labels[crowd.indptr[both] + 1]
    U, C = len(both), crowd.n_classes
    columns = np.stack([first, second + C], axis=1).ravel()
    shares = sparse.csr_array((np.ones(2 * U), columns, np.arange(0, 2 * U + 1, 2)), (U, 2 * C))

    def kappa(disagreement: FloatArray, shares: FloatArray) -> FloatArray:
        return _one_minus_ratio(U * disagreement, U**2 - (shares[:, :C] * shares[:, C:]).sum(-1))

    return _with_interval(Units((first != second).astype(np.float64), shares), kappa, n_boot, confidence, seed)


def _pairable_counts(data: Any) -> tuple[Any, FloatArray]:
    """(U, C) sparse label counts and (U,) numbers of labels of the tasks with two or more."""
    crowd = Annotations.of(data)
    pairable = crowd.labels_per_task() >= 2
    if not pairable.any():
        raise InputError(
            "annotations: no task has two labels, so there is nothing to compare; "
            "agreement needs tasks that several annotators labelled (rows are tasks, columns annotators)"
        )
    ones = np.ones(crowd.n_annotations)
    counts = sparse.csr_array((ones, crowd.labels.copy(), crowd.indptr.copy()), (crowd.n_tasks, crowd.n_classes))
    counts.sum_duplicates()
    return counts[pairable], crowd.labels_per_task()[pairable].astype(np.float64)


def _differing_pairs(counts: Any, sizes: FloatArray) -> FloatArray:
    """(U,) ordered pairs of labels of a task that differ."""
    return np.asarray(sizes**2 - counts.power(2).sum(1))


def _one_minus_ratio(observed: FloatArray, expected: FloatArray) -> FloatArray:
    # Nothing is expected to differ only where all labels are one class; then nothing does, and 0 / 1 stands for 0 / 0.
    return 1 - observed / np.where(expected > 0, expected, 1.0)


def _with_interval(units: Units, coefficient: Coefficient, n_boot: int, confidence: float, seed: int) -> Agreement:
    value = float(_evaluate(units, coefficient, np.ones((1, len(units.disagreement))))[0])
    if not n_boot:
        return Agreement(value, None, None)
    replicates = np.concatenate([_evaluate(units, coefficient, w) for w in _resampled(units, n_boot, seed)])
    low, high = np.quantile(replicates, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Agreement(value, float(low), float(high))


def _evaluate(units: Units, coefficient: Coefficient, weights: FloatArray) -> FloatArray:
    """(B,) coefficients under (B, U) weights of the tasks."""
    return coefficient(weights @ units.disagreement, np.asarray(weights @ units.shares))


def _resampled(units: Units, n_boot: int, seed: int) -> Iterator[FloatArray]:
    """(B, U) how often each task was drawn, for a few replicates at a time."""
    rng = np.random.default_rng(seed)
    U = len(units.disagreement)
    for replicates in row_slices(n_boot, U, CHUNK_CELLS):
        weights = np.empty((replicates.stop - replicates.start, U))
        for row in weights:
            row[:] = np.bincount(rng.integers(U, size=U), minlength=U)
        yield weights


def _check_bootstrap(n_boot: int, confidence: float, seed: int) -> None:
    whole(0).check("n_boot", n_boot)
    share().check("confidence", confidence)
    whole(0).check("seed", seed)
