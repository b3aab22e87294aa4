"""Functions for both NumPy arrays and torch tensors; torch is never imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Array", "FloatArray", "normalised"]

FloatArray = npt.NDArray[np.float64]
Array = TypeVar("Array", FloatArray, "Tensor")


def normalised(counts: Array) -> Array:
    """Non-negative counts as distributions over the last axis; uniform where all counts are zero.

    >>> normalised(np.array([[3.0, 1.0], [0.0, 0.0]])).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """
    total: Array = counts.sum(-1)[..., None]
    if bool((total > 0).all()):
        return counts / total
    empty = total <= 0
    filled: Array = counts + empty * (1.0 / counts.shape[-1])
    return filled / (total + empty)
