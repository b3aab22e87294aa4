"""The beginning of a file, from which its format is recognised; its size is bounded."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from conal.errors import InputError, examples
from conal.io.arrow_files import (
    FILE_START,
    STREAM_START,
    is_saved_dataset,
    table_batches,
    table_schema,
)
from conal.io.delimited import csv_delimiter, encoding_of
from conal.io.excel_files import WORKBOOK, sheet_heads
from conal.io.limits import ARROW_ERRORS, VALUE_ERRORS, ZIP_ERRORS, refusing

TABLE_BYTES = 2**16
RECORD_BYTES = 2**20
HEADER_BYTES = 2**23
"""How much of a table, of JSON and of a very wide table's first line is looked at."""
RECORDS = (".jsonl", ".json", ".csv")
"""Endings of files of records in a folder."""


@dataclass(frozen=True)
class Head:
    """The beginning of a file.

    Attributes
    ----------
    kind : str
        "folder", "zip", "parquet", "arrow", "xlsx", "npy", "json", "table", "other", "damaged zip", "damaged arrow" or
        "damaged parquet".
    members : tuple of str
        Files in a folder or zip.
    header : tuple of str
        Columns of a table.
    rows : tuple of tuples of str
        Its first rows, as text.
    delimiter : str
        What separates its columns.
    record : dict or None
        The first JSON object, where it is complete; of a folder, that of its first file of records.
    pair : (key, value) or None
        The first entry of the outermost JSON object.
    """

    kind: str
    members: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    delimiter: str = ","
    record: dict[str, Any] | None = None
    pair: tuple[str, Any] | None = None

    @property
    def fields(self) -> frozenset[str]:
        """Columns of the table, or keys of the first record."""
        return frozenset(self.header) | frozenset(self.record or ())

    def describe(self) -> str:
        """Description of the content, for messages."""
        if self.kind in ("folder", "zip"):
            return f"a {self.kind} with {examples(self.members) or 'nothing'}"
        if self.header:
            return f"a table with the columns {examples(self.header, 8)}"
        if self.record is not None:
            return f"JSON objects with {examples(self.record, 8) or 'nothing'}"
        return {"json": "other JSON", "other": "no text that can be read"}.get(self.kind, f"a {self.kind} file")


def read_head(path: Path) -> Head:
    """Look at the beginning of a file, or at the names in a folder or zip."""
    if is_saved_dataset(path):
        return _columns_head(path, "arrow")
    if path.is_dir():
        return _folder_head(path)
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_head(path)
    if magic.startswith(b"PAR1"):
        return _columns_head(path, "parquet")
    if magic == FILE_START or magic.startswith(STREAM_START):
        return _columns_head(path, "arrow")
    if magic == b"\x93NUMPY":
        return Head("npy")
    start = _beginning(path, TABLE_BYTES).lstrip()
    if start[:1] in ("{", "["):
        return json_head(_beginning(path, RECORD_BYTES).lstrip())
    if not {"\n", "\r"} & set(start.rstrip()) and len(start) > TABLE_BYTES // 4:
        start = _beginning(path, HEADER_BYTES)
    return _table_head(start)


def _folder_head(path: Path) -> Head:
    """The names of the files, and the fields of the first one that may contain records."""
    files = sorted(entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith("."))
    first = next((file for file in files if file.suffix.lower() in RECORDS and file.stat().st_size), None)
    inside = Head("folder") if first is None else read_head(first)
    return Head("folder", tuple(file.name for file in files), inside.header, record=inside.record, pair=inside.pair)


def _beginning(path: Path, size: int) -> str:
    with refusing(ARROW_ERRORS, f"{path}: cannot be read: {{}}"), pa.input_stream(str(path)) as stream:
        start = bytes(stream.read(size))  # unpacked from .gz, .bz2 and .zst
        return start.decode(encoding_of(start), errors="replace")


def _zip_head(path: Path) -> Head:
    try:
        with zipfile.ZipFile(path) as archive:
            members = tuple(info.filename for info in archive.infolist() if not info.is_dir())
    except ZIP_ERRORS:
        return Head("damaged zip")
    return _excel_head(path) if WORKBOOK in members else Head("zip", members=members)


def _excel_head(path: Path) -> Head:
    """The only sheet that is not empty; of several, whoever reads the file says which there are."""
    try:
        sheets = sheet_heads(path)
    except InputError:
        return Head("xlsx")
    return Head("xlsx", header=sheets[0].header, rows=sheets[0].rows) if len(sheets) == 1 else Head("xlsx")


def _columns_head(path: Path, kind: str) -> Head:
    """The columns of a Parquet or Arrow file; its first row, if there are lists and structs, as in no plain table."""
    try:
        schema = table_schema(path, kind)
        nested = any(pa.types.is_nested(column) for column in schema.types)
        first = next(table_batches(path, kind, rows=1), None) if nested else None
        rows = [] if first is None else first.slice(0, 1).to_pylist()
    except VALUE_ERRORS:  # an InputError too; whoever reads the file says what is wrong with it
        return Head(f"damaged {kind}")
    return Head(kind, header=tuple(schema.names), record=rows[0] if rows else None)


def json_head(text: str) -> Head:
    """The first record of a list or of JSON Lines, and the first entry of an object.

    >>> json_head('[{"id": 1}, {"id"').record
    {'id': 1}
    >>> json_head('{"t1": {"ann": 0}, "t2": {"a').pair
    ('t1', {'ann': 0})
    """
    decoder = json.JSONDecoder()
    start = text[1:].lstrip() if text.startswith("[") else text
    try:
        record, _ = decoder.raw_decode(start)
    except (ValueError, RecursionError):
        return Head("json", pair=None if text.startswith("[") else _first_pair(start, decoder))
    if not isinstance(record, dict):
        return Head("json")
    pair = next(iter(record.items()), None) if text.startswith("{") else None
    return Head("json", record=record, pair=pair)


def _first_pair(text: str, decoder: json.JSONDecoder) -> tuple[str, Any] | None:
    try:
        inside = text[1:].lstrip()
        key, end = decoder.raw_decode(inside)
        rest = inside[end:].lstrip()
        value, _ = decoder.raw_decode(rest[1:].lstrip())
    except (ValueError, RecursionError):
        return None
    return (key, value) if rest.startswith(":") and isinstance(key, str) else None


def _table_head(text: str) -> Head:
    if "\0" in text:
        return Head("other")
    first = next(iter(text.splitlines()), "")
    delimiter = "\t" if first.count("\t") > first.count(",") else csv_delimiter(first)
    complete = text if len(text) < TABLE_BYTES // 4 else text.rpartition("\n")[0]
    rows = _rows(complete, delimiter) or _rows(first, delimiter) or [()]
    return Head("table", header=rows[0], rows=tuple(rows[1:]), delimiter=delimiter)


def _rows(text: str, delimiter: str) -> list[tuple[str, ...]]:
    """The rows of a table; none if one of them cannot be read, because a field has more than 128 KB, say."""
    try:
        return [tuple(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    except csv.Error:
        return []
