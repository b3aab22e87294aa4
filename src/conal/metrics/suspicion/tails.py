"""Tails of sums of independent scores, each of which has finitely many values: a saddlepoint approximation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

__all__ = ["lower_tail"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

STEPS = 40
FARTHEST = 50.0
"""Largest tilt: beyond it, the sum is at the end of what is possible."""
CLOSE = 0.05
"""Distance from the mean, in standard deviations, within which the normal distribution is exact enough."""
LEAST = 1e-300


def lower_tail(scores: FloatArray, proba: FloatArray, group: IntArray, observed: FloatArray) -> FloatArray:
    r"""(G,) P(sum of a group's scores <= what was observed), where row k takes ``scores[k, l]`` with ``proba[k, l]``.

    Lugannani and Rice's formula with :math:`K(t) = \sum_k \log \sum_l p_{kl} e^{t x_{kl}}` and
    :math:`K'(\hat t) = x`, at most Chernoff's bound :math:`e^{K(\hat t) - \hat t x}`, which is exact at the end of
    what is possible. Sums above the mean are taken as normal: nobody is flagged for them.

    Parameters
    ----------
    scores, proba : (P, C)
    group : (P,)
        The group of each row, from 0 to G - 1.
    observed : (G,)

    References
    ----------
    Lugannani and Rice (1980). Saddle point approximation for the distribution of the sum of independent random
    variables. Advances in Applied Probability 12.

    Examples
    --------
    At most 2 of 20 coins show heads, with probability 0.0002; the formula has no correction for whole numbers, so it is
    that of half of the last one.

    >>> coins = np.tile([0.0, 1.0], (20, 1)), np.full((20, 2), 0.5)
    >>> lower_tail(*coins, np.zeros(20, dtype=int), np.array([2.5])).round(4).tolist()
    [0.0002]
    """
    G = len(observed)

    def moments(weights: FloatArray, rows: npt.NDArray[np.bool_] | slice) -> tuple[FloatArray, FloatArray]:
        values = scores[rows]
        mean = (weights * values).sum(1)
        spread = (weights * values**2).sum(1) - mean**2
        return _sums(mean, group[rows], G), np.maximum(_sums(spread, group[rows], G), LEAST)

    mean, variance = moments(proba, slice(None))
    far = (observed - mean) / np.sqrt(variance)
    low = far < -CLOSE
    rows = low[group]
    tilt = np.zeros(G)
    for _ in range(STEPS):
        log_sum, weights = _tilted(scores[rows], proba[rows], tilt[group[rows]])
        first, second = moments(weights, rows)
        tilt = np.clip(tilt + np.clip((observed - first) / second, -1, 1), -FARTHEST, 0)
    log_sum, weights = _tilted(scores[rows], proba[rows], tilt[group[rows]])
    second = moments(weights, rows)[1]
    exponent = _sums(log_sum, group[rows], G) - tilt * observed
    root = -np.sqrt(np.maximum(-2 * exponent, LEAST))
    slope = np.minimum(tilt * np.sqrt(second), -LEAST)
    density = np.exp(-0.5 * root**2) / np.sqrt(2 * np.pi)
    formula = np.exp(log_ndtr(root)) + density * (1 / root - 1 / slope)
    found = np.clip(np.where(tilt <= -FARTHEST, np.inf, formula), 0.0, np.exp(np.minimum(exponent, 0.0)))
    return np.where(low, found, ndtr(far))


def _sums(values: FloatArray, group: IntArray, G: int) -> FloatArray:
    return np.asarray(np.bincount(group, weights=values, minlength=G), dtype=np.float64)  # of no rows, whole numbers


def _tilted(scores: FloatArray, proba: FloatArray, tilt: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log of the tilted sums (P,), and the tilted probabilities (P, C)."""
    exponent = tilt[:, None] * scores
    top = exponent.max(1, initial=-np.inf)
    weights = proba * np.exp(exponent - top[:, None])
    total = weights.sum(1)
    return np.log(total) + top, weights / total[:, None]
