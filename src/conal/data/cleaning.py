"""Cleaning of imperfect annotations: reject, drop with a warning, or keep one of several."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from conal.data.encoding import MISSING, Names, as_names, decode_position
from conal.data.matching import warn_of_lookalikes
from conal.errors import DataWarning, InputError, examples, people, warn

OnDuplicate = Literal["last", "first", "error"]
"""Which of several labels by one worker for one task counts."""


def refuse_missing_ids(codes: npt.NDArray[np.int32], role: str, where: str) -> None:
    """An annotation without a task or without a worker is an error."""
    if not len(codes):
        raise InputError(f"{where}: contains no annotations; expected one row per annotation (task, worker, label)")
    missing = np.flatnonzero(codes == MISSING)
    if len(missing):
        raise InputError(
            f"{where}: {len(missing):,} rows have no {role}, the first is row {missing[0] + 1}; "
            f"fill in the {role} or remove these rows"
        )


def match_classes(
    names: Names,
    codes: npt.NDArray[np.int32],
    classes: Sequence[Any] | Names | None,
    where: str,
    rows: npt.NDArray[np.int64] | None = None,
) -> tuple[Names, npt.NDArray[np.int32]]:
    """Class names and label codes in the order that the user asked for, or sorted.

    ``rows`` contains the row of each code, for the message, if it is not its position.
    """
    if classes is None:
        warn_of_lookalikes(names, "classes", where)
        return names, codes
    wanted = as_names(classes)
    if len(set(wanted.tolist())) < len(wanted):
        raise InputError(f"{where}: classes are listed twice in {wanted.tolist()}")
    position = decode_position(wanted, names)
    unknown = names[position == MISSING].tolist()
    if unknown:
        close = difflib.get_close_matches(str(unknown[0]), [str(name) for name in wanted], n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        first = int(np.flatnonzero(codes == names.tolist().index(unknown[0]))[0])
        row = first if rows is None else int(rows[first])
        raise InputError(
            f"{where}: row {row + 1}: {examples(unknown)} not among the {len(wanted)} classes; {hint}"
            "correct the labels or add them to the classes"
        )
    return wanted, np.append(position, MISSING).astype(np.int32)[codes]


def pair_order(tasks: npt.NDArray[np.int32], annotators: npt.NDArray[np.int32]) -> npt.NDArray[np.int64] | slice:
    """Rows by task, then annotator: all rows, or row numbers.

    Rows of one pair stay in the order in which they came. What is in order already, of which there may be hundreds
    of millions, is not copied.
    """
    if not len(tasks):
        return slice(None)
    pair = tasks.astype(np.int64)
    pair *= int(annotators.max()) + 1
    pair += annotators
    if (pair[1:] >= pair[:-1]).all():
        return slice(None)
    order: npt.NDArray[np.int64] = np.argsort(pair, kind="stable")
    return order


def resolve_duplicates(
    tasks: npt.NDArray[np.int32],
    annotators: npt.NDArray[np.int32],
    rule: OnDuplicate,
    where: str,
    names: tuple[Names, Names],
) -> npt.NDArray[np.int64] | slice:
    """Rows to keep in order, at most one per (task, worker)."""
    if rule not in ("last", "first", "error"):
        raise InputError(f"on_duplicate must be 'last', 'first' or 'error', not {rule!r}")
    order = pair_order(tasks, annotators)
    same = _repeats(tasks[order]) & _repeats(annotators[order])
    if not same.any():
        return order
    order = np.arange(len(tasks)) if isinstance(order, slice) else order
    first = order[np.flatnonzero(same)[0]]
    pair = f"task {examples([names[0][tasks[first]]])}, worker {people([names[1][annotators[first]]])}"
    count = int(same.sum())
    if rule == "error":
        raise InputError(
            f"{where}: {count:,} rows repeat a (task, worker) pair, the first is {pair}; "
            "remove them, or keep one of each with on_duplicate='last' or 'first'"
        )
    warn(
        f"{where}: {count:,} rows repeat a (task, worker) pair, the first is {pair}; kept the {rule} of each",
        DataWarning,
    )
    kept: npt.NDArray[np.int64] = order[np.append(~same, True) if rule == "last" else np.append(True, ~same)]
    return kept


def _repeats(codes: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """(n - 1,) whether each code is the one before it."""
    same: npt.NDArray[np.bool_] = codes[1:] == codes[:-1]
    return same
