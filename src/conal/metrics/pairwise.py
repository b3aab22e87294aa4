"""Agreement of every pair of annotators, with bootstrap intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from conal._support.arrays import row_slices
from conal.data.annotations import Annotations
from conal.data.encoding import Names
from conal.metrics.agreement import check_bootstrap, resampled

__all__ = ["PairwiseAgreement", "pairwise_agreement"]

FloatArray = npt.NDArray[np.float64]

REPLICATE_CELLS = 2**22
"""Replicates times pairs that are held at once, 32 MB."""


class PairwiseAgreement(NamedTuple):
    """Agreement of annotators in pairs; all matrices are (R, R) and symmetric.

    Attributes
    ----------
    annotators : (R,)
        The user's names.
    value : (R, R)
        Share of the common tasks that got the same label; NaN without common tasks, and 1 on the diagonal.
    n_common : (R, R)
        Number of common tasks.
    low, high : (R, R) or None
        Ends of the bootstrap interval.
    """

    annotators: Names
    value: FloatArray
    n_common: npt.NDArray[np.int64]
    low: FloatArray | None
    high: FloatArray | None


def pairwise_agreement(data: Any, *, n_boot: int = 1000, confidence: float = 0.95, seed: int = 0) -> PairwiseAgreement:
    r"""How often each pair of annotators gives a common task the same label.

    .. math:: A_{rs} = \frac{\sum_i [y_i^r = y_i^s]}{n_{rs}}, \qquad n_{rs} = \text{number of common tasks}

    It shows copied labels, spammers, and groups who err alike. It is not corrected for chance. Memory grows with the
    number of annotators squared, and time with the labels times the labels per task.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    n_boot : int
        Bootstrap replicates for the percentile intervals; 0 for none. Tasks are drawn with replacement; replicates
        without a common task of a pair do not count for the pair.
    confidence, seed
        As for :func:`krippendorff_alpha`.

    Examples
    --------
    >>> found = pairwise_agreement([[0, 0, 1], [1, 1, -1], [0, 1, -1], [1, 1, 1]], n_boot=0)
    >>> found.value.round(2).tolist()
    [[1.0, 0.75, 0.5], [0.75, 1.0, 0.5], [0.5, 0.5, 1.0]]
    """
    check_bootstrap(n_boot, confidence, seed)
    crowd = Annotations.of(data)
    common, same, rows, columns = _pairs_of_labels(crowd)
    R = crowd.n_annotators
    n_common = _symmetric(common.sum(0), rows, columns, R, 0).astype(np.int64)
    np.fill_diagonal(n_common, crowd.labels_per_annotator())
    value = _symmetric(same.sum(0) / common.sum(0), rows, columns, R, np.nan)
    if not n_boot:
        return PairwiseAgreement(crowd.annotator_ids, value, n_common, None, None)
    ends = np.empty((2, len(rows)))
    levels = [(1 - confidence) / 2, (1 + confidence) / 2]
    for part in row_slices(len(rows), n_boot, REPLICATE_CELLS):
        ends[:, part] = np.nanquantile(_replicates(common[:, part], same[:, part], n_boot, seed), levels, axis=0)
    low, high = (_symmetric(end, rows, columns, R, np.nan) for end in ends)
    return PairwiseAgreement(crowd.annotator_ids, value, n_common, low, high)


def _pairs_of_labels(crowd: Annotations) -> tuple[Any, Any, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(U, pairs) sparse: which pairs share a task, and which agree on it; and both annotators of every pair."""
    R = crowd.n_annotators
    tasks, keys, equal = [], [], []
    place = np.arange(crowd.n_annotations) - crowd.indptr[crowd.tasks]
    for ahead in range(1, int(crowd.labels_per_task().max(initial=1))):
        first = np.flatnonzero(place + ahead < crowd.labels_per_task()[crowd.tasks])
        second = first + ahead  # labels of a task stand together, sorted by annotator
        tasks.append(crowd.tasks[first])
        keys.append(crowd.annotators[first].astype(np.int64) * R + crowd.annotators[second])
        equal.append(crowd.labels[first] == crowd.labels[second])
    at, key = (np.concatenate([np.empty(0, np.int64), *parts]) for parts in (tasks, keys))
    agreed = np.concatenate([np.empty(0, bool), *equal])
    found, pair = np.unique(key, return_inverse=True)
    kept, unit = np.unique(at, return_inverse=True)
    shape = len(kept), len(found)
    common = sparse.csc_array((np.ones(len(at)), (unit, pair)), shape=shape)
    same = sparse.csc_array((agreed.astype(np.float64), (unit, pair)), shape=shape)
    return common, same, found // R, found % R


def _replicates(common: Any, same: Any, n_boot: int, seed: int) -> FloatArray:
    """(n_boot, pairs) agreement under tasks drawn with replacement; NaN where no common task was drawn."""
    parts = []
    for weights in resampled(common.shape[0], n_boot, seed):
        drawn, agreed = np.asarray(weights @ common), np.asarray(weights @ same)
        parts.append(np.where(drawn > 0, agreed / np.where(drawn > 0, drawn, 1.0), np.nan))
    return np.concatenate(parts)


def _symmetric(
    values: FloatArray, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], R: int, empty: float
) -> FloatArray:
    matrix = np.full((R, R), empty, dtype=np.float64)
    matrix[rows, columns] = matrix[columns, rows] = values
    np.fill_diagonal(matrix, 1.0)
    return matrix
