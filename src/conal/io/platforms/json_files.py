"""JSON, JSON Lines and archives of them, read in memory with a size limit, never unpacked to disk."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from conal.errors import InputError, people
from conal.io.delimited import encoding_of
from conal.io.limits import JSON_BYTES, blocks_of, check_depth, refuse_bomb, unpacked_limit
from conal.io.platforms.head import read_head
from conal.io.refusals import ARROW_ERRORS, VALUE_ERRORS, ZIP_ERRORS, refusing
from conal.io.tables import BATCH, check_readable, read_table

__all__ = ["archive_members", "load_json", "load_records", "parse_cell", "parse_json", "parse_records", "text_of"]


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


def archive_members(path: Path) -> dict[str, bytes]:
    """File name to content of a zip or folder; nothing is written to disk, and sizes are bounded.

    Folders inside are left out of the names, files of the operating system altogether.
    """
    if path.is_dir():
        files = sorted(entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith("."))
        return {entry.name: entry.read_bytes() for entry in files}
    broken = refusing(ZIP_ERRORS, f"{path}: is not a readable zip file ({{}}); download it again")
    with broken, zipfile.ZipFile(path) as archive:
        return _read_members(archive, path)


def _read_members(archive: zipfile.ZipFile, path: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    left = limit = unpacked_limit(path.stat().st_size, JSON_BYTES)
    for info in archive.infolist():
        place = PurePosixPath(info.filename.replace("\\", "/"))
        if info.is_dir() or place.name.startswith(".") or "__MACOSX" in place.parts:
            continue
        if place.is_absolute() or ".." in place.parts or ":" in info.filename:
            raise InputError(f"{path}: contains a file with the unsafe name {info.filename!r}; no platform writes this")
        if place.name in found:
            raise InputError(
                f"{path}: contains two files called {people([place.name])}, expected one file per annotator"
            )
        with archive.open(info) as file:  # the size in the header may be wrong
            content = file.read(left + 1)
        left -= len(content)
        if left < 0:
            refuse_bomb(path, limit)
        found[place.name] = content
    return found


def load_json(path: Path) -> Any:
    """The JSON value of a file."""
    check_readable(path)
    text = text_of(_unpacked(path), path)
    check_depth(text.encode(), path)
    return parse_json(text, path)


def _unpacked(path: Path) -> bytes:
    with refusing(ARROW_ERRORS, f"{path}: cannot be read: {{}}"):
        return b"".join(blocks_of(path, JSON_BYTES))
