"""Break files: in their values, in their containers, and in their bytes."""

from __future__ import annotations

import copy
import csv
import io
import json
import lzma
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fuzz.files import csv_bytes, zip_bytes
from fuzz.odd import JUNK, odd_name

__all__ = ["break_file", "break_json"]

CELLS = ("", " ", "7", "007", "nan", "x,y", '"', '"odd', 'odd"', "[", "{", "1e400", "\ufeff", "é\n", "\x00", "-1")
TOKENS = (
    *(b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b'"', b"'", b",", b"\t", b"\n", b"\r", b"\\"),
    *(b"\\u0000", b"\\ud800", b"null", b"true", b"NaN", b"Infinity", b"-", b"1e999", b"9" * 400, b"[]", b"{}", b"]"),
    *(b"[" * 600, b"{" * 600, b'{"a":' * 600, b"\x1b[0m", b"PK\x03\x04", b"PAR1", b"\x93NUMPY", b"\x1f\x8b", b"=1+1"),
)
SIZES = (b"-1", b"0", b"99999999999", b"2147483648", b"4294967296", b"9223372036854775808", b"1e999", b"1" * 39)
SHAPES = ("(1000000000, 1000000000)", "(-1, 2)", "()", "(0, 5)", "(2**40,)", "(True, 2)", "(1.5,)", "'x'")
KINDS = ("'|O'", "'<U1000000000'", "'|V8'", "'<f16'", "'<M8[s]'", "'<c16'", "[('a', '<f8')]", "'|S0'", "'<i3'", "'x'")
HEADERS = ("{", "", "{}", "None", "{'descr': 1}", "(" * 3000, "{'shape': (1,), 'descr': '<f8'}", "{'a': [" * 200)
MEMBERS = ("../evil.jsonl", "/abs.jsonl", "a/b/c.jsonl", "é.jsonl", ".jsonl", "x.txt", "all.jsonl")
CODECS = ("utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "utf-7", "utf-8-sig", "cp037")
MOST_BYTES = 2_000_000

Break = Callable[[bytes, random.Random], bytes]


def break_file(path: Path, rng: random.Random) -> Path:
    """Make up to four changes; files that stay valid must not fail either."""
    content = path.read_bytes()
    for _ in range(rng.choice([0, 1, 1, 1, 2, 4])):
        structured = STRUCTURED.get(path.suffix)
        try:
            content = (structured if structured and rng.random() < 0.5 else rng.choice(BYTES))(content, rng)
        except (ArithmeticError, LookupError, OSError, ValueError, RecursionError, struct.error, csv.Error):
            content = _flip(content, rng)  # what was broken before need not have the structure any more
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError):
            content = _flip(content, rng)
    if rng.random() < 0.03:
        path = path.with_name(rng.choice(["a.csv", "a.json", "a.parquet", "a.zip", "a.npy", "a.xlsx", "a"]))
    path.write_bytes(content[:MOST_BYTES])
    return path


# ---------------------------------------------------------------- values


def _places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything inside a value."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*before, key)
        yield from _places(inner, (*before, key))


def break_json(value: Any, rng: random.Random) -> Any:
    """Replace, remove, repeat or nest one value."""
    changed = copy.deepcopy(value)
    places = list(_places(changed))
    if not places or rng.random() < 0.02:
        return rng.choice(JUNK)
    *before, key = rng.choice(places)
    holder: Any = changed
    for step in before:
        holder = holder[step]
    what = rng.randrange(8)
    if what < 4:
        holder[key] = rng.choice(JUNK) if rng.random() < 0.8 else odd_name(rng)
    elif what == 4:
        holder[key] = [holder[key]] * rng.choice([1, 2, 50])
    elif what == 5:
        holder[key] = {odd_name(rng): holder[key]}
    elif what == 6:
        del holder[key]
    elif isinstance(holder, dict):
        holder[odd_name(rng)] = holder.pop(key)
    else:
        holder.insert(key, rng.choice(JUNK))
    return changed


