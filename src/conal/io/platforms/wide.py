"""A matrix as a table, with one row per task and one column per annotator, as cleanlab's ``labels_multiannotator``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from conal.data.cleaning import NOT_ANNOTATED, Labels, Rule, abstention_words, missing_rule, read_labels
from conal.data.encoding import numbers_or_text, spelling, text_column
from conal.data.frames import is_name_column, is_truth_column, warn_of_truth
from conal.errors import DataWarning, InputError, examples, warn
from conal.io.annotation_file import UNLABELLED, AnnotationFile, annotations_from
from conal.io.platforms.base import Importer, register, true_labels_of
from conal.io.platforms.files import Head, Sheet, read_sheet
from conal.io.tables import blank_to_null, pandas_index
from conal.parameters.reading import ReadOptions

INDEX = ("", "Unnamed: 0", "__index_level_0__", "index")
"""What pandas calls an index without a name, in its files."""

MAX_CLASSES = 50
"""More distinct cells than this in the first rows are measurements, not labels."""


MIN_ROWS_OF_IDS = 5
"""Rows below which any annotator may give every task another label."""


@register("wide")
class Wide(Importer):
    """One row per task and one column per annotator; an empty cell, NaN, NA or -1 means "not annotated".

    The tasks are in the index that pandas wrote to a Parquet file, or in the first column, if it has a usual name of
    task ids or no name; otherwise tasks are row numbers. A column called ``truth``, ``gold``, ``target`` or so has
    the true labels.
    """

    title = "a wide table (cleanlab's labels_multiannotator)"
    expects = "a row per task and a column per annotator"
    kinds = ("table", "parquet", "arrow")
    shows_tasks = False
    takes = ("task",)

    def sniff(self, head: Head) -> bool:
        """Strict, because features are tables too: an index of tasks, and cells that look like labels."""
        header = [name for name in head.header if not is_truth_column(name)]
        if head.kind not in ("table", "xlsx") or len(header) < 3 or not _is_index(head.header[0]):
            return False
        if any(is_name_column(name, ("worker", "label", "truth")) for name in header):
            return False
        cells = [cell.strip() for row in head.rows for cell in row[1:]]
        present = [cell for cell in cells if cell.lower() not in ("", "nan", "-1", "-1.0")]
        distinct = set(present)
        few = len(distinct) <= MAX_CLASSES and len(distinct) < len(present)  # labels repeat, measurements hardly
        return few and not any(_is_fraction(cell) for cell in distinct)

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        sheet = read_sheet(path)
        index = pandas_index(sheet.table.schema)
        task = options.task or _task_column(sheet, index)
        columns = [name for name in sheet.names if name not in (task, *index)]
        truth = [name for name in columns if is_truth_column(name)]
        if truth:
            warn_of_truth(truth, sheet.where, "pass --true-labels export (in Python: AnnotationFile.true_labels)")
        annotators = _annotators(sheet, [name for name in columns if name not in truth])
        rows = sheet.table.num_rows
        tasks = pa.chunked_array([pa.array(range(rows))]) if task is None else sheet.column(task)
        if not annotators:
            self.unlike(path, f"a table with the columns {examples(sheet.names, 8)}")
        _refuse_repeats(tasks, sheet.where, task)
        if task is None:
            _warn_of_ids(sheet, annotators)
        labels = _read_cells(sheet, annotators, options)
        workers = numbers_or_text(pa.chunked_array([pa.array(annotators, pa.string())]))
        present = labels.answered
        who, row = np.divmod(np.flatnonzero(present), rows)  # one annotator's column after the other
        empty = rows - len(np.unique(row))
        dropped = {UNLABELLED: empty} if empty else {}
        triples = tasks.take(pa.array(row)), workers.take(pa.array(who)), labels.only(present)
        crowd = annotations_from(*triples, options, where=path, dropped=dropped, untyped=sheet.untyped)
        left_out = Counter(dropped)
        gold = zip(tasks.to_pylist(), sheet.column(truth[0]).to_pylist(), strict=True) if truth else ()
        known = true_labels_of(gold, labels.names, options, left_out, in_matrix=True)
        return AnnotationFile(
            path, self.name, self.title, crowd, true_labels=known, dropped=dict(left_out), numbered=task is None
        )


def _task_column(sheet: Sheet, index: Sequence[str]) -> str | None:
    """The column that names the tasks; None if row numbers do."""
    if len(index) > 1:
        raise InputError(
            f"{sheet.where}: its index has several columns, {examples(index)}; choose one with task= (--task-column)"
        )
    first = sheet.names[0]
    return index[0] if index else first if _is_index(first) else None


def _annotators(sheet: Sheet, names: Sequence[str]) -> list[str]:
    """All of these columns but those of texts, with a warning."""
    texts = [name for name in names if is_name_column(name, ("text",))]
    if texts:
        warn(f"{sheet.where}: {examples(texts)} is no annotator, as its name is that of texts; left out", DataWarning)
    return [name for name in names if name not in texts]


def _warn_of_ids(sheet: Sheet, annotators: Sequence[str]) -> None:
    """A first column in which no cell occurs twice, nor in another column, names the tasks rather than labels them."""
    first, *others = annotators
    cells = sheet.column(first).to_pylist()
    if len(cells) > MIN_ROWS_OF_IDS and len(set(cells)) == len(cells) and others:
        elsewhere = {cell for name in others for cell in sheet.column(name).unique().to_pylist()}
        if elsewhere.isdisjoint(cells):
            warn(
                f"{sheet.where}: {first!r} counts as an annotator, though each of its cells is another one; if it has "
                f"the task ids, set task={first!r} (--task-column {first!r})",
                DataWarning,
            )


def _is_index(name: str) -> bool:
    return name in INDEX or is_name_column(name, ("task",))


def _is_fraction(cell: str) -> bool:
    try:
        return not float(cell).is_integer()
    except (ValueError, OverflowError):
        return False


def _read_cells(sheet: Sheet, annotators: Sequence[str], options: ReadOptions) -> Labels:
    """The labels of all cells, one annotator's column after the other."""
    columns, rule = [sheet.column(name) for name in annotators], _no_class(options)
    read = partial(
        read_labels, missing=options.missing, abstain=options.abstain, classes=options.classes, in_matrix=True
    )
    typed = [_numbers(column, rule) if sheet.untyped else column for column in columns]
    labels = read(_one_type(_agreed(typed, columns, sheet.where) if sheet.untyped else typed))
    words = Counter(labels.words)
    for column, numbers in zip(columns, typed, strict=True):
        if numbers is not column:  # text only because of the words among its numbers
            found = read(column).words
            words.update({word: count for word, count in found.items() if word not in NOT_ANNOTATED})
    if labels.abstained is not None:  # from the cells themselves: a column of numbers has lost its words
        abstained = [each for column in columns if (each := read(column).abstained) is not None]
        labels = labels._replace(abstained=np.concatenate(abstained))
    return labels._replace(words=words)


