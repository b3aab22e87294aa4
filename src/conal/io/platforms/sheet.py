"""Exports that are tables: columns by name, as Arrow or Python has them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from conal.errors import InputError, examples
from conal.io.limits import VALUE_ERRORS, refusing
from conal.io.platforms.head import read_head
from conal.io.tables import blank_to_null, check_readable, decoded, read_table


class Sheet:
    """A table from which annotations are collected.

    Columns contain text, or numbers if all values of a column are numbers, so names keep their exact text.
    """

    def __init__(self, table: pa.Table, path: Path, *, untyped: bool = True) -> None:
        self.table, self.path, self.where, self.untyped = table, path, str(path), untyped

    @property
    def names(self) -> list[str]:
        return list(self.table.column_names)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of names; a missing one is an error that lists the existing ones."""
        place = self.table.schema.get_field_index(name)  # by a hash: there may be a column per annotator
        if place < 0:
            raise InputError(f"{self.where}: no column {name!r}; it has {examples(self.names, 12)}")
        column = self.table.column(place)
        if pa.types.is_nested(column.type):
            raise InputError(f"{self.where}: column {name!r} contains {column.type}, not one value per row; remove it")
        return decoded(column, f"{self.where}: column {name!r}")

    def texts(self, name: str) -> list[str]:
        """A column as text, empty where a value is missing."""
        return ["" if value is None else str(value) for value in self.column(name).to_pylist()]

    def values(self, name: str) -> list[Any]:
        """A column of any type as Python objects; None throughout if there is none of that name."""
        if name not in self.names:
            return [None] * self.table.num_rows
        message = f"{self.where}: column {name!r} contains values that cannot be read ({{}}); correct or remove them"
        with refusing(VALUE_ERRORS, message):
            return list(self.table[name].to_pylist())

    def drop_values(self, name: str, values: Sequence[str]) -> int:
        """Drop the rows in which a column, if it exists, has one of these values, ignoring case; how many there are."""
        if name not in self.names:
            return 0
        text = pc.utf8_lower(self.column(name).cast(pa.string()))
        mask = pc.fill_null(pc.is_in(text, value_set=pa.array([value.lower() for value in values])), False)
        self.table = self.table.filter(pc.invert(mask))
        return int(pc.sum(mask).as_py() or 0)

    def drop_blank(self, names: Sequence[str]) -> None:
        """Drop the rows where all these columns are empty, such as separators of Toloka's task suites."""
        blank = reduce(pc.and_, (pc.is_null(blank_to_null(self.column(name))) for name in names))
        self.table = self.table.filter(pc.invert(blank))

    def fields(self, names: Sequence[str], prefix: str) -> list[dict[str, Any]]:
        """What these columns have in each row, by their names without the prefix; an empty cell is no field."""
        columns = {name.removeprefix(prefix): self.values(name) for name in names}
        rows = range(self.table.num_rows)
        return [{name: values[k] for name, values in columns.items() if values[k] is not None} for k in rows]


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
