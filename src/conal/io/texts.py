"""Texts of tasks from tables and frames, and whether rows without ids are really the tasks, in this order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from conal.data.encoding import Names, as_names, spelling
from conal.data.frames import column_names, find_column, find_columns, is_name_column, open_frame
from conal.data.matching import differ_in_type
from conal.errors import DataWarning, InputError, examples, warn
from conal.io.delimited import refuse_line_ends
from conal.io.features import FEW, FeatureTable, frame_to_arrow, ids_from, may_be_ids
from conal.io.limits import ARROW_ERRORS, refusing
from conal.io.tables import UNTYPED, decoded, read_table, table_kind

# Texts from CSV, TSV, Parquet, Arrow, Excel, JSON Lines and frames, one per task.


@dataclass(frozen=True)
class TextTable:
    """Texts and what is known about them.

    Attributes
    ----------
    texts : tuple of str
        One per task; "" where there is none.
    ids : (n,) array or None
        Task ids, where the source carries any.
    where : str
        How messages name the source.
    others : pyarrow.Table or None
        The other columns of a table without ids, which may be among them under another name.
    """

    texts: tuple[str, ...]
    ids: Names | None = None
    where: str = "texts"
    others: pa.Table | None = None

    @property
    def other_columns(self) -> tuple[str, ...]:
        """Names of the other columns."""
        return () if self.others is None else tuple(map(str, self.others.column_names))

    def __len__(self) -> int:
        return len(self.texts)


def read_texts(
    path: str | PathLike[str],
    *,
    text: str | None = None,
    task: str | None = None,
    format: str | None = None,  # noqa: A002
    fallback_to_aliases: bool = False,
) -> TextTable:
    """Read one text per task; a task may have several rows, as in a file of labels, if all contain the same text.

    Parameters
    ----------
    path : path
        CSV, TSV, Parquet, Arrow (also a folder of ``save_to_disk``), Excel or JSON Lines.
    text, task : str, optional
        Column names, where they are not the usual ones (:data:`conal.data.frames.ALIASES`). Without a task column, row
        numbers are the ids.
    fallback_to_aliases : bool
        A file without the column named by ``task`` may have one of the usual names instead.
    """
    if format is None and Path(path).suffix.lower() == ".json":
        raise InputError(
            f"{path}: texts must be a table (CSV, TSV, Parquet, JSON Lines), or an export of a platform that is also "
            "the file of labels; write the texts as a table with a task column and a text column"
        )
    table = read_table(Path(path), format, (task, text), roles=("task", "text"))
    named = None if fallback_to_aliases and task not in table.column_names else task
    found = _from_arrow(table, text, named, str(path))
    if table_kind(Path(path), format) in UNTYPED:
        refuse_line_ends(Path(path), task=found.ids)
    return found


def texts_of(table: pa.Table, *, text: str | None, where: str) -> TextTable:
    """Texts in a table of tasks, as an export of a platform contains them (:func:`conal.io.import_file`)."""
    return _from_arrow(table, text, "task", where)


def join_texts(tables: Sequence[TextTable], *, where: str) -> TextTable:
    """The texts of several files of labels; where two have different texts for one task, the first counts.

    Whoever joins the files has warned of it, or refused them (:mod:`conal.io.importing`).
    """
    nameless = next((table for table in tables if table.ids is None), None)
    if nameless is not None:
        raise InputError(f"{nameless.where}: has no column of task ids to join it with the other files; add one")
    ids = [table.ids for table in tables if table.ids is not None]
    spelled = spelling if differ_in_type(ids) else lambda name: name
    found: dict[Any, str] = {}
    for names, table in zip(ids, tables, strict=True):
        for name, text in zip(map(spelled, names.tolist()), table.texts, strict=True):
            if text.strip() or name not in found:
                found[name] = found.get(name, "") if found.get(name, "").strip() else text
    return TextTable(tuple(found.values()), as_names(found), where)


def is_text(values: Any) -> bool:
    """Whether these are texts: a :class:`TextTable`, a sequence of str, or a frame with a column of them."""
    if isinstance(values, TextTable | FeatureTable):
        return isinstance(values, TextTable)
    if column_names(values) is None:
        return _is_sequence_of_text(values)
    return _may_hold_text(values) and _text_column(frame_to_arrow(values, "features"), "features") is not None


def texts_from(values: Any, *, task_ids: Any = None, where: str = "texts") -> TextTable:
    """Texts from a list, an array, a Series, a frame with a text column, or a :class:`TextTable`."""
    if isinstance(values, TextTable):
        table = values
    elif column_names(values) is not None:
        arrow = frame_to_arrow(values, where)
        table = _from_arrow(arrow, _text_column(arrow, where), None, where)
        if task_ids is None:
            _warn_of_ids(table)
    else:
        index = getattr(values, "index", None)  # a Series; of a list it is a method without a name
        named = is_name_column(getattr(index, "name", None) or "", ["task"])
        ids = ids_from(index, where) if named else None
        plain = values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else list(values)
        table = _one_per_task(plain, ids, where)
    return table if task_ids is None else replace(table, ids=ids_from(task_ids, where))


def _warn_of_ids(table: TextTable) -> None:
    """Ids under another name would count for nothing, and rows would be tasks in whatever order they are."""
    if table.others is None or len(table) < FEW:
        return
    ids = [name for name in table.others.column_names if len(table.others[name].unique()) == len(table)]
    if ids:
        warn(
            f"{table.where}: has no column 'task': its rows are tasks in their present order, and {examples(ids)} "
            "counts for nothing; if these are task ids, call the column 'task'",
            DataWarning,
        )


def _may_hold_text(frame: Any) -> bool:
    """A look at the types, so that large tables of numbers are not converted in vain."""
    import narwhals as nw

    kinds = (nw.String, nw.Categorical, nw.Enum, nw.Object)
    types = open_frame(frame, "features").schema.items()
    return any(isinstance(kind, kinds) and not is_name_column(name, ["task"]) for name, kind in types)


def _is_sequence_of_text(values: Any) -> bool:
    from conal.text import is_missing

    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_pylist()
    if not (isinstance(values, list | tuple | np.ndarray) or hasattr(values, "to_list")):  # a Series has it
        return False
    if getattr(values, "ndim", 1) != 1 or getattr(getattr(values, "dtype", None), "kind", "O") in "fiubc":
        return False
    found = (value for value in values if not is_missing(value))
    first = next(found, None)
    return isinstance(first, str) and all(isinstance(value, str) for value in found)


def _text_column(table: pa.Table, where: str) -> str | None:
    """A frame's column of text; None where it has none and is a table of numbers, or of something else."""
    names = [str(name) for name in table.column_names]
    task = find_column(names, "task", None, where)
    text = [name for name in names if name != task and _holds_text(table[name])]
    usual = [name for name in text if is_name_column(name, ["text"])]
    if not usual and len(text) != 1:
        return None
    numbers = [name for name in names if name != task and name not in text]
    if numbers and usual:
        raise InputError(
            f"{where}: has text in {examples(usual)} and other columns, {examples(numbers)}; "
            "pass the text (and the task ids) or the features, not both"
        )
    if numbers:
        return None
    return find_column(usual, "text", None, where) if usual else text[0]


