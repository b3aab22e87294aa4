"""Distributions from counts, also of torch tensors, and from logarithms; neither torch nor scipy is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Array", "FloatArray", "normalised", "softmax"]

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


def softmax(logarithms: FloatArray) -> FloatArray:
    """Distributions over the last axis from their logarithms up to a constant, as ``scipy.special.softmax``.

    Loading scipy takes longer than an update of a large crowd.

    >>> softmax(np.log([[3.0, 1.0]])).round(2).tolist()
    [[0.75, 0.25]]
    """
    odds = np.exp(logarithms - logarithms.max(-1, keepdims=True))
    proba: FloatArray = odds / odds.sum(-1, keepdims=True)
    return proba
