"""Features that look like pictures, such as the digits' 8 x 8 pixels, and drawing them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Drawing", "drawing_of"]

FloatArray = npt.NDArray[np.float64]

ENOUGH = 20
"""Instances below which nothing is said about their features."""
LEAST_SIDE, MOST_SIDE = 8, 4096
LONGEST = 8
"""Times that one side may be as long as the other."""
ALIKE = 0.2
"""Least correlation of neighbouring pixels. Digits have more, photographs far more, and embeddings none."""
NEARER = 0.05
"""By how much more than pixels half a row apart. Time series are alike at every small distance."""


class Drawing(NamedTuple):
    """How instances become pictures: their layout, and the values that are black and white."""

    shape: tuple[int, ...]
    channels: int | None
    """The axis of colours, if there is one."""
    low: float
    high: float

    def draw(self, instance: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """(height, width) or (height, width, 3) pixels of an instance."""
        values = _laid_out(np.asarray(instance, dtype=np.float64)[None], self.shape, self.channels)[0]
        scaled = (values - self.low) * (255 / (self.high - self.low))
        return np.ascontiguousarray(np.nan_to_num(scaled).clip(0, 255).round().astype(np.uint8))


def drawing_of(sample: npt.NDArray[Any]) -> Drawing | None:
    """How to draw instances like these, or None if they do not look like pictures.

    Pictures are (n, height, width) arrays, with one or three colours on the last or first axis of an instance, or flat
    ones of a square number of features, in which neighbours in a row and in a column are alike, and more alike than
    pixels half a row apart.

    Parameters
    ----------
    sample : (n, ...) array

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> drawing_of(load_digits().data[:100])
    Drawing(shape=(8, 8), channels=None, low=0.0, high=16.0)
    >>> drawing_of(np.random.default_rng(0).normal(size=(100, 64))) is None
    True
    """
    layout = _layout(sample.shape[1:])
    if layout is None or len(sample) < ENOUGH or sample.dtype.kind not in "fiub":
        return None
    values = sample.astype(np.float64)
    low, high = float(values.min()), float(values.max())
    if not math.isfinite(low) or not math.isfinite(high) or low >= high:
        return None
    grey = _laid_out(values, *layout)
    grey = grey.mean(-1) if layout[1] is not None else grey
    if not _has_neighbours(grey):
        return None
    if sample.dtype == np.uint8:
        low, high = 0.0, 255.0
    return Drawing(*layout, low, high)


def _layout(shape: tuple[int, ...]) -> tuple[tuple[int, ...], int | None] | None:
    """The shape of a picture, and its axis of colours, for instances of this shape."""
    if len(shape) == 1:
        side = math.isqrt(shape[0])
        shape = (side, side) if side * side == shape[0] else ()
    channels = None
    if len(shape) == 3:
        channels = next((axis for axis in (2, 0) if shape[axis] in (1, 3)), None)
        if channels is None:
            return None
    sides = [size for axis, size in enumerate(shape) if axis != channels]
    if len(sides) != 2 or not all(LEAST_SIDE <= side <= MOST_SIDE for side in sides):
        return None
    return (shape, channels) if max(sides) <= LONGEST * min(sides) else None


def _laid_out(values: FloatArray, shape: tuple[int, ...], channels: int | None) -> FloatArray:
    """(n, height, width), with three colours at the end where there are three."""
    values = values.reshape(len(values), *shape)
    if channels is None:
        return values
    values = np.moveaxis(values, channels + 1, -1)
    return np.repeat(values, 3, axis=-1) if values.shape[-1] == 1 else values


def _has_neighbours(pictures: FloatArray) -> bool:
    width = pictures.shape[2]
    flat = pictures.reshape(len(pictures), -1)
    beside, half, below = (_correlation(flat, lag) for lag in (1, width // 2, width))
    return min(beside, below) >= max(ALIKE, half + NEARER)


def _correlation(flat: FloatArray, lag: int) -> float:
    """Mean correlation, over instances, of features this far apart; those that never change do not count."""
    centred = flat - flat.mean(0)
    spread = centred.std(0)
    changes = spread > 1e-6 * spread.max()
    centred = centred / np.where(changes, spread, 1.0)
    both = changes[:-lag] & changes[lag:]
    return float((centred[:, :-lag] * centred[:, lag:]).mean(0)[both].mean()) if both.any() else 0.0
