"""Arrow's own files: streams, Feather, and the folders that Hugging Face's ``save_to_disk`` writes.

Every batch is checked, and what all of them take has a limit: buffers may be compressed, and a few bytes can stand for
many rows.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from conal.errors import InputError, examples
from conal.io.limits import JSON_BYTES, VALUE_BYTES, Room, check_depth, weight
from conal.io.name_types import check_field_names, without_extensions, without_views
from conal.io.refusals import ARROW_ERRORS, VALUE_ERRORS, refusing

__all__ = ["FILE_START", "STREAM_START", "arrow_batches", "arrow_schema", "is_saved_dataset", "read_arrow", "splits_of"]

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


def arrow_schema(path: Path) -> pa.Schema:
    """The columns of a file or saved dataset, with their metadata."""
    with _open(data_files(path)[0]) as reader:
        return reader.schema


def arrow_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
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


def read_arrow(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """These columns, or all."""
    batches = list(arrow_batches(path, columns))
    return pa.Table.from_batches(batches) if batches else arrow_schema(path).empty_table()


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


def _message(path: Path) -> str:
    return f"{path}: cannot be read as arrow: {{}}. Check the file, or set its format with format= (--format)"


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
