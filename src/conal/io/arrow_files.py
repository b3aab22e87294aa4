"""Parquet, and Arrow's own files: streams, Feather, and folders of Hugging Face's ``save_to_disk``."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from conal.errors import InputError, examples
from conal.io.limits import ARROW_ERRORS, JSON_BYTES, VALUE_BYTES, VALUE_ERRORS, Room, check_depth, refusing, weight

# Which types of columns can be names of tasks, annotators and classes, and what they become.

_BYTES = ("binary", "large_binary", "fixed_size_binary", "binary_view")
_NO_NAMES = ("time", "duration", "interval", "run_end_encoded", "union")


def as_names_or_refuse(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """A column whose values can be names that a model folder can store; others are an error.

    Bytes and decimals become text, decimals without places integers; lists are left to the encoder, which shows one.
    """
    kind = column.type
    if any(getattr(pa.types, f"is_{name}")(kind) for name in _BYTES):
        with refusing(ARROW_ERRORS, f"{where} is not UTF-8 text; save the file as UTF-8 ({{}})"):
            return column.cast(pa.binary()).cast(pa.string())
    if pa.types.is_decimal(kind):
        with refusing(ARROW_ERRORS, f"{where} contains {kind}: {{}}; convert it to text"):
            return column.cast(pa.int64() if kind.scale == 0 and kind.precision < 19 else pa.string())
    if any(getattr(pa.types, f"is_{name}")(kind) for name in _NO_NAMES):
        raise InputError(f"{where} contains {kind}, which cannot be names; convert it to text or whole numbers")
    if pa.types.is_temporal(kind):
        with refusing(VALUE_ERRORS, f"{where} contains dates that do not exist ({{}}); correct them"):
            column.unique().to_pylist()
    return column


def map_names(column: pa.ChunkedArray, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> pa.ChunkedArray:
    """A column with every distinct name changed; for a plain column, every value."""
    if not pa.types.is_dictionary(column.type):
        return change(column)
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no rows, or too much text for one array
        return change(column.cast(column.type.value_type))
    names = change(pa.chunked_array([whole.dictionary])).combine_chunks()
    if isinstance(names, pa.ChunkedArray):
        names = names.chunk(0) if names.num_chunks else pa.array([], type=names.type)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(whole.indices, names)])


def check_field_names(fields: Iterable[pa.Field]) -> None:
    """A :class:`UnicodeDecodeError` if a name, of a column or inside of one, is no UTF-8; Arrow decodes them late."""
    for field in fields:
        field.name.encode()
        check_field_names(field.type.field(k) for k in range(field.type.num_fields))


def without_extensions(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Extension types as what they store, and UUIDs as people write them; Arrow computes with neither."""
    if not any(isinstance(kind, pa.BaseExtensionType) for kind in batch.schema.types):
        return batch
    return _with_columns(batch, [_stored(column) for column in batch.columns])


def without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Views of text and bytes, as Polars writes them, as plain text and bytes: Arrow can hardly compute with views."""
    if not any(map(_is_view, batch.schema.types)):
        return batch
    return _with_columns(batch, [_unviewed(column) for column in batch.columns])


def _is_view(kind: pa.DataType) -> bool:
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string_view(values) or pa.types.is_binary_view(values))


def _unviewed(column: Any) -> Any:
    if not _is_view(column.type):
        return column
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _unviewed(column.dictionary))
    return column.cast(pa.string() if pa.types.is_string_view(column.type) else pa.binary())


def _with_columns(batch: pa.RecordBatch, columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names, metadata=batch.schema.metadata)


def _stored(column: Any) -> Any:
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if column.type.extension_name == "arrow.uuid":
        return pa.array([None if name is None else str(name) for name in column.to_pylist()], pa.string())
    return column.storage


# Names of classes that Hugging Face datasets store as numbers (``ClassLabel``), from the metadata of a schema.

METADATA_KEY = b"huggingface"


def class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Column to the names of its classes, also for a column of lists of classes."""
    text = (schema.metadata or {}).get(METADATA_KEY)
    if text is None:
        return {}
    try:
        check_depth(text, "the metadata")
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

    with refusing(ARROW_ERRORS, _message(path, "parquet")):
        file = pq.ParquetFile(path, **options)
        check_field_names(file.schema_arrow)
    with file:
        yield file


def _parquet_batches(path: Path, columns: Sequence[str] | None, rows: int, coded: bool) -> Iterator[pa.RecordBatch]:
    room = Room(path, path.stat().st_size)
    with open_parquet(path) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
        wanted = list(schema.names if columns is None else columns)
        with refusing(ARROW_ERRORS, _message(path, "parquet")):
            leaves = _leaves(file, set(wanted))
            rows = min(rows, _batch_rows(file.metadata, leaves, room))
            texts = [leaf.path for leaf in leaves if leaf.kind == TEXT and not _is_prefixed(file.metadata, leaf)]
    kept = {field.name for field in schema if coded or pa.types.is_dictionary(field.type)}
    found = 0
    with open_parquet(path, read_dictionary=texts) as file, refusing(ARROW_ERRORS, _message(path, "parquet")):
        for batch in file.iter_batches(rows, columns=wanted):
            batch.validate(full=True)  # text that is not UTF-8, and codes and lists beyond the values
            stored = without_extensions(batch)
            room.take(sum(map(weight, stored.columns)))
            found += batch.num_rows
            if found > n_rows:
                break
            yield without_views(_plain(stored, kept))
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


