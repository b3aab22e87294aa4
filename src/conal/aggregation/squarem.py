"""SQUAREM: longer steps where EM is slow."""

from __future__ import annotations

import numpy as np

from conal.aggregation.arrays import FloatArray

__all__ = ["extrapolated"]

KEEP = 0.1
"""A probability falls to no less than this share of what EM gives it: one that is zero would stay so for ever."""


def extrapolated(
    first: tuple[FloatArray, ...], second: tuple[FloatArray, ...], third: tuple[FloatArray, ...]
) -> tuple[FloatArray, ...]:
    r"""Extrapolate distributions (over the last axis) from three successive EM iterates.

    .. math::
        r = \theta_1 - \theta_0, \quad v = (\theta_2 - \theta_1) - r, \quad a = \max(1, \|r\| / \|v\|), \quad
        \theta' = \theta_0 + 2 a r + a^2 v

    Near its end EM is linear, and this is the point that it is heading for, as far as one number can tell. With a = 1
    it is :math:`\theta_2` itself.

    Parameters
    ----------
    first, second, third : tuples of arrays
        Successive parameters of EM.

    References
    ----------
    Varadhan and Roland (2008). Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm. Scandinavian Journal of Statistics 35 (SQUAREM, step length S3).
    """
    r = [b - a for a, b in zip(first, second, strict=True)]
    v = [(c - b) - step for b, c, step in zip(second, third, r, strict=True)]
    length, bend = (np.sqrt(sum(float(np.vdot(part, part)) for part in parts)) for parts in (r, v))
    if not bend > 0:
        return third
    a = max(1.0, length / bend)
    made = []
    for start, step, curve, end in zip(first, r, v, third, strict=True):
        ahead = np.maximum(start + 2 * a * step + a * a * curve, KEEP * end)
        made.append(ahead / ahead.sum(-1, keepdims=True))
    return tuple(made)