def _holds_text(column: pa.ChunkedArray) -> bool:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _from_arrow(table: pa.Table, text: str | None, task: str | None, where: str) -> TextTable:
    columns = [str(name) for name in table.column_names]
    column = find_columns(columns, {"text": text}, where)["text"]
    task_column = find_column([name for name in columns if name != column], "task", task, where)
    values = decoded(table[column], f"{where}: column {column!r}")
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_nested(values.type):
        raise InputError(
            f"{where}: column {column!r} contains {values.type}, not text; name another by --set text_column=NAME"
        )
    ids = None if task_column is None else ids_from(table[task_column], where)
    with refusing(
        ARROW_ERRORS,
        f"{where}: column {column!r} contains {values.type}, not text ({{}}); name another by --set text_column=NAME",
    ):
        texts = values.cast(pa.large_string()).to_pylist()
    found = _one_per_task(texts, ids, where)
    return found if ids is not None else replace(found, others=table.drop_columns([column]))


def _one_per_task(values: list[Any], ids: Names | None, where: str) -> TextTable:
    """Repeated tasks become one; two texts of one task are an error, an empty one beside another is not."""
    from conal.text import check_texts

    texts = check_texts(values)
    if ids is None:
        return TextTable(tuple(texts), None, where)
    found: dict[Any, str] = {}
    for row, (name, text) in enumerate(zip(ids.tolist(), texts, strict=True)):
        known = found.setdefault(name, text)
        if known != text and known.strip() and text.strip():
            raise InputError(
                f"{where}: task {name!r} has different texts, the second is in row {row + 1}: {_short(known)} and "
                f"{_short(text)}; pass one text per task"
            )
        if not known.strip():
            found[name] = text
    return TextTable(tuple(found.values()), as_names(found), where)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


