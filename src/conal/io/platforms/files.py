"""Files of platforms: how they begin, their records in JSON and archives, and their tables; sizes are bounded."""

from __future__ import annotations

import csv
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from conal.errors import InputError, examples, people
from conal.io.binary_tables import FILE_START, STREAM_START, WORKBOOK, sheet_heads, table_batches, table_schema
from conal.io.limits import (
    ARROW_ERRORS,
    ENCODING_REMEDY,
    JSON_BYTES,
    VALUE_ERRORS,
    ZIP_ERRORS,
    blocks_of,
    check_depth,
    refuse_bomb,
    refusing,
    unpacked_limit,
)
from conal.io.tables import BATCH, blank_to_null, check_readable, csv_delimiter, decoded, encoding_of, read_table

# The beginning of a file, from which its format is recognised.

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
        "folder", "zip", "parquet", "arrow", "xlsx", "npy", "json", "table", "other" or "damaged zip".
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
        return Head(kind)
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


# JSON, JSON Lines and archives of them, read in memory, never unpacked to disk.

ZSTANDARD = 93
"""The number of a method of packing in zip files."""
LOCAL_HEADER = struct.Struct("<4s22xHH")
"""What is before a member of a zip file: a mark, other fields, and the lengths of two fields that follow."""


def load_records(path: Path) -> list[dict[str, Any]]:
    """A list of JSON objects, JSON Lines, or the rows of a Parquet or Arrow file."""
    check_readable(path)
    kind = read_head(path).kind
    if kind in ("parquet", "arrow"):
        table = read_table(path, kind)
        with refusing(VALUE_ERRORS, f"{path}: contains values that cannot be read: {{}}"):
            return [row for batch in table.to_batches(max_chunksize=BATCH) for row in batch.to_pylist()]
    return parse_records(_unpacked(path), path)


def parse_records(content: bytes, where: object) -> list[dict[str, Any]]:
    """JSON objects from a list or from JSON Lines."""
    text = text_of(content, where).strip()
    lines = text.split("\n") if text.startswith("{") else []
    if len(lines) > 1 and lines[0].rstrip().endswith("}"):
        check_depth(text.encode(), where)
        found = [_parse_text(line, f"{where}: line {k}") for k, line in enumerate(lines, 1) if line.strip()]
    else:
        whole = parse_json(content, where)
        found = whole if isinstance(whole, list) else [whole]
    invalid = next((k for k, record in enumerate(found) if not isinstance(record, dict)), None)
    if invalid is not None:
        raise InputError(
            f"{where}: entry {invalid + 1} is not a JSON object; expected one object per task or annotation"
        )
    return found


def parse_json(content: bytes, where: object) -> Any:
    """JSON, or an error that says where it ends too early."""
    text = text_of(content, where)
    check_depth(text.encode(), where)  # not the content, which may be UTF-16
    return _parse_text(text, where)


def _parse_text(text: str, where: object) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        advice = "the file was cut off there" if error.pos >= len(text.rstrip()) - 1 else "the file may be cut off"
        raise InputError(
            f"{where}: is not complete JSON ({error.msg}, line {error.lineno}, column {error.colno}); "
            f"{advice}, export it again"
        ) from error
    except (RecursionError, ValueError) as error:
        raise InputError(f"{where}: is not JSON that an annotation platform writes ({error})") from error


def parse_cell(text: str) -> Any:
    """JSON in a cell of a table; a :class:`ValueError` if it is none."""
    check_depth(text.encode("utf-8", "replace"), "a cell")
    return json.loads(text)


def text_of(content: bytes, where: object) -> str:
    """UTF-8 with or without a byte-order mark, or UTF-16 with one."""
    try:
        return content.decode(encoding_of(content[:2]))
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise InputError(
            f"{where}: is not UTF-8 text (byte 0x{byte:02x} at position {error.start:,}); {ENCODING_REMEDY}"
        ) from error


def archive_members(path: Path, *, folders: bool = False) -> dict[str, bytes]:
    """File name to content of a zip or folder; nothing is written to disk, and sizes are bounded.

    Folders inside are left out of the names, unless ``folders`` are wanted, files of the operating system altogether.
    """
    if path.is_dir():
        files = sorted(entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith("."))
        return {entry.name: entry.read_bytes() for entry in files}
    broken = refusing(ZIP_ERRORS, f"{path}: is not a readable zip file ({{}}); download it again")
    with broken, zipfile.ZipFile(path) as archive:
        return _read_members(archive, path, folders=folders)


def _read_members(archive: zipfile.ZipFile, path: Path, *, folders: bool) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    left = limit = unpacked_limit(path.stat().st_size, JSON_BYTES)
    for info in archive.infolist():
        place = PurePosixPath(info.filename.replace("\\", "/"))
        if info.is_dir() or place.name.startswith(".") or "__MACOSX" in place.parts:
            continue
        if place.is_absolute() or ".." in place.parts or ":" in info.filename:
            raise InputError(f"{path}: contains a file with the unsafe name {info.filename!r}; no platform writes this")
        name = str(place) if folders else place.name
        if name in found:
            raise InputError(
                f"{path}: contains two files called {people([place.name])}, expected one file per annotator"
            )
        content = _read_member(archive, info, path, left + 1)  # the size in the header may be wrong
        left -= len(content)
        if left < 0:
            refuse_bomb(path, limit)
        found[name] = content
    return found


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, size: int) -> bytes:
    """At most this many bytes of a member; those packed by Zstandard, too, which Python's own reader cannot unpack."""
    if info.compress_type != ZSTANDARD:
        with archive.open(info) as file:
            return file.read(size)
    with path.open("rb") as file:
        file.seek(info.header_offset)
        start = file.read(LOCAL_HEADER.size)
        mark, name_size, extra_size = LOCAL_HEADER.unpack(start)
        if mark != b"PK\x03\x04":
            raise zipfile.BadZipFile(f"no member begins where {info.filename!r} should")
        file.seek(name_size + extra_size, 1)
        packed = file.read(info.compress_size)
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        content = bytes(stream.read(size))
    if len(content) < size and zlib.crc32(content) != info.CRC:
        raise zipfile.BadZipFile(f"{info.filename!r} was damaged")
    return content


def load_json(path: Path) -> Any:
    """The JSON value of a file."""
    check_readable(path)
    return parse_json(_unpacked(path), path)


def _unpacked(path: Path) -> bytes:
    with refusing(ARROW_ERRORS, f"{path}: cannot be read: {{}}"):
        return b"".join(blocks_of(path, JSON_BYTES))


# Exports that are tables: columns by name, as Arrow or Python has them.


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

    def task_column(self, wanted: str | None, own: str, inputs: Sequence[str], prefix: str) -> str:
        """The wanted column, whose prefix may be left out; by default the platform's own ids, or the only input."""
        if wanted is not None:
            return wanted if wanted in self.names or wanted.startswith(prefix) else prefix + wanted
        if own not in self.names and len(inputs) != 1:
            raise InputError(
                f"{self.where}: has no {own!r}, and {len(inputs)} inputs: {examples(inputs, 10)}; choose the one with "
                "the task ids with task= (--task-column), or include the task id in the download"
            )
        return own if own in self.names else inputs[0]

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
