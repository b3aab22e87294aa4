"""Parameters that cannot be meant are refused before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conal.errors import InputError
from conal.parameters import is_number, is_whole

__all__ = ["check_parameters"]

_POSITIVE_INTEGERS = ("epochs", "batch_size", "ensemble", "text_components")
_COUNTS = ("warmup_epochs", "max_restarts")
SELECTIONS = ("auto", "gold", "annotations", "last")


def check_parameters(estimator: Any) -> None:
    """Refuse values outside their range, naming the parameter, the value and what it may be."""
    for name in _POSITIVE_INTEGERS:
        _require(estimator, name, lambda v: is_whole(v) and v >= 1, "a whole number of at least 1")
    for name in _COUNTS:
        _require(estimator, name, lambda v: is_whole(v) and v >= 0, "a whole number of at least 0")
    _require(estimator, "seed", lambda v: is_whole(v) and 0 <= v < 2**63, "a whole number from 0 to below 2**63")
    _require(estimator, "patience", lambda v: v is None or (is_whole(v) and v >= 1), "None or a whole number from 1")
    _require(estimator, "lr", lambda v: is_number(v) and v > 0, "a finite number above 0")
    _require(estimator, "hidden", _widths, "a list of whole numbers of at least 1, such as [64, 32]")
    _require(estimator, "batch_norm", lambda v: isinstance(v, bool), "true or false")
    for name in ("devices", "num_nodes"):
        _require(estimator, name, lambda v: is_whole(v) and v >= 1, "a whole number from 1")
    for name in ("dropout", "input_dropout"):
        _require(estimator, name, lambda v: is_number(v) and 0 <= v < 1, "a number from 0 to below 1")
    _require(estimator, "holdout", lambda v: is_number(v) and 0 < v < 1, "a share between 0 and 1")
    _require(estimator, "schedule", lambda v: v in ("constant", "cosine"), "'constant' or 'cosine'")
    _require(estimator, "selection", lambda v: v in SELECTIONS, f"one of {', '.join(map(repr, SELECTIONS))}")


def _require(estimator: Any, name: str, holds: Any, meaning: str) -> None:
    value = getattr(estimator, name)
    if not holds(value):
        raise InputError(f"{name} must be {meaning}, not {value!r}")


def _widths(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(is_whole(v) and v >= 1 for v in value)
