"""Tables in binary files, whose size is checked before they are decoded: Parquet, Arrow (also Feather) and Excel."""

from __future__ import annotations

import datetime as dt
import json
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conal.data.encoding import spelling
from conal.errors import InputError, examples
from conal.io import limits
from conal.io.limits import ARROW_ERRORS, ZIP_ERRORS, blocks_in, refuse_bomb, refusing, unreadable

# Names of classes that Hugging Face datasets store as numbers (``ClassLabel``), from the metadata of a schema.

METADATA_KEY = b"huggingface"


def class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Column to the names of its classes, also for a column of lists of classes."""
    text = (schema.metadata or {}).get(METADATA_KEY)
    if text is None:
        return {}
    try:
        features = json.loads(text)["info"]["features"]
        found = {column: _names(feature) for column, feature in features.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}  # metadata of something else
    return {column: names for column, names in found.items() if names is not None}


def _names(feature: Any) -> list[str] | None:
    """The names of a ``ClassLabel``, by itself or in a list (``List``, ``Sequence``, or ``[...]`` in old versions)."""
    if isinstance(feature, list) and len(feature) == 1:
        return _names(feature[0])
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") in ("List", "LargeList", "Sequence"):
        return _names(feature.get("feature"))
    names = feature.get("names") if feature.get("_type") == "ClassLabel" else None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def name_of(number: Any, names: list[str], where: str) -> str | None:
    """The class of this number; -1, with which datasets mark what is not labelled, has none.

    >>> name_of(1, ["cat", "dog"], "x"), name_of(-1, ["cat", "dog"], "x")
    ('dog', None)
    """
    if number is None or number == -1:
        return None
    if not isinstance(number, int) or not 0 <= number < len(names):
        raise InputError(f"{where}: {number!r} is none of the {len(names)} classes that the dataset declares")
    return names[number]


def with_class_names(column: pa.ChunkedArray, names: list[str], where: str) -> pa.ChunkedArray:
    """A column of class numbers as their names."""
    if not pa.types.is_integer(column.type):
        return column
    known = {number: name_of(number, names, where) for number in column.unique().to_pylist()}
    numbers = pa.array(list(known), column.type)
    return pc.take(pa.array(list(known.values()), pa.string()), pc.index_in(column, numbers))


# What a batch takes once its values are copied one by one, which has a limit: views and codes share them.

VALUE_BYTES = 4
"""What a value of a table takes at least: a 32-bit code, or a number in single precision."""
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_TEXT_VIEWS = (pa.types.is_string_view, pa.types.is_binary_view)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map)
_UNKNOWN = (pa.types.is_list_view, pa.types.is_large_list_view, pa.types.is_run_end_encoded)


class Room:
    """What the table in a file may still unpack to. Every value counts as if it were copied, before it is."""

    def __init__(self, path: Path) -> None:
        self.path, self.limit = path, limits.unpacked_limit(path.stat().st_size, limits.TABLE_BYTES)
        self.left = self.limit

    def take(self, n_bytes: int) -> None:
        """Count what comes next; more than there is room for is an error."""
        self.left -= n_bytes
        self.check(0)

    def check(self, n_bytes: int) -> None:
        """As :meth:`take`, for what may come."""
        if self.left < n_bytes:
            refuse_bomb(self.path, self.limit, "write it without compression and without dictionaries, or as CSV")


def weight(column: Any) -> int:
    """What the values of a column take at least once they are copied one by one: views and codes share them."""
    kind = column.type
    total = VALUE_BYTES * len(column)
    if any(is_unknown(kind) for is_unknown in _UNKNOWN):
        raise pa.ArrowInvalid(f"{kind} is not supported; write plain columns and lists")
    if pa.types.is_dictionary(kind):
        return total + _text_bytes(column.dictionary, column.indices)
    if pa.types.is_struct(kind):
        return total + sum(weight(column.field(k)) for k in range(kind.num_fields))
    if any(is_list(kind) for is_list in _LISTS):
        return total + (
            weight(column.keys) + weight(column.items) if pa.types.is_map(kind) else weight(column.flatten())
        )
    return total + _text_bytes(column)


def _text_bytes(values: Any, positions: Any = None) -> int:
    if pa.types.is_fixed_size_binary(values.type):
        return int(values.type.byte_width) * len(values if positions is None else positions)
    if any(is_view(values.type) for is_view in _TEXT_VIEWS):
        lengths = _view_lengths(values)
    elif any(is_text(values.type) for is_text in _TEXT):
        lengths = pc.binary_length(values).cast(pa.int64())
    else:
        return 0
    return pc.sum(lengths if positions is None else lengths.take(positions)).as_py() or 0


def _view_lengths(values: Any) -> pa.Array:
    """A view is 16 bytes, of which the first four are the length of the text."""
    views = np.frombuffer(values.buffers()[1] or b"", np.int32).reshape(-1, 4)
    lengths = views[values.offset : values.offset + len(values), 0].astype(np.int64)
    return pa.array(lengths, mask=~values.is_valid().to_numpy(zero_copy_only=False))


def _checked(batch: pa.RecordBatch, room: Room) -> pa.RecordBatch:
    """A batch that is whole and for which there is room, in types that Arrow computes with."""
    batch.validate(full=True)  # text that is not UTF-8, and codes and lists beyond the values
    stored = _converted(batch, _stored)
    room.take(sum(map(weight, stored.columns)))
    return stored


def _converted(batch: pa.RecordBatch, convert: Callable[[Any], Any]) -> pa.RecordBatch:
    columns = [convert(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names, metadata=batch.schema.metadata)


def _stored(column: Any) -> Any:
    """Extension types as what they store, and UUIDs as people write them."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if column.type.extension_name == "arrow.uuid":
        return pa.array([None if name is None else str(name) for name in column.to_pylist()], pa.string())
    return column.storage


