"""Intervals of shares of noisy counts: which shares the noise leaves open."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

__all__ = ["share_intervals"]

FloatArray = npt.NDArray[np.float64]

DRAWS = 20_000
STEPS = 400


def share_intervals(
    parts: FloatArray, total: float, scale: float, *, summed: int, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    r"""Lower and upper ends of the shares that parts have in their total, of which noise is known.

    A share p is kept if the noise can explain what was seen. For the part :math:`\tilde n` of the total
    :math:`\tilde T`, both the sums of exact counts and Laplace noise, :math:`\tilde n - p \tilde T` is
    :math:`(1 - p) Z - p Z'` if p is the exact share, where Z is the noise in the part and Z' that in all others. So p
    is kept if :math:`|\tilde n - p \tilde T|` is at most the quantile of this variable (Fieller's method). The exact
    share is kept with probability ``level``, however small the counts are; where they drown in the noise, the interval
    reaches from 0 to 1. What chance had in the labels themselves is not in it.

    Parameters
    ----------
    parts : (K,) array
        Noisy counts that make up the total.
    scale : float
        The scale of the Laplace noise in one cell.
    summed : int
        How many cells were summed up to each part.

    Examples
    --------
    >>> low, high = share_intervals(np.array([900.0, 100.0]), 1000.0, 10.0, summed=1)
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([0.87, 0.07], [0.93, 0.13])
    """
    grid, limits = _limits(summed, summed * (len(parts) - 1), level)
    ends = [_interval(float(part), total, grid, limits * scale) for part in parts]
    low, high = np.array(ends).reshape(-1, 2).T
    return low, high


def _interval(part: float, total: float, grid: FloatArray, limits: FloatArray) -> tuple[float, float]:
    """The first and the last share that the noise can explain; between grid points, by linear interpolation."""
    best = float(np.clip(part / total, 0, 1)) if total > 0 else float(part > 0)
    at = np.searchsorted(grid, best)
    shares = np.insert(grid, at, best)
    excess = np.abs(part - shares * total) - np.insert(limits, at, np.interp(best, grid, limits))
    kept = np.flatnonzero(excess <= 0)
    if not len(kept):  # outside of what is possible: the nearest share that is
        return best, best
    return _crossing(shares, excess, kept[0], -1), _crossing(shares, excess, kept[-1], 1)


def _crossing(shares: FloatArray, excess: FloatArray, kept: np.intp, step: int) -> float:
    """Where the excess passes zero, between a share that is kept and its neighbour that is not."""
    other = int(kept) + step
    if not 0 <= other < len(shares):
        return float(shares[kept])
    part = excess[kept] / (excess[kept] - excess[other])
    return float(shares[kept] + part * (shares[other] - shares[kept]))


@cache
def _limits(n_part: int, n_rest: int, level: float) -> tuple[FloatArray, FloatArray]:
    """Shares, and for each the quantile of |(1 - p) Z - p Z'| of noise with scale 1.

    The sum of n Laplace variables is the difference of two gamma variables of shape n. The draws have nothing to do
    with the noise of a release: they are the same every time.
    """
    rng = np.random.default_rng(20_121_016)
    part, rest = (
        rng.gamma(n, size=DRAWS) - rng.gamma(n, size=DRAWS) if n else np.zeros(DRAWS) for n in (n_part, n_rest)
    )
    grid = np.linspace(0, 1, STEPS + 1)
    limits = np.array([np.quantile(np.abs((1 - p) * part - p * rest), level) for p in grid])
    return grid, limits
