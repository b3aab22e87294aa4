"""Parameters that cannot be meant are refused before anything is computed."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from conal.errors import InputError

__all__ = ["check_parameters"]

_POSITIVE_INTEGERS = ("epochs", "batch_size")
_COUNTS = ("warmup_epochs", "max_restarts", "seed")
SELECTIONS = ("auto", "gold", "annotations", "last")


def check_parameters(estimator: Any) -> None:
    """Refuse values outside their range, naming the parameter, the value and what it may be."""
    for name in _POSITIVE_INTEGERS:
        _require(estimator, name, lambda v: _whole(v) and v >= 1, "a whole number of at least 1")
    for name in _COUNTS:
        _require(estimator, name, lambda v: _whole(v) and v >= 0, "a whole number of at least 0")
    _require(estimator, "patience", lambda v: v is None or (_whole(v) and v >= 1), "None or a whole number from 1")
    _require(estimator, "lr", lambda v: _number(v) and v > 0, "a number above 0")
    _require(estimator, "dropout", lambda v: _number(v) and 0 <= v < 1, "a number from 0 to below 1")
    _require(estimator, "holdout", lambda v: _number(v) and 0 < v < 1, "a share between 0 and 1")
    _require(estimator, "selection", lambda v: v in SELECTIONS, f"one of {', '.join(map(repr, SELECTIONS))}")


def _require(estimator: Any, name: str, holds: Any, meaning: str) -> None:
    value = getattr(estimator, name)
    if not holds(value):
        raise InputError(f"{name} must be {meaning}, not {value!r}")


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
