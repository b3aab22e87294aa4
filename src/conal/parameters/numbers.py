"""Tests for numbers: NumPy's numbers count, booleans do not."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

__all__ = ["is_number", "is_whole"]


def is_whole(value: Any) -> bool:
    """Whether it is a whole number.

    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return not isinstance(value, bool) and isinstance(value, Integral)


def is_number(value: Any) -> bool:
    """Whether it is a finite real number.

    >>> is_number(0.5), is_number(float("nan")), is_number("1")
    (True, False, False)
    """
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
