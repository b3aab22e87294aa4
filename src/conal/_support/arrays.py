"""NumPy helpers that several packages use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

__all__ = ["draw_from_rows", "row_slices"]


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