def _without_views(column: Any) -> Any:
    """Views of text and bytes, as Polars writes them, as plain text and bytes."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _without_views(column.dictionary))
    if pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if pa.types.is_binary_view(column.type) else column


# Parquet, a batch of rows at a time: what a batch takes is counted before its values are copied, and has a limit.
#
# A file may have a value once and its number in every row, and few bytes may stand for many numbers. Text is therefore
# read as codes and distinct values first, and the number of values in lists is that of the file's own index.

BATCH_ROWS = 2**16
BATCH_BYTES = 2**26
PREFIX_ENCODING = "DELTA_BYTE_ARRAY"
"""The encoding in which a text says how much it shares with the one before: a few bytes may stand for a long one, and
Arrow cannot read it as codes."""
MIN_PREFIXED_ROWS = 16
TEXT = "BYTE_ARRAY"


class Leaf(NamedTuple):
    """A column as Parquet stores it: lists and structs are taken apart."""

    place: int
    path: str
    kind: str
    width: int  # in bytes
    in_lists: bool


@contextmanager
def open_parquet(path: Path, **options: Any) -> Iterator[Any]:
    """The file; one that Arrow cannot open is an error with the words of :func:`conal.io.read_table`."""
    import pyarrow.parquet as pq

    with refusing(ARROW_ERRORS, unreadable(path, "parquet")):
        file = pq.ParquetFile(path, **options)
        check_field_names(file.schema_arrow)
    with file:
        yield file


def _parquet_batches(path: Path, columns: Sequence[str] | None, rows: int, coded: bool) -> Iterator[pa.RecordBatch]:
    room = Room(path)
    with open_parquet(path) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
        wanted = list(schema.names if columns is None else columns)
        with refusing(ARROW_ERRORS, unreadable(path, "parquet")):
            leaves = _leaves(file, set(wanted))
            rows = min(rows, _batch_rows(file.metadata, leaves, room))
            texts = [leaf.path for leaf in leaves if leaf.kind == TEXT and not _is_prefixed(file.metadata, leaf)]
    kept = {field.name for field in schema if coded or pa.types.is_dictionary(field.type)}
    found = 0
    with open_parquet(path, read_dictionary=texts) as file, refusing(ARROW_ERRORS, unreadable(path, "parquet")):
        for batch in file.iter_batches(rows, columns=wanted):
            stored = _checked(batch, room)
            found += batch.num_rows
            if found > n_rows:
                break
            yield _converted(_plain(stored, kept), _without_views)
    if found != n_rows:
        count = "more" if found > n_rows else f"{found:,}"
        raise InputError(f"{path}: says that it has {n_rows:,} rows, and has {count}; write it again")


def _leaves(file: Any, columns: set[str]) -> list[Leaf]:
    """The stored columns that these columns consist of."""
    owners = [field.name for field in file.schema_arrow for _ in range(_n_leaves(field.type))]
    described = [file.schema.column(k) for k in range(len(file.schema))]
    return [
        Leaf(k, each.path, each.physical_type, max(VALUE_BYTES, each.length), each.max_repetition_level > 0)
        for k, (owner, each) in enumerate(zip(owners, described, strict=True))
        if owner in columns
    ]


def _n_leaves(kind: pa.DataType) -> int:
    if isinstance(kind, pa.BaseExtensionType):
        return _n_leaves(kind.storage_type)
    inside = range(kind.num_fields if pa.types.is_nested(kind) else 0)
    return sum(_n_leaves(kind.field(k).type) for k in inside) or 1


def _batch_rows(metadata: Any, leaves: Sequence[Leaf], room: Room) -> int:
    """How many rows to decode at a time; a file whose index promises too much is an error."""
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    stored: int = sum(group.total_byte_size for group in groups)
    if stored > room.limit:
        stored = sum(group.column(leaf.place).total_uncompressed_size for leaf in leaves for group in groups)
    decoded = 0
    for leaf in leaves:
        in_lists = sum(group.column(leaf.place).num_values for group in groups) if leaf.in_lists else 0
        decoded += leaf.width * max(in_lists, metadata.num_rows)
    room.check(max(stored, decoded))
    rows: int = metadata.num_rows * BATCH_BYTES // max(1, stored + 2 * decoded)
    for leaf in leaves:
        if _is_prefixed(metadata, leaf):
            longest = max(group.column(leaf.place).total_uncompressed_size for group in groups)
            rows = min(rows, max(MIN_PREFIXED_ROWS, BATCH_BYTES // max(1, longest)))
    return max(1, rows)


def _is_prefixed(metadata: Any, leaf: Leaf) -> bool:
    groups = range(metadata.num_row_groups if leaf.kind == TEXT else 0)
    return any(PREFIX_ENCODING in metadata.row_group(k).column(leaf.place).encodings for k in groups)


def _plain(batch: pa.RecordBatch, coded: Set[str]) -> pa.RecordBatch:
    """Values instead of codes, but for these columns; those in lists are always values."""
    columns = [
        column if name in coded and pa.types.is_dictionary(column.type) else column.cast(_value_type(column.type))
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names, metadata=batch.schema.metadata)


def _value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values where this one has codes."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if not pa.types.is_nested(kind):
        return kind
    fields = [kind.field(k).with_type(_value_type(kind.field(k).type)) for k in range(kind.num_fields)]
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_map(kind):
        entry = fields[0].type
        return pa.map_(entry.field(0), entry.field(1))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    return pa.large_list(fields[0]) if pa.types.is_large_list(kind) else pa.list_(fields[0])


# Arrow's own files: streams, and files with an index, such as Feather.
#
# Every batch is checked, and what all of them take has a limit: buffers may be compressed, and a few bytes can stand
# for many rows.

FILE_START = b"ARROW1"
"""How a file begins that a stream is in, with an index after it."""
STREAM_START = b"\xff\xff\xff\xff"
_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2


def _arrow_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Batches of these columns, or all."""
    _check_promised(path)
    room = Room(path)
    with _open_arrow(path) as reader, refusing(ARROW_ERRORS, unreadable(path, "arrow")):
        for batch in reader:
            stored = _checked(batch, room)
            yield _converted(stored if columns is None else stored.select(list(columns)), _without_views)