def _no_class(options: ReadOptions) -> Rule:
    """Whether a cell is empty, or a word that is no class."""
    is_missing = missing_rule(options.missing, options.classes, in_matrix=True)
    words = abstention_words(options.abstain)
    return lambda name: is_missing(name) or spelling(name).strip() in words


def _numbers(column: pa.ChunkedArray, rule: Rule) -> pa.ChunkedArray:
    if not pa.types.is_string(column.type):
        return column
    numbers = numbers_or_text(blank_to_null(column, rule))
    return column if pa.types.is_string(numbers.type) else numbers


def _agreed(columns: Sequence[pa.ChunkedArray], cells: Sequence[pa.ChunkedArray], where: str) -> list[pa.ChunkedArray]:
    """Columns in which a class is spelled alike: 3.0 stays text where it is not what pandas makes of 3 beside gaps.

    It is not if another column with gaps, which are empty cells, spells the same number 3, nor beside columns of text,
    unless these spell it 3.
    """
    gapped = [column for column in columns if _is_whole(column)]
    values = {value for column in gapped for value in _distinct(column)}
    others = [
        column
        for column, texts in zip(columns, cells, strict=True)
        if pa.types.is_integer(column.type) and not {None, ""}.isdisjoint(texts.unique().to_pylist())
    ]
    if not values.isdisjoint(value for column in others for value in _distinct(column)):
        return list(map(_as_spelled, columns))
    kept = [column for column in columns if not pa.types.is_floating(column.type)]
    if not any(pa.types.is_string(column.type) or _cast_all([column], pa.float64()) is None for column in kept):
        return list(columns)
    texts = {str(cell) for column in kept for cell in _distinct(column)}
    same = sorted(value for value in values if _spelled_whole(value) in texts)
    if same and texts.isdisjoint(map(repr, values)):
        warn(
            f"{where}: {same[0]!r} is read as {_spelled_whole(same[0])!r}, as another column spells it: pandas writes "
            "whole numbers so in columns with empty cells; if they are two classes, rename one",
            DataWarning,
        )
        return list(columns)
    return list(map(_as_spelled, columns))


def _distinct(column: pa.ChunkedArray) -> list[Any]:
    return [value for value in column.unique().to_pylist() if value is not None]


def _is_whole(column: pa.ChunkedArray) -> bool:
    """Whether these are decimals only because of gaps: 3.0 and no 3.5."""
    return pa.types.is_floating(column.type) and all(value.is_integer() for value in _distinct(column))


def _spelled_whole(value: float) -> str:
    return str(int(value))


def _as_spelled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers with gaps as text, 3.0; other columns as they are."""
    if not _is_whole(column):
        return column
    cells = (None if value is None else repr(value) for value in column.to_pylist())
    return pa.chunked_array([pa.array(cells, pa.string())])


def _one_type(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """All cells in one column: numbers if every column contains numbers that one type can hold, otherwise text."""
    kinds = {column.type for column in columns if not pa.types.is_null(column.type)}
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        numbers = _cast_all(columns, pa.float64() if any(map(pa.types.is_floating, kinds)) else pa.int64())
        if numbers is not None:
            return numbers
    # 1.0 is how pandas writes the class 1 where some cells are empty.
    whole = [_cast_all([column], pa.int64()) if pa.types.is_floating(column.type) else None for column in columns]
    texts = [column if found is None else found for column, found in zip(columns, whole, strict=True)]
    return pa.chunked_array([text_column(chunk) for column in texts for chunk in column.chunks], pa.string())


def _cast_all(columns: Sequence[pa.ChunkedArray], kind: pa.DataType) -> pa.ChunkedArray | None:
    """All cells as numbers of this type; None if it does not hold one of them exactly, such as a float 2**53 + 1."""
    try:
        return pa.chunked_array([chunk.cast(kind) for column in columns for chunk in column.chunks], kind)
    except pa.ArrowInvalid:
        return None


def _refuse_repeats(tasks: pa.ChunkedArray, where: str, name: str | None) -> None:
    if name is not None and len(tasks.unique()) < len(tasks):
        raise InputError(f"{where}: column {name!r} has some tasks twice; expected one row per task")
