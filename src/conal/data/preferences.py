"""Preferences: which of two items annotators found better, as people and judges of language models say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import FloatArray
from conal.data.encoding import MISSING, Names, encode, spelling, text_column
from conal.data.frames import find_column, find_columns, frame_column, open_frame
from conal.errors import DataWarning, InputError, examples, warn

WinnerArray = npt.NDArray[np.int8]
CodeArray = npt.NDArray[np.int32]

LEFT, TIE, RIGHT = 1, 0, -1
WINNER_WORDS = {
    **dict.fromkeys(("left", "a", "model_a", "response_a", "option_a"), LEFT),
    **dict.fromkeys(("right", "b", "model_b", "response_b", "option_b"), RIGHT),
    **dict.fromkeys(("tie", "tie (bothbad)", "both_bad", "both bad", "equal", "draw", "both", "neither"), TIE),
}
"""What a winner may be called beside the name of an item; an item of that name comes first."""
NO_WINNER, UNKNOWN_WINNER = 2, 3


@dataclass(frozen=True, eq=False)
class Preferences:
    """Comparisons of two items each, by annotators: a row says who compared which items, and which one won.

    Attributes
    ----------
    left, right : (P,) int32
        Positions in ``item_ids``: the item that was shown first, and the other one.
    winner : (P,) int8
        1 for left, -1 for right, 0 for a tie.
    annotators, tasks : (P,) int32
        Positions in ``annotator_ids`` and ``task_ids``. Without a column of tasks, every comparison is one of its own.
    covariates : (P, K) float64
        What may favour the left item if positive, and the right one if negative, such as its length minus the other's.
    item_ids, annotator_ids, task_ids, covariate_names
        What the user called them.
    """

    left: CodeArray
    right: CodeArray
    winner: WinnerArray
    annotators: CodeArray
    tasks: CodeArray
    item_ids: Names
    annotator_ids: Names
    task_ids: Names
    covariates: FloatArray
    covariate_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.winner)

    def __repr__(self) -> str:
        counts = f"{len(self.item_ids):,} items, {len(self.annotator_ids):,} annotators"
        return f"Preferences({counts}, {len(self):,} comparisons)"

    @property
    def has_ties(self) -> bool:
        """Whether any comparison is a tie."""
        return bool((self.winner == TIE).any())

    def rows(self, chosen: npt.NDArray[Any]) -> Preferences:
        """Some of the comparisons, with all names and codes as they are."""
        columns = ("left", "right", "winner", "annotators", "tasks", "covariates")
        return replace(self, **{name: getattr(self, name)[chosen] for name in columns})

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        worker: str | None = None,
        left: str | None = None,
        right: str | None = None,
        winner: str | None = None,
        covariates: Sequence[str] = (),
        where: str = "frame",
    ) -> Preferences:
        """From a table (pandas, polars, Arrow) with a row per comparison.

        Columns are found by name: ``worker``, ``left``, ``right``, ``winner`` and, if there is one, ``task``, or by
        one of their usual names (``judge``, ``model_a``, ``model_b``); name others by keyword. The winner is the name
        of an item, or left, right or tie. A row without a winner is left out. A covariate is a column of numbers, or
        two columns of which it is the difference: ``length`` is ``left_length`` minus ``right_length``.

        >>> table = {"worker": ["ann", "bob"], "left": ["x", "x"], "right": ["y", "y"], "winner": ["x", "tie"]}
        >>> Preferences.from_frame(pa.table(table)).winner.tolist()
        [1, 0]
        """
        table = open_frame(frame, where)
        wanted = {"worker": worker, "left": left, "right": right, "winner": winner}
        found = find_columns(table.columns, wanted, where)
        others = [name for name in table.columns if name not in found.values()]
        task_column = find_column(others, "task", task, where, more=True)
        columns = {role: frame_column(table[name]) for role, name in found.items()}
        tasks = None if task_column is None else frame_column(table[task_column])
        values = [_covariate(table, name, where) for name in covariates]
        return cls.from_columns(
            **columns, task=tasks, covariates=dict(zip(covariates, values, strict=True)), where=where
        )

    @classmethod
    def from_columns(
        cls,
        *,
        worker: Any,
        left: Any,
        right: Any,
        winner: Any,
        task: Any = None,
        covariates: dict[str, Any] | None = None,
        where: str = "comparisons",
    ) -> Preferences:
        """From lists, arrays or Arrow columns of equal length; see :meth:`from_frame`."""
        sides, items = encode(_both(left, right))
        n = len(sides) // 2
        annotators, annotator_ids = encode(worker)
        tasks, task_ids = encode(np.arange(n) if task is None else task)
        values = {name: np.asarray(column, dtype=np.float64) for name, column in (covariates or {}).items()}
        given = {"left": sides[:n], "right": sides[n:], "worker": annotators, "task": tasks}
        _check_rows(given, values, n, where)
        winners = _winners(winner, given["left"], given["right"], items, where)
        names = (items, annotator_ids, task_ids)
        stacked = np.column_stack(list(values.values())) if values else np.zeros((n, 0))
        found = cls(sides[:n], sides[n:], winners, annotators, tasks, *names, stacked, tuple(values))
        return _with_winner(found, where)

    @classmethod
    def read(cls, path: str | PathLike[str], **columns: Any) -> Preferences:
        """From a table file: CSV, TSV, JSON Lines, Parquet, Arrow or Excel; see :meth:`from_frame`."""
        from conal.io.tables import read_table

        roles = ("task", "worker", "left", "right", "winner")
        names = [columns.get(role) for role in roles]
        return cls.from_frame(read_table(path, names=names, roles=roles), where=str(path), **columns)


def _both(left: Any, right: Any) -> Any:
    """The items of both sides in one column, as text where one side has other types than the other."""
    sides = [encode(side) for side in (left, right)]
    columns = [pa.array(names.tolist()).take(pa.array(codes, mask=codes == MISSING)) for codes, names in sides]
    if columns[0].type != columns[1].type:
        columns = [text_column(column) for column in columns]
    if len(columns[0]) != len(columns[1]):
        raise InputError(f"left has {len(columns[0]):,} items and right {len(columns[1]):,}; pass one of each per row")
    return pa.chunked_array(columns)


def _covariate(table: Any, name: str, where: str) -> FloatArray:
    """A column of numbers, or the difference of the two columns of the left and of the right item."""
    pair = [f"left_{name}", f"right_{name}"]
    names = [name] if name in table.columns else pair
    if not set(names) <= set(table.columns):
        raise InputError(f"{where}: no covariate {name!r}: there is neither a column {name!r} nor {' and '.join(pair)}")
    try:
        values = [np.asarray(table[each].to_numpy(), dtype=np.float64) for each in names]
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: the covariate {name!r} must have numbers alone: {error}") from error
    return values[0] if len(values) == 1 else values[0] - values[1]


def _check_rows(given: dict[str, CodeArray], covariates: dict[str, FloatArray], n: int, where: str) -> None:
    """Every row has two different items, an annotator, and finite covariates."""
    if not n:
        raise InputError(f"{where}: has no comparisons; pass a row for each")
    for role, codes in given.items():
        missing = np.flatnonzero(codes == MISSING)
        if len(codes) != n or len(missing):
            what = f"{len(codes):,} values" if len(codes) != n else f"none in row {missing[0] + 1}"
            raise InputError(f"{where}: {role} has {what}; pass one for each of the {n:,} comparisons")
    for name, values in covariates.items():
        if values.shape != (n,) or not np.isfinite(values).all():
            raise InputError(
                f"{where}: the covariate {name!r} must be a finite number in each of the {n:,} comparisons"
            )
    same = np.flatnonzero(given["left"] == given["right"])
    if len(same):
        raise InputError(
            f"{where}: {len(same):,} comparisons are of an item with itself, the first in row {same[0] + 1}; "
            "remove them"
        )


def _winners(winner: Any, left: CodeArray, right: CodeArray, items: Names, where: str) -> WinnerArray:
    """The side that won each comparison; a winner that is neither side is an error."""
    codes, names = encode(winner)
    if len(codes) != len(left):
        raise InputError(
            f"{where}: winner has {len(codes):,} values; pass one for each of the {len(left):,} comparisons"
        )
    places = {spelling(name): k for k, name in enumerate(items.tolist())}
    spelled = [spelling(name) for name in names.tolist()]
    as_item = np.array([*(places.get(name, MISSING) for name in spelled), MISSING])[codes]
    words = [WINNER_WORDS.get(name.strip().casefold(), UNKNOWN_WINNER) for name in spelled]
    found = np.array([*words, NO_WINNER], dtype=np.int8)[codes]
    found[as_item != MISSING] = UNKNOWN_WINNER
    found[(as_item == left) & (as_item != MISSING)] = LEFT
    found[(as_item == right) & (as_item != MISSING)] = RIGHT
    bad = np.flatnonzero(found == UNKNOWN_WINNER)
    if len(bad):
        k = bad[0]
        raise InputError(
            f"{where}: row {k + 1}: the winner {examples([names[codes[k]]])} is neither the left item "
            f"{examples([items[left[k]]])} nor the right item {examples([items[right[k]]])}, and so in {len(bad):,} "
            "rows; write the name of one of the two, or left, right or tie"
        )
    return found


def _with_winner(found: Preferences, where: str) -> Preferences:
    """Without the rows that have no winner, which are counted."""
    has_winner = found.winner != NO_WINNER
    lost = int((~has_winner).sum())
    if lost == len(found):
        raise InputError(f"{where}: no comparison has a winner; write the name of an item, left, right or tie")
    if not lost:
        return found
    warn(f"{where}: {lost:,} of {len(found):,} comparisons have no winner and are left out", DataWarning)
    kept = found.rows(has_winner)
    (left, right), items = _used(np.stack([kept.left, kept.right]), kept.item_ids)
    annotators, annotator_ids = _used(kept.annotators, kept.annotator_ids)
    tasks, task_ids = _used(kept.tasks, kept.task_ids)
    names = (items, annotator_ids, task_ids)
    return Preferences(left, right, kept.winner, annotators, tasks, *names, kept.covariates, kept.covariate_names)


def _used(codes: CodeArray, names: Names) -> tuple[CodeArray, Names]:
    """Codes into the names that occur, and these names."""
    used, places = np.unique(codes, return_inverse=True)
    return places.reshape(codes.shape).astype(np.int32), names[used]