@contextmanager
def _open_arrow(path: Path) -> Iterator[Any]:
    """A reader of the stream in a file."""
    with refusing(ARROW_ERRORS, unreadable(path, "arrow")):
        stream = pa.OSFile(str(path))
    with stream:
        with refusing(ARROW_ERRORS, unreadable(path, "arrow")):
            _skip_start(stream)
            reader = pa.ipc.open_stream(stream)
            check_field_names(reader.schema)
        yield reader


def _skip_start(stream: Any) -> None:
    """Go to the stream, which in files with an index is after the first eight bytes."""
    stream.seek(8 if stream.read(len(FILE_START)) == FILE_START else 0)


def _check_promised(path: Path) -> None:
    """Refuse batches that unpack to too much before they are unpacked: Arrow would unpack all of one at once."""
    room = Room(path)
    with (
        refusing((*ARROW_ERRORS, struct.error, IndexError), unreadable(path, "arrow")),
        pa.memory_map(str(path)) as stream,
    ):
        _skip_start(stream)
        for message in pa.ipc.MessageReader.open_stream(stream):
            rows, size = _promised(memoryview(message.metadata), memoryview(message.body or b""))
            room.take(size + VALUE_BYTES * rows)


def _promised(metadata: memoryview, body: memoryview) -> tuple[int, int]:
    """Rows and unpacked bytes of a batch, from the header of its message (a FlatBuffer); 0 for a schema."""
    message = _at(metadata, 0, "<I")
    kind, header = _field(metadata, message, 1), _field(metadata, message, 2)
    if not kind or not header:
        return 0, 0
    number = _at(metadata, kind, "<B")
    batch = _follow(metadata, header)
    if number == _DICTIONARY_BATCH:
        batch = _follow(metadata, _field(metadata, batch, 1))
    elif number != _RECORD_BATCH:
        return 0, 0
    length = _field(metadata, batch, 0)
    rows = max(0, _at(metadata, length, "<q")) if length else 0
    if not _field(metadata, batch, 3):  # not compressed
        return rows, len(body)
    return rows, sum(_unpacked(body, *buffer) for buffer in _buffers(metadata, batch))


