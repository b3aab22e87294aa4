"""Tables with a row per task: a column per annotator, as cleanlab has them, or lists of annotators and labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conal.data.cleaning import Labels, Rule, abstention_words, missing_rule, read_labels
from conal.data.encoding import numbers_or_text, text_column
from conal.data.frames import find_column, is_name_column, is_truth_column, warn_of_truth
from conal.errors import DataWarning, InputError, examples, warn
from conal.io.annotation_file import (
    NO_ANSWER,
    UNLABELLED,
    AnnotationFile,
    Collector,
    annotations_from,
    true_labels_of,
)
from conal.io.binary_tables import class_names, name_of, table_schema
from conal.io.platforms import Importer, register
from conal.io.platforms.files import Head, Sheet, load_records, read_head, read_sheet
from conal.io.tables import pandas_index
from conal.parameters.reading import ReadOptions

INDEX = ("", "Unnamed: 0", "__index_level_0__", "index")
"""What pandas calls an index without a name, in its files."""

MAX_CLASSES = 50
"""More distinct cells than this in the first rows are measurements, not labels."""
WHOLE = re.compile(r"-?\d+\.0")


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
        if all(any(is_name_column(name, [role], more=True) for name in header) for role in ("worker", "label")):
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
            path,
            self.name,
            self.title,
            crowd,
            true_labels=known,
            dropped=dict(left_out),
            numbered=task is None,
            columns={} if task is None else {"task": task},
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


def _is_index(name: str) -> bool:
    return name in INDEX or is_name_column(name, ("task",), more=True)


def _is_fraction(cell: str) -> bool:
    try:
        return not float(cell).is_integer()
    except (ValueError, OverflowError):
        return False


def _read_cells(sheet: Sheet, annotators: Sequence[str], options: ReadOptions) -> Labels:
    """The labels of all cells, one annotator's column after the other."""
    columns = [sheet.column(name) for name in annotators]
    rule: dict[str, Any] = {"missing": options.missing, "classes": options.classes, "in_matrix": True}
    kinds = {column.type for column in columns if not pa.types.is_null(column.type)}
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        with suppress(pa.ArrowInvalid):  # a float holds no whole number of 17 digits
            kind = pa.float64() if any(map(pa.types.is_floating, kinds)) else pa.int64()
            return read_labels(_joined(columns, kind), abstain=options.abstain, **rule)
    is_missing, declined = missing_rule(**rule), abstention_words(options.abstain)
    texts = _alike(list(map(_as_text, columns)), lambda cell: is_missing(cell) or cell.strip() in declined)
    return read_labels(_joined(texts, pa.string()), abstain=options.abstain, untyped=sheet.untyped, **rule)