def _json(content: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.03:
        depth = rng.choice([500, 2000, 60_000])
        return rng.choice([b"[" * depth, b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
    return json.dumps(break_json(json.loads(content), rng)).encode()


def _json_line(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines()
    at = rng.randrange(len(lines))
    lines[at] = _json(lines[at], rng)
    return b"\n".join(lines) + b"\n"


def _cell(content: bytes, rng: random.Random) -> bytes:
    text = content.decode("utf-8", "surrogatepass")
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    row, what = rng.choice(rows), rng.randrange(6)
    if what < 3:
        row[rng.randrange(len(row))] = rng.choice(CELLS) if rng.random() < 0.7 else odd_name(rng)
    elif what == 3:
        del row[rng.randrange(len(row))]
    elif what == 4:
        row.insert(rng.randrange(len(row) + 1), odd_name(rng))
    else:
        rows.insert(rng.randrange(len(rows) + 1), list(rng.choice(rows)))
    return csv_bytes(rows, delimiter)


# ---------------------------------------------------------------- containers


def _zip(content: bytes, rng: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, what = rng.choice(list(members)), rng.randrange(8)
    if what < 3:
        members[name] = STRUCTURED.get(Path(name).suffix, _flip)(members[name], rng)
    elif what == 3:
        members[rng.choice(MEMBERS)] = members.pop(name)
    elif what == 4:
        members[name] = rng.choice(TOKENS) * rng.choice([1, 1000])
    elif what == 5:
        members = {}
    elif what == 6:
        members[name] += b"\x00" * (20 if rng.random() < 0.05 else 1) * 2**20  # which packs well
    methods = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    packed = zip_bytes(members, rng.choice(methods))
    return _number(packed, rng) if what == 7 else packed


def _npy(content: bytes, rng: random.Random) -> bytes:
    (size,) = struct.unpack("<H", content[8:10])
    header, body = content[10 : 10 + size].decode("latin-1").rstrip(), content[10 + size :]
    what = rng.randrange(6)
    if what == 0:
        header = re.sub(r"\([^)]*\)", rng.choice(SHAPES), header)
    elif what == 1:
        header = re.sub(r"'descr': '[^']*'", f"'descr': {rng.choice(KINDS)}", header)
    elif what == 2:
        header = rng.choice(HEADERS)
    elif what == 3:
        header = header.replace("False", rng.choice(["True", "None", "1", "'x'"]))
    elif what == 4:
        body = rng.choice([b"", body[:3], body * 3])
    else:
        return content[:6] + bytes([rng.randrange(5), rng.randrange(3)]) + content[8:]
    raw = header.encode("latin-1") + b"\n"
    return content[:8] + struct.pack("<H", len(raw) & 0xFFFF) + raw + body


STRUCTURED: dict[str, Break] = {
    ".json": _json,
    ".jsonl": _json_line,
    ".csv": _cell,
    ".tsv": _cell,
    ".zip": _zip,
    ".npz": _zip,
    ".xlsx": _zip,
    ".npy": _npy,
}
"""Changes that keep most of a file's structure, by the end of its name."""


# ---------------------------------------------------------------- bytes


def _flip(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content or b"\x00")
    for _ in range(rng.choice([1, 1, 3, 20])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _remove(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.choice([1, 2, 8, 100]) :]


def _insert(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(TOKENS) * rng.choice([1, 1, 1, 30]) + content[at:]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    part = content[start : start + rng.choice([1, 10, 100])]
    return content[:start] + part * rng.choice([2, 20, 1000]) + content[start:]


def _number(content: bytes, rng: random.Random) -> bytes:
    """A size, in figures or in binary, that is another one."""
    found = list(re.finditer(rb"\d+", content))
    if found and rng.random() < 0.7:
        match = rng.choice(found)
        return content[: match.start()] + rng.choice(SIZES) + content[match.end() :]
    at = rng.randrange(max(1, len(content) - 8))
    value = rng.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, rng.randrange(2**32)])
    return content[:at] + struct.pack("<I", value) + content[at + 4 :]


def _recode(content: bytes, rng: random.Random) -> bytes:
    return content.decode("utf-8", "replace").encode(rng.choice(CODECS), "replace")


BYTES: tuple[Break, ...] = (_flip, _cut, _remove, _insert, _repeat, _number, _recode)