def _buffers(metadata: memoryview, batch: int) -> Iterator[tuple[int, int]]:
    """Where the buffers of a batch are in its body: offset and length."""
    place = _field(metadata, batch, 2)
    if not place:
        return
    vector = _follow(metadata, place)
    for k in range(min(_at(metadata, vector, "<I"), len(metadata) // 16)):
        yield _at(metadata, vector + 4 + 16 * k, "<q"), _at(metadata, vector + 12 + 16 * k, "<q")


def _unpacked(body: memoryview, offset: int, length: int) -> int:
    """A compressed buffer begins with its unpacked length; -1 if it is as it was."""
    if length < 8:
        return 0
    promised = _at(body, offset, "<q")
    return length if promised < 0 else promised


def _follow(data: memoryview, place: int) -> int:
    return place + _at(data, place, "<I")


def _field(data: memoryview, table: int, number: int) -> int:
    """Where a field of a FlatBuffers table is; 0 if the table does not have it."""
    vtable = table - _at(data, table, "<i")
    if 4 + 2 * number >= _at(data, vtable, "<H"):
        return 0
    offset = _at(data, vtable + 4 + 2 * number, "<H")
    return table + offset if offset else 0


def _at(data: memoryview, place: int, kind: str) -> int:
    if place < 0:
        raise IndexError("a damaged header")
    value: int = struct.unpack_from(kind, data, place)[0]
    return value


# Both.


def check_field_names(fields: Iterable[pa.Field]) -> None:
    """A :class:`UnicodeDecodeError` if a name, of a column or inside of one, is no UTF-8; Arrow decodes them late."""
    for field in fields:
        field.name.encode()
        check_field_names(field.type.field(k) for k in range(field.type.num_fields))


def table_schema(path: Path, kind: str) -> pa.Schema:
    """The columns of a Parquet or Arrow file, with its metadata; none for other files."""
    if kind == "arrow":
        with _open_arrow(path) as reader:
            return reader.schema
    if kind != "parquet":
        return pa.schema([])
    with open_parquet(path) as file:
        return file.schema_arrow


def table_batches(
    path: Path, kind: str, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS, *, coded: bool = False
) -> Iterator[pa.RecordBatch]:
    """Batches of these columns, or all; of Parquet files, of at most this many rows.

    Parameters
    ----------
    coded : bool
        Leave columns of text in Parquet files as Arrow dictionaries, that is as codes and distinct values.
    """
    return _parquet_batches(path, columns, rows, coded) if kind == "parquet" else _arrow_batches(path, columns)


def read_columns(path: Path, kind: str, columns: Sequence[str] | None = None) -> pa.Table:
    """These columns of a Parquet or Arrow file, or all."""
    batches = list(table_batches(path, kind, columns))
    if batches:
        return pa.Table.from_batches(batches)
    schema = table_schema(path, kind)
    return schema.empty_table().select(schema.names if columns is None else columns)


# Excel workbooks (.xlsx): one sheet as a table. A workbook is a zip of XML.

WORKBOOK = "xl/workbook.xml"
"""The member by which a workbook is known."""
CELL_BYTES = 64
"""What a cell takes while it is read."""
HEAD_ROWS = 50
EXACT_FLOATS = 2**53
"""Excel has only floats: from here on, different whole numbers are one."""
MAX_NUMBER = 10**300
_DECLARATIONS = (b"<!DOCTYPE", b"<!ENTITY")

Row = tuple[Any, ...]
Choose = Callable[[Sequence[str]], Sequence[str]]
"""From the header of a table to its columns of names; an error if something is wrong with the header."""


class SheetHead(NamedTuple):
    """A sheet that is not empty: its name, its first row, and the next ones as text."""

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sheet_heads(path: Path) -> list[SheetHead]:
    """The beginning of every sheet that is not empty."""
    heads = []
    with _open_book(path) as book:
        for name in book.sheetnames:
            rows = [row for _, row in islice(_rows(book, name, path), 1 + HEAD_ROWS)]
            shown = [tuple("" if cell is None else _text(cell) for cell in row) for row in rows[1:]]
            heads += [SheetHead(name, _header(rows[0]), tuple(shown))] if rows else []
    return heads


def read_excel(path: Path, choose: Choose) -> pa.Table:
    """The only sheet, or the only one with columns to choose; the first row has their names.

    Numbers without a fraction are integers, as people see them. A column of numbers and text is text.
    """
    name = _sheet(path, sheet_heads(path), choose)
    with _open_book(path) as book:
        rows = _rows(book, name, path)
        header = _header(next(rows, (0, ()))[1])
        columns: list[list[Any]] = [[] for _ in header]
        for number, row in rows:
            if any(cell is not None for cell in row[len(header) :]):
                raise InputError(f"{path}: sheet {name!r}, row {number} has cells without a column name; name them")
            for k, column in enumerate(columns):
                column.append(row[k] if k < len(row) else None)
    used = [k for k, cells in enumerate(columns) if header[k] or any(cell is not None for cell in cells)]
    return pa.Table.from_arrays([_typed(columns[k]) for k in used], names=[header[k] for k in used])


def _sheet(path: Path, heads: Sequence[SheetHead], choose: Choose) -> str:
    if not heads:
        raise InputError(f"{path}: all its sheets are empty")
    if len(heads) == 1:
        return heads[0].name
    fitting = [head for head in heads if _fits(head.header, choose)]
    if len(fitting) == 1:
        return fitting[0].name
    shown = "; ".join(f"{head.name!r} with {examples(head.header, 5)}" for head in heads[:10])
    which = "several of its sheets fit" if fitting else "none of its sheets has the columns"
    raise InputError(f"{path}: {which}: {shown}. Leave one sheet in the file, or save one as CSV")


def _fits(header: Sequence[str], choose: Choose) -> bool:
    try:
        return bool(choose(header))
    except InputError:
        return False


@contextmanager
def _open_book(path: Path) -> Iterator[Any]:
    try:
        import openpyxl
    except ImportError as error:
        raise InputError(
            f"{path}: Excel files need openpyxl; run: pip install 'conal[xlsx]', or save it as CSV"
        ) from error
    _check_unpacked(path)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="openpyxl")  # about styles and the like
        with path.open("rb") as file:  # openpyxl would leave a damaged file open
            with _refusing_book(path):
                book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            yield book


_XML_ERRORS: tuple[type[Exception], ...] = (SyntaxError, KeyError, AttributeError, AssertionError, ArithmeticError)
"""What openpyxl raises about damaged XML, where parts are missing, and about dates that do not exist."""


def _refusing_book(path: Path) -> AbstractContextManager[None]:
    return refusing(
        (*ZIP_ERRORS, *_XML_ERRORS), f"{path}: cannot be read as an Excel file ({{}}); save it again, or as CSV"
    )


def _check_unpacked(path: Path) -> None:
    """Refuse a workbook that unpacks to too much, and XML that declares entities, which may expand to any size."""
    left = limit = limits.unpacked_limit(path.stat().st_size, limits.TABLE_BYTES)
    with _refusing_book(path), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as file:
                for number, block in enumerate(blocks_in(file)):
                    left -= len(block)
                    if left < 0:
                        refuse_bomb(path, limit)
                    if not number and any(mark in block for mark in _DECLARATIONS):
                        raise InputError(f"{path}: {info.filename} declares a document type, which no spreadsheet does")


def _rows(book: Any, name: str, path: Path) -> Iterator[tuple[int, Row]]:
    """Rows that are not empty, with their numbers.

    A cell far away makes many empty ones before it, and cells share texts until they are copied into columns.
    """
    room = Room(path)
    with _refusing_book(path):
        sheet = book[name]
        if not hasattr(sheet, "iter_rows"):  # a chart
            return
        if hasattr(sheet, "reset_dimensions"):
            sheet.reset_dimensions()  # which the file states, and which may be wrong
        for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
            room.take(CELL_BYTES * (len(row) + 1) + sum(len(cell) for cell in row if isinstance(cell, str)))
            if any(cell is not None for cell in row):
                yield number, row


def _header(row: Row) -> tuple[str, ...]:
    """Names of columns, without empty cells at the end."""
    names = ["" if cell is None else _text(cell) for cell in row]
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def _typed(cells: Sequence[Any]) -> pa.Array:
    """Numbers if all cells are, truth values if all are, and otherwise text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {bool}:
        return pa.array(cells, pa.bool_())
    present = [cell for cell in cells if cell is not None]
    if kinds and kinds <= {int, float}:
        if all(_is_whole(cell) for cell in present):
            return pa.array([None if cell is None else int(cell) for cell in cells], pa.int64())
        if all(abs(cell) < MAX_NUMBER for cell in present):  # whoever needs names refuses rounded ones
            return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    return pa.array([None if cell is None else _text(cell) for cell in cells], pa.string())


def _is_whole(number: float) -> bool:
    """Whether a number is an integer and exact; an integer is as the file spells it."""
    if isinstance(number, int):
        return -(2**63) <= number < 2**63
    return number.is_integer() and abs(number) < EXACT_FLOATS


def _text(cell: Any) -> str:
    """A cell as people see it: 3 for 3.0, and days without a time; True as in a column of truth values."""
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        return cell.date().isoformat()
    return spelling(cell)
