"""NumPy helpers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def row_slices(n: int, cells: int, limit: int) -> Iterator[slice]:
    """Slices of ``range(n)`` that keep a temporary array with ``cells`` numbers per row below ``limit`` numbers.

    >>> [(rows.start, rows.stop) for rows in row_slices(5, cells=10, limit=20)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, limit // max(1, cells))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def draw_from_rows(rows: npt.NDArray[np.float64], uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """(...) one class from each row of probabilities (..., C), by inverse CDF; one of probability 0 is never drawn.

    >>> draw_from_rows(np.array([[0.6, 0.4], [0.0, 1.0]]), np.array([0.5, 0.0])).tolist()
    [0, 1]
    """
    cdf = np.cumsum(rows, axis=-1)
    cdf /= cdf[..., -1:]  # exactly 1 from the last possible class on, whatever the rounding
    return np.asarray((uniform[..., None] >= cdf).sum(axis=-1))


def grouped_sums(groups: npt.NDArray[Any], values: npt.NDArray[Any], n: int) -> FloatArray:
    """(n,) or (n, C) sums of numbers, or of rows of numbers, by group, in their order.

    >>> grouped_sums(np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0]), 3).tolist()
    [4.0, 0.0, 2.0]
    """
    if values.ndim == 1:
        return np.asarray(np.bincount(groups, weights=values, minlength=n), dtype=np.float64)
    sums = np.empty((n, values.shape[1]))  # bincount of no rows has whole numbers
    for c in range(values.shape[1]):
        sums[:, c] = np.bincount(groups, weights=values[:, c], minlength=n)
    return sums


def grouped_means(groups: npt.NDArray[Any], values: npt.NDArray[Any], n: int, empty: float | FloatArray) -> FloatArray:
    """(n,) means of numbers by group; ``empty`` for groups without any.

    >>> grouped_means(np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0]), 3, empty=0.5).tolist()
    [2.0, 0.5, 2.0]
    """
    sizes = np.bincount(groups, minlength=n)
    return np.where(sizes > 0, grouped_sums(groups, values, n) / np.maximum(sizes, 1), empty)
