"""Exports that are tables: columns by name, rows dropped with a count, and annotations from the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conal.data.cleaning import missing_rule, read_labels
from conal.data.encoding import Names, numbers_or_text, text_column
from conal.errors import InputError, examples
from conal.io.annotation_file import AnnotationFile, annotations_from
from conal.io.limits import VALUE_ERRORS, refusing
from conal.io.platforms.base import NO_ANNOTATOR, NO_ANSWER, Importer
from conal.io.platforms.head import read_head
from conal.io.tables import blank_to_null, check_readable, decoded, read_table
from conal.parameters.reading import ReadOptions


class Sheet:
    """A table that is converted to annotations.

    Columns contain text, or numbers if all values of a column are numbers, so names keep their exact text.
    """

    def __init__(self, table: pa.Table, path: Path, *, untyped: bool = True) -> None:
        self.table, self.path, self.where, self.untyped = table, path, str(path), untyped
        self.dropped: Counter[str] = Counter()

    @property
    def names(self) -> list[str]:
        return list(self.table.column_names)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column; a missing one is an error that lists the existing ones."""
        return decoded(self._flat(name), f"{self.where}: column {name!r}")

    def _flat(self, name: str) -> pa.ChunkedArray:
        """A column as the file has it, unless it contains lists and the like."""
        place = self.table.schema.get_field_index(name)  # by a hash: there may be a column per annotator
        if place < 0:
            raise InputError(f"{self.where}: no column {name!r}; it has {examples(self.names, 12)}")
        column = self.table.column(place)
        if pa.types.is_nested(column.type):
            raise InputError(f"{self.where}: column {name!r} contains {column.type}, not one value per row; remove it")
        return column

    def texts(self, name: str) -> list[str]:
        """A column as text, empty where a value is missing."""
        return ["" if value is None else str(value) for value in self.column(name).to_pylist()]

    def drop(self, mask: Any, reason: str) -> None:
        """Drop the rows where the mask is true."""
        mask = pc.fill_null(mask, False)
        count = pc.sum(mask).as_py() or 0
        if count:
            self.dropped[reason] += count
            self.table = self.table.filter(pc.invert(mask))

    def drop_values(self, name: str, values: Sequence[str], reason: str) -> None:
        """Drop the rows in which a column, if it exists, has one of these values, ignoring case."""
        if name in self.names:
            text = pc.utf8_lower(self.column(name).cast(pa.string()))
            self.drop(pc.is_in(text, value_set=pa.array([value.lower() for value in values])), reason)

    def drop_blank(self, names: Sequence[str]) -> None:
        """Drop the rows where all these columns are empty, such as separators of Toloka's task suites."""
        blank = reduce(pc.and_, (pc.is_null(blank_to_null(self.column(name))) for name in names))
        self.table = self.table.filter(pc.invert(blank))

    def sort_by_time(self, name: str) -> None:
        """Sort by time, oldest first; times must sort as text, such as 2026-11-16T10:00:00."""
        if name in self.names:
            times = self._flat(name)
            if pa.types.is_dictionary(times.type):
                times = times.cast(times.type.value_type)
            unsorted = f"{self.where}: column {name!r} contains {times.type}, which cannot be sorted ({{}}); write text"
            with refusing((pa.ArrowTypeError, pa.ArrowNotImplementedError), unsorted):
                order = pc.sort_indices(times)
            self.table = self.table.take(order)

    def finish(
        self,
        importer: Importer,
        options: ReadOptions,
        *,
        task: str,
        worker: str,
        label: str,
        question: str | None = None,
        gold: str | None = None,
        data: Sequence[str] = (),
        prefix: str = "",
        choice_question: str | None = None,
        time: str | None = None,
    ) -> AnnotationFile:
        """Annotations from three columns, true labels from a fourth, and the data of the tasks from others.

        ``choice_question`` is an example of a question about one choice, for messages about several answers; ``time``
        is the column of times, if there is one of that name.
        """
        for name in (task, worker, label):
            self.column(name)
        shown = self._data(task, data, prefix)  # before anything is left out
        known = None if gold is None or gold not in self.names else (self.column(task), self.column(gold))
        self.drop(pc.is_null(blank_to_null(self.column(label))), NO_ANSWER)
        self.drop(pc.is_null(blank_to_null(self.column(worker))), NO_ANNOTATOR)
        labels = read_labels(
            self.column(label),
            missing=options.missing,
            abstain=options.abstain,
            classes=options.classes,
            untyped=self.untyped,
            where=self.where,
        )
        truth = {} if known is None else self.true_labels(*known, labels.names, options)
        columns = self.column(task), self.column(worker), labels
        crowd = annotations_from(
            *columns,
            options,
            where=self.path,
            dropped=self.dropped,
            untyped=self.untyped,
            choice_question=choice_question,
            times=None if time is None or time not in self.names else self.table[time],
        )
        return AnnotationFile(
            self.path,
            importer.name,
            importer.title,
            crowd,
            question=question,
            true_labels=truth,
            dropped=dict(self.dropped),
            data=shown,
            choice_question=choice_question,
        )

    def true_labels(
        self, tasks: pa.ChunkedArray, labels: pa.ChunkedArray, classes: Names, options: ReadOptions, **rule: bool
    ) -> dict[Any, Any]:
        """Task to its one true label, in the type of the labels; tasks with several are dropped and counted."""
        is_missing = missing_rule(options.missing, options.classes, **rule)
        column = blank_to_null(labels, is_missing)
        if any(isinstance(name, str) for name in classes.tolist()):  # a few true labels may all be numbers
            column = text_column(column)
        elif self.untyped and pa.types.is_string(column.type):
            column = numbers_or_text(column)
        pairs = pa.table({"task": tasks, "gold": column}).drop_null()
        distinct = pairs.group_by(["task", "gold"], use_threads=False).aggregate([]).to_pylist()
        distinct = [row for row in distinct if not is_missing(row["gold"])]  # numbers, such as -1
        times = Counter(row["task"] for row in distinct)
        truth = {row["task"]: row["gold"] for row in distinct if times[row["task"]] == 1}
        if len(truth) < len(times):
            self.dropped["true labels that contradict each other"] += len(times) - len(truth)
        return truth

    def _data(self, task: str, names: Sequence[str], prefix: str) -> pa.Table | None:
        names = [name for name in names if name != task or prefix]
        if not names:
            return None
        for name in names:
            _check_values(self.table[name], f"{self.where}: column {name!r}")
        picked = self.table.select(names).rename_columns([name.removeprefix(prefix) for name in names])
        if "task" in picked.column_names:
            picked = picked.rename_columns([name + "_" if name == "task" else name for name in picked.column_names])
        rows = pa.table({"task": self.column(task), "row": np.arange(self.table.num_rows)})
        first = rows.filter(pc.is_valid(rows["task"])).group_by("task", use_threads=False).aggregate([("row", "min")])
        return picked.take(first["row_min"]).add_column(0, "task", first["task"])


def _check_values(column: pa.ChunkedArray, where: str) -> None:
    """Refuse dates and the like that Python does not have; text, numbers and truth values are always readable."""
    kinds = (pa.types.is_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    if not any(is_kind(column.type) for is_kind in kinds):
        with refusing(VALUE_ERRORS, f"{where} contains values that cannot be read ({{}}); correct or remove them"):
            column.to_pylist()


def read_sheet(path: Path) -> Sheet:
    """A CSV, TSV or Parquet export, all of whose columns may contain names."""
    check_readable(path)
    head = read_head(path)
    if head.kind in ("parquet", "arrow", "xlsx"):
        return Sheet(read_table(path, head.kind), path, untyped=False)
    if head.kind != "table" or not head.header:
        raise InputError(f"{path}: expected a CSV or TSV table, found {head.describe()}")
    kind = "tsv" if head.delimiter == "\t" else "csv"
    return Sheet(read_table(path, kind, head.header, roles=()), path)
