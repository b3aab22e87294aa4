"""Read and check the inputs of metrics: labels, probabilities and confusion matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, Encoded, Names, as_names, decode_position, encode
from conal.errors import InputError, examples

__all__ = [
    "Classes",
    "LabelPairs",
    "confusion_matrices",
    "label_codes",
    "label_pairs",
    "numbers",
    "probabilities",
    "task_posterior",
]

FloatArray = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Classes = Sequence[Any] | Names
"""The classes in the order of codes and columns."""

TOLERANCE = 1e-3
"""How far a row may be from a sum of 1: single precision and rounded files pass, counts and percentages do not."""


class LabelPairs(NamedTuple):
    """True and predicted labels as codes into one list of classes."""

    true: Codes
    predicted: Codes
    classes: Names


# ---------------------------------------------------------------- labels


def label_pairs(y_true: object, y_pred: object, classes: Classes | None) -> LabelPairs:
    """Two equally long sequences of labels, matched by position; the classes are all that occur, or those given."""
    true, predicted = _read_labels(y_true, "y_true"), _read_labels(y_pred, "y_pred")
    if len(true.codes) != len(predicted.codes):
        raise InputError(
            f"y_true has {len(true.codes):,} labels and y_pred {len(predicted.codes):,}; pass one of each per instance"
        )
    _refuse_text_against_numbers(true.names, predicted.names)
    # True and 1 are equal, as in scikit-learn's metrics; each sequence alone has been read already.
    found = list(dict.fromkeys([*true.names.tolist(), *predicted.names.tolist()]))
    names = encode(found).names if classes is None else _distinct(classes)
    return LabelPairs(_positions(true, names, "y_true"), _positions(predicted, names, "y_pred"), names)


def label_codes(y_true: object, classes: Classes | None, n_classes: int) -> Codes:
    """True labels as columns of a probability matrix: they are codes already, unless ``classes`` names the columns."""
    true = _read_labels(y_true, "y_true")
    if classes is not None:
        names = _distinct(classes)
        if len(names) != n_classes:
            raise InputError(f"classes: {len(names)} names for {n_classes} columns of probas; name each column once")
        return _positions(true, names, "y_true")
    if true.names.dtype.kind not in "iu":
        raise InputError(
            f"y_true: contains {examples(true.names)}, which are not positions of columns; "
            "name the columns of probas with classes="
        )
    outside = true.names[(true.names < 0) | (true.names >= n_classes)]
    if len(outside):
        raise InputError(
            f"y_true: {examples(outside)} not in range({n_classes}), the columns of probas; "
            "name the columns with classes= if these are labels"
        )
    codes: Codes = true.names[true.codes].astype(np.int64)
    return codes


def _read_labels(values: object, name: str) -> Encoded:
    try:
        encoded = encode(_column(values))
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    if not len(encoded.codes):
        raise InputError(f"{name}: contains no labels; pass one label per instance")
    missing = np.flatnonzero(encoded.codes == MISSING)
    if len(missing):
        raise InputError(
            f"{name}: {len(missing):,} labels are missing (None or NaN), the first at position {missing[0]}; "
            "leave these instances out"
        )
    return encoded


def _column(values: Any) -> Any:
    # Sets have no order, and the letters of a text are no labels. Annotations cannot be iterated over.
    if isinstance(values, str | bytes | dict | set | frozenset) or not hasattr(values, "__iter__"):
        raise InputError(f"expected one label per instance, not {type(values).__name__}; pass a list, array or Series")
    if not hasattr(values, "__array__"):
        # Two tensors that contain the same number are different names to Python.
        return [item.item() if getattr(item, "ndim", None) == 0 else item for item in values]
    array = _array(values, None)
    if array.ndim != 1:
        raise InputError(f"expected one label per instance, got shape {array.shape}; for probabilities, take argmax(1)")
    return array


def _positions(encoded: Encoded, classes: Names, name: str) -> Codes:
    position = decode_position(classes, encoded.names)
    unknown = position == MISSING
    if unknown.any():
        first = int(np.flatnonzero(unknown[encoded.codes])[0])
        raise InputError(
            f"{name}: {examples(encoded.names[unknown])} not among the {len(classes)} classes, the first at position "
            f"{first}; correct the labels or add them to classes"
        )
    codes: Codes = position[encoded.codes]
    return codes


def _distinct(classes: Classes) -> Names:
    names = as_names(classes)
    if not len(names) or len(set(names.tolist())) < len(names):
        raise InputError(f"classes: expected distinct names, got {names.tolist()}; name each class once")
    return names


def _refuse_text_against_numbers(true: Names, predicted: Names) -> None:
    """Reject 0 against '0', which would count every prediction as wrong."""
    text = [{isinstance(name, str) for name in names.tolist()} for names in (true, predicted)]
    if text in ([{True}, {False}], [{False}, {True}]):
        raise InputError(
            f"y_true contains {examples(true)} and y_pred {examples(predicted)}: text against numbers; "
            "use the same names in both"
        )


# ---------------------------------------------------------------- numbers


def probabilities(values: object, name: str) -> FloatArray:
    """(N, C) class probabilities, one distribution per row."""
    array = numbers(values, name)
    if array.ndim != 2 or not array.size:
        raise InputError(
            f"{name}: expected instances x classes, got shape {array.shape}; "
            "for the probability p of one of two classes, pass np.column_stack([1 - p, p])"
        )
    _check_rows(array, name)
    return array


def task_posterior(posterior: npt.ArrayLike, crowd: Annotations) -> FloatArray:
    """(N, C) probability of every class for every task of a crowd; rows of zeros leave tasks out."""
    array = np.asarray(posterior, dtype=np.float64)
    if array.shape != (crowd.n_tasks, crowd.n_classes):
        raise InputError(
            f"posterior has shape {array.shape}, expected {(crowd.n_tasks, crowd.n_classes)}; pass a row per task and "
            "a column per class"
        )
    return array


def confusion_matrices(values: object, name: str) -> FloatArray:
    """(C, C) or (R, C, C) confusion matrices, true class before observed class, one distribution per row."""
    array = numbers(values, name)
    if array.ndim not in (2, 3) or not array.size or array.shape[-1] != array.shape[-2]:
        raise InputError(
            f"{name}: expected a (C, C) matrix or (R, C, C) matrices, true class before observed class, "
            f"got shape {array.shape}"
        )
    _check_rows(array, name)
    return array


def numbers(values: object, name: str) -> FloatArray:
    """A finite array in double precision."""
    try:
        array = _array(values, np.float64)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    if not np.isfinite(array).all():
        raise InputError(f"{name}: NaN or infinite at {_first(~np.isfinite(array))}; pass finite numbers")
    return array


def _array(values: Any, dtype: type | None) -> npt.NDArray[Any]:
    try:
        return np.asarray(values, dtype=dtype)
    except (TypeError, ValueError, RuntimeError) as error:  # the last is torch's, for tensors with a gradient
        raise InputError(f"cannot be read as an array ({error}); pass a plain array") from error


def _check_rows(array: FloatArray, name: str) -> None:
    negative = array < 0
    if negative.any():
        raise InputError(f"{name}: negative at {_first(negative)}; pass probabilities, after the softmax")
    total = array.sum(-1)
    off = np.abs(total - 1) > TOLERANCE
    if off.any():
        at = _first(off)
        raise InputError(
            f"{name}: row {at} sums to {total[tuple(at)]:.6g}, not 1; "
            "pass probabilities, or divide each row of counts by its sum"
        )


def _first(mask: npt.NDArray[np.bool_]) -> list[int]:
    return [int(k) for k in np.argwhere(mask)[0]]