# Features and texts without a column of ids: are their rows really the tasks, in this order?

REMEDY = "call the column of ids 'task'"


def check_row_order(table: FeatureTable | TextTable, task_ids: Names) -> None:
    """Say that rows of a table without ids are taken for tasks by their numbers; an error where that cannot be meant.

    It cannot where a column has the ids of all tasks, or where no task is a row number. Bare arrays, which have no
    columns, are meant so.
    """
    columns = table.columns if isinstance(table, FeatureTable) else table.other_columns
    if table.ids is not None or not columns:
        return
    tasks = {spelling(name) for name in task_ids.tolist()}
    rows = [str(row) for row in range(len(table))]
    harmless = rows if isinstance(table, TextTable) or len(columns) == 1 else None  # else they would be a feature
    for name, values in _could_be_ids(table):
        if values != harmless and tasks <= set(values) and len(set(values)) == len(values):
            raise InputError(f"{table.where}: column {name!r} has the tasks' ids, but is not called so; {REMEDY}")
    if tasks.isdisjoint(rows):
        raise InputError(
            f"{table.where}: has no column of task ids (it has {examples(columns)}), and tasks such as "
            f"{examples(task_ids[:1])} are no row numbers (0 to {len(rows) - 1:,}); {REMEDY}"
        )
    numbers = f"0 to {len(rows) - 1:,}"
    warn(f"{table.where}: has no column of task ids; its rows are tasks {numbers}, in this order", DataWarning)


def warn_of_row_numbers(table: FeatureTable | TextTable, known: Sequence[str] = ()) -> None:
    """Say that row numbers stand for ids, where a column that is not used might have them.

    ``known`` are the columns of features that a model uses.
    """
    if table.ids is not None:
        return
    unused = [name for name, values in _could_be_ids(table) if name not in known and len(set(values)) == len(values)]
    if unused:
        warn(
            f"{table.where}: has no column of task ids, so that tasks are called 0 to {len(table) - 1:,}, and "
            f"{examples(unused)} counts for nothing; if these are the ids, {REMEDY}",
            DataWarning,
        )


def _could_be_ids(table: FeatureTable | TextTable) -> Iterator[tuple[str, list[str]]]:
    """Columns as files spell them; of features those of whole numbers of which none occurs twice at the beginning."""
    if isinstance(table, TextTable):
        if table.others is not None:
            for name in table.others.column_names:
                yield name, [spelling(value) for value in table.others[name].to_pylist()]
        return
    for name, values in zip(table.columns, table.values.T if table.columns else (), strict=True):
        if may_be_ids(values):
            yield name, [str(int(value)) for value in values.tolist()]