def _joined(columns: Sequence[pa.ChunkedArray], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.cast(kind) for column in columns for chunk in column.chunks], kind)


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells as text: 3.0 in a column of whole numbers that are decimals."""
    texts = text_column(column)
    if not pa.types.is_floating(column.type):
        return texts
    numbers = column.cast(pa.float64())
    is_whole = pc.all(pc.equal(numbers, pc.floor(numbers))).as_py()
    return pc.binary_join_element_wise(texts, "0", ".") if is_whole else texts


def _alike(columns: Sequence[pa.ChunkedArray], no_class: Rule) -> list[pa.ChunkedArray]:
    """Columns without the .0 that pandas writes after whole numbers beside gaps, unless others have such numbers."""
    cells = [column.unique().to_pylist() for column in columns]
    present = [[cell for cell in found if cell is not None and not no_class(cell)] for found in cells]
    whole = [sum(WHOLE.fullmatch(cell) is not None for cell in found) for found in present]
    gapped = [len(found) == n < len(every) for found, n, every in zip(present, whole, cells, strict=True)]
    if any(n and not is_gapped for n, is_gapped in zip(whole, gapped, strict=True)):
        return list(columns)
    pattern = r"^(-?\d+)\.0$"
    pairs = zip(columns, gapped, strict=True)
    return [pc.replace_substring_regex(column, pattern, r"\1") if is_gapped else column for column, is_gapped in pairs]


def _refuse_repeats(tasks: pa.ChunkedArray, where: str, name: str | None) -> None:
    if name is not None and len(tasks.unique()) < len(tasks):
        raise InputError(f"{where}: column {name!r} has some tasks twice; expected one row per task")


# Lists per row, as Hugging Face datasets have them.


@register("lists")
class Lists(Importer):
    """Two columns of equally long lists, such as ``annotators`` and ``labels``; rows are tasks.

    The tasks are in a column with a usual name of task ids, and otherwise row numbers. Labels that a dataset stores as
    numbers (``ClassLabel``) get their names; -1 means that there is no label.
    """

    title = "lists of annotators and labels"
    expects = "a row per task, with a list of annotators and a list of labels"
    kinds = ("parquet", "arrow", "json")
    takes = ("task", "worker", "label")

    def sniff(self, head: Head) -> bool:
        columns = _lists(head.record or {})
        return all(any(_is_called(name, role) for name in columns) for role in ("worker", "label"))

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        records = load_records(path)
        columns = list(dict.fromkeys(name for record in records for name in record))
        lists = list(dict.fromkeys(name for record in records for name in _lists(record)))
        if not lists:
            self.unlike(path, f"records with {examples(columns, 8) or 'nothing'}")
        worker, label = (
            _choose(lists, role, named, path) for role, named in (("worker", options.worker), ("label", options.label))
        )
        plain = [name for name in columns if name not in lists]
        task = find_column(plain, "task", options.task, str(path))
        names = class_names(table_schema(path, read_head(path).kind))
        found = Collector(self, path, options)
        for row, record in enumerate(records):
            name = row if task is None else found.name_of(record, task, f"row {row + 1}")
            found.show(name, {field: record.get(field) for field in plain if field != task})
            who, given = record.get(worker) or [], record.get(label) or []
            if not isinstance(who, list) or not isinstance(given, list) or len(who) != len(given):
                raise InputError(
                    f"{path}: row {row + 1} has {_count(who)} in {worker!r} and {_count(given)} in {label!r}; each "
                    "annotator of the list needs one label in the other"
                )
            if not given:
                found.dropped[UNLABELLED] += 1
            for person, value in zip(who, given, strict=True):
                if label in names:
                    value = name_of(value, names[label], f"{path}: row {row + 1}, column {label!r}")
                if value is None:
                    found.dropped[NO_ANSWER] += 1
                else:
                    found.add(name, person, value)
        return replace(found.finish(), numbered=task is None)


def _lists(record: Mapping[str, Any]) -> list[str]:
    return [name for name, value in record.items() if isinstance(value, list)]


def _is_called(name: str, role: str) -> bool:
    """Whether a column of lists has a usual name, in the singular or plural."""
    return is_name_column(name, [role]) or is_name_column(name.removesuffix("s"), [role])


def _choose(lists: Iterable[str], role: str, named: str | None, where: object) -> str:
    known = list(lists)
    if named is not None:
        if named not in known:
            raise InputError(f"{where}: column {named!r} contains no lists; those that do are {examples(known, 10)}")
        return named
    fitting = [name for name in known if _is_called(name, role)]
    if len(fitting) == 1:
        return fitting[0]
    problem = f"columns {examples(fitting, 10)} could all be" if fitting else "no column of lists is called like"
    raise InputError(
        f"{where}: {problem} the {role}s; columns with lists are {examples(known, 10)}; choose one with {role}= "
        f"(--{role}-column)"
    )


def _count(values: Any) -> str:
    """How many; what is no list may be the name of an annotator, which messages must not quote."""
    return f"{len(values)} entries" if isinstance(values, list) else "no list"
