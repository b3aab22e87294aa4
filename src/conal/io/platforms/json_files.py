"""JSON, JSON Lines and archives of them, read in memory with a size limit, never unpacked to disk."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from conal.errors import InputError, people
from conal.io.delimited import encoding_of
from conal.io.limits import (
    ARROW_ERRORS,
    JSON_BYTES,
    VALUE_ERRORS,
    ZIP_ERRORS,
    blocks_of,
    check_depth,
    refuse_bomb,
    refusing,
    unpacked_limit,
)
from conal.io.platforms.head import read_head
from conal.io.tables import BATCH, check_readable, read_table

ZSTANDARD = 93
"""The number of a method of packing in zip files."""
LOCAL_HEADER = struct.Struct("<4s22xHH")
"""What is before a member of a zip file: a mark, other fields, and the lengths of two fields that follow."""


def load_records(path: Path) -> list[dict[str, Any]]:
    """A list of JSON objects, JSON Lines, or the rows of a Parquet or Arrow file."""
    check_readable(path)
    kind = read_head(path).kind
    if kind in ("parquet", "damaged parquet", "arrow", "damaged arrow"):
        table = read_table(path, kind.removeprefix("damaged "))
        with refusing(VALUE_ERRORS, f"{path}: contains values that cannot be read: {{}}"):
            return [row for batch in table.to_batches(max_chunksize=BATCH) for row in batch.to_pylist()]
    return parse_records(_unpacked(path), path)


def parse_records(content: bytes, where: object) -> list[dict[str, Any]]:
    """JSON objects from a list or from JSON Lines."""
    text = text_of(content, where).strip()
    check_depth(text.encode(), where)  # not the content, which may be UTF-16
    lines = text.split("\n") if text.startswith("{") else []
    if len(lines) > 1 and lines[0].rstrip().endswith("}"):
        found = [parse_json(line, f"{where}: line {k}") for k, line in enumerate(lines, 1) if line.strip()]
    else:
        whole = parse_json(text, where)
        found = whole if isinstance(whole, list) else [whole]
    invalid = next((k for k, record in enumerate(found) if not isinstance(record, dict)), None)
    if invalid is not None:
        raise InputError(
            f"{where}: entry {invalid + 1} is not a JSON object; expected one object per task or annotation"
        )
    return found


def parse_json(text: str, where: object) -> Any:
    """JSON, or an error that says where it ends too early."""
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
            f"{where}: is not UTF-8 text (byte 0x{byte:02x} at position {error.start:,}); save the file as UTF-8"
        ) from error


def parse_record(content: bytes, where: object) -> dict[str, Any]:
    """One JSON object."""
    check_depth(content, where)
    value = parse_json(text_of(content, where), where)
    if not isinstance(value, dict):
        raise InputError(f"{where}: is no JSON object")
    return value


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
    text = text_of(_unpacked(path), path)
    check_depth(text.encode(), path)
    return parse_json(text, path)


def _unpacked(path: Path) -> bytes:
    with refusing(ARROW_ERRORS, f"{path}: cannot be read: {{}}"):
        return b"".join(blocks_of(path, JSON_BYTES))