def _message(path: Path, kind: str = "arrow") -> str:
    return f"{path}: cannot be read as {kind}: {{}}. Check the file, or set its format with format= (--set format=NAME)"


# Arrow's own files: streams, Feather, and the folders that Hugging Face's ``save_to_disk`` writes.
#
# Every batch is checked, and what all of them take has a limit: buffers may be compressed, and a few bytes can stand
# for many rows.

FILE_START = b"ARROW1"
"""How a file begins that a stream is in, with an index after it (Feather is one)."""
OLD_FEATHER = b"FEA1"
STREAM_START = b"\xff\xff\xff\xff"
STATE, DICT = "state.json", "dataset_dict.json"
"""Files that ``datasets`` writes to a folder, for one dataset and for several splits."""
_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2


# ---------------------------------------------------------------- folders


def is_saved_dataset(path: Path) -> bool:
    """Whether this is a folder of ``save_to_disk`` with one dataset, or with one split."""
    return path.is_dir() and ((path / STATE).is_file() or len(splits_of(path)) == 1)


def splits_of(path: Path) -> list[str]:
    """The splits of a saved ``DatasetDict``, each of which is a folder inside."""
    if not (path / DICT).is_file():
        return []
    named = _load(path / DICT).get("splits")
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    return [name for name in names if _is_plain(name) and (path / name / STATE).is_file()]


def data_files(path: Path) -> list[Path]:
    """The files of a table: one, or those that a saved dataset lists."""
    if not path.is_dir():
        return [path]
    folder = path if (path / STATE).is_file() else path / splits_of(path)[0]
    state = _load(folder / STATE)
    if state.get("_indices_data_files"):
        raise InputError(
            f"{folder}: its rows are chosen by an index file, as old versions of datasets wrote it; load it, and save "
            "it again with flatten_indices().save_to_disk(...)"
        )
    listed = state.get("_data_files")
    found = [entry.get("filename") for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    names = [str(name) for name in found]
    wrong = [name for name in names if not _is_plain(name)]
    if wrong or not names:
        raise InputError(f"{folder / STATE}: lists {examples(wrong) or 'no file'}; save the dataset again")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise InputError(f"{folder}: {examples(missing)} is missing, which {STATE} lists; save the dataset again")
    return [folder / name for name in names]


def _is_plain(name: str) -> bool:
    """Whether this is the name of a file in the folder itself, not a path to elsewhere."""
    return PurePosixPath(name).parts == (name,) and name not in ("..", ".") and "\\" not in name and ":" not in name


def _load(path: Path) -> dict[str, Any]:
    with refusing((*VALUE_ERRORS, RecursionError), f"{path}: is not JSON that datasets writes ({{}}); save it again"):
        if path.stat().st_size > JSON_BYTES:
            raise InputError(f"{path}: is too large for a description of a dataset")
        content = path.read_bytes()
        check_depth(content, path)
        value = json.loads(content)
    return value if isinstance(value, dict) else {}


# ---------------------------------------------------------------- batches


def _arrow_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Batches of these columns, or all; a small file may promise much."""
    files = data_files(path)
    size = sum(file.stat().st_size for file in files)
    promised, room = Room(path, size), Room(path, size)
    for file in files:
        _check_promised(file, promised)
        with _open(file) as reader, refusing(ARROW_ERRORS, _message(file)):
            for batch in reader:
                batch.validate(full=True)
                stored = without_extensions(batch)
                room.take(sum(map(weight, stored.columns)))
                yield without_views(stored if columns is None else stored.select(list(columns)))


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """A reader of the stream in a file."""
    with refusing(ARROW_ERRORS, _message(path)):
        stream = pa.OSFile(str(path))
    with stream:
        with refusing(ARROW_ERRORS, _message(path)):
            _skip_start(stream, path)
            reader = pa.ipc.open_stream(stream)
            check_field_names(reader.schema)
        yield reader


def _skip_start(stream: Any, path: Path) -> None:
    """Go to the stream, which in files with an index is after the first eight bytes."""
    start = stream.read(len(FILE_START))
    if start.startswith(OLD_FEATHER):
        raise InputError(f"{path}: is Feather of version 1, which is out of use; write it as version 2, or as Parquet")
    stream.seek(8 if start == FILE_START else 0)


# ---------------------------------------------------------------- what compressed buffers promise


def _check_promised(path: Path, room: Room) -> None:
    """Refuse batches that unpack to too much before they are unpacked: Arrow would unpack all of one at once."""
    with refusing((*ARROW_ERRORS, struct.error, IndexError), _message(path)), pa.memory_map(str(path)) as stream:
        _skip_start(stream, path)
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


# ---------------------------------------------------------------- both


def table_schema(path: Path, kind: str) -> pa.Schema:
    """The columns of a Parquet file, Arrow file or saved dataset, with its metadata; none for other files."""
    if kind == "arrow":
        with _open(data_files(path)[0]) as reader:
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
