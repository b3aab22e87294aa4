"""NumPy helpers, and checks of plain data."""

from __future__ import annotations

import math
import types
from collections.abc import Iterator, Mapping
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


# NumPy helpers that several packages use.


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


# Does plain data, as JSON contains it, have the types that are declared for it?

LARGEST = 2**53
"""Whole numbers beyond it are no counts, and many of them no floats either, so that columns cannot contain both."""
WORDS = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}


def mismatch(value: Any, declared: Any, place: str = "") -> str | None:
    """Where a value differs from its declared type, and how; None where it does not.

    Declared by ``TypedDict``, ``list``, ``tuple``, ``Mapping``, unions, and the types of JSON. Keys that are not
    declared are allowed. ``Any`` is what a name can be: anything.

    >>> mismatch({"rows": [1, "2"]}, dict[str, list[int]])
    'rows[1] is text, expected a number'
    >>> mismatch([0.5, 2**60], list[float])
    '[1] is 1152921504606846976, which is no usual number'
    """
    if declared is Any:
        return None
    if is_typeddict(declared):
        return _of_object(value, declared, place)
    origin, inner = get_origin(declared), get_args(declared)
    if origin is NotRequired:
        return mismatch(value, inner[0], place)
    if origin in (Union, types.UnionType):
        found = [mismatch(value, option, place) for option in inner]
        return None if None in found else found[0]
    if origin is list and isinstance(value, list | tuple):
        return _first(mismatch(item, inner[0], f"{place}[{k}]") for k, item in enumerate(value))
    if origin is tuple and isinstance(value, list | tuple):  # JSON has no tuples
        if len(value) != len(inner):
            return f"{place} has {len(value)} entries, expected {len(inner)}"
        return _first(mismatch(item, inner[k], f"{place}[{k}]") for k, item in enumerate(value))
    if origin in (dict, Mapping) and isinstance(value, dict):
        return _first(mismatch(item, inner[1], _inside(place, key)) for key, item in value.items())
    return _of_single(value, declared if origin is None else origin, place)


def _of_object(value: Any, declared: Any, place: str) -> str | None:
    if not isinstance(value, dict):
        return _differs(value, dict, place)
    hints = get_type_hints(declared, include_extras=True)
    lost = next((key for key, kind in hints.items() if key not in value and get_origin(kind) is not NotRequired), None)
    if lost is not None:
        return f"{_inside(place, lost)} is missing"
    return _first(mismatch(value[key], kind, _inside(place, key)) for key, kind in hints.items() if key in value)


def _of_single(value: Any, kind: Any, place: str) -> str | None:
    if kind in (None, type(None)):
        return None if value is None else _differs(value, type(None), place)
    if kind in (int, float):
        is_number = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
        if is_number and not (abs(value) < LARGEST if isinstance(value, int) else math.isfinite(value)):
            return f"{place} is {value!r:.20}, which is no usual number"
        return None if is_number else _differs(value, kind, place)
    if kind is Mapping:
        kind = dict
    return None if isinstance(value, kind) else _differs(value, kind, place)


def _differs(value: Any, kind: Any, place: str) -> str:
    found, expected = (WORDS.get(one, "nothing") for one in (type(value), kind))
    return f"{place or 'it'} is {found}, expected {expected}"


def _first(found: Any) -> str | None:
    return next((problem for problem in found if problem is not None), None)


def _inside(place: str, key: object) -> str:
    return f"{place}.{key}" if place else str(key)
