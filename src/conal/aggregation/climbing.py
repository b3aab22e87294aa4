"""Steps uphill that are halved where they would go down: M-steps without a closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray

__all__ = ["climb"]

HALVINGS = 20
"""How often a step that goes down is halved before its part stays where it is."""

ROUNDING = 1e-14
"""Relative loss that counts as rounding."""


def climb(objective: Callable[[FloatArray], FloatArray], start: FloatArray, step: FloatArray) -> FloatArray:
    """A step in all parts at once, in each halved until the part's own objective does not fall.

    Parameters
    ----------
    objective : callable
        From all parts (B, ...) to the objective (B,) of each.
    start, step : (B, ...)

    Examples
    --------
    >>> climb(lambda x: -((x - 1) ** 2), np.zeros(2), np.array([1.0, 3.0])).tolist()
    [1.0, 1.5]
    """
    before = objective(start)
    least = before - ROUNDING * np.abs(before)
    for _ in range(HALVINGS):
        falls = objective(start + step) < least
        if not falls.any():
            return start + step
        step = np.where(_beside(falls, step), step / 2, step)
    return np.where(_beside(objective(start + step) < least, step), start, start + step)


def _beside(part: npt.NDArray[np.bool_], whole: FloatArray) -> npt.NDArray[np.bool_]:
    """(B,) with further axes, beside what is (B, ...)."""
    return part.reshape(part.shape + (1,) * (whole.ndim - 1))
