"""Break documents: at the level of their values, of their containers, and of their bytes."""

from __future__ import annotations

import copy
import csv
import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from torture.documents import Document, csv_bytes, json_of, zip_bytes
from torture.odd import odd_json, odd_name

__all__ = ["break_json", "broken", "places", "replaced"]

JUNK: list[Any] = [
    None, "", "x", 0, -1, 7, 2**31, 2**63, 10**30, -(10**30), 10**400, 1e308, float("nan"), float("inf"), True, [], {},
    [[]], [{}], {"a": 1}, ["x", "y"], "\ud800", "\x00", "../secret", "/etc/passwd", "x" * 5000, [0] * 300,
    {"": {"": {"": []}}},
]  # fmt: skip
CELLS = [
    "",
    " ",
    "7",
    "007",
    "nan",
    "x,y",
    '"',
    "[",
    "{",
    '[{"q": {"cat": true, "dog": true}}]',
    "1e400",
    "\ufeff",
    "é\n",
    "\x00",
    "-1",
]
TOKENS = [
    b"\x00", b"\xff", b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b'"', b"'", b",", b"\t", b"\n",
    b"\r", b"\r\n",     b"\\", b"\\u0000", b"\\ud800", b"null", b"true", b"NaN", b"Infinity", b"-", b"1e999", b"9"
    * 400, b"[" * 600, b"{" * 600,     b'{"a":' * 600, b"]", b"}", b"[]", b"{}", b"\x1b[0m", b"PK\x03\x04",
    b"PAR1", b"\x93NUMPY", b"\x1f\x8b", b"=1+1",
]  # fmt: skip
HUGE = [
    b"-1",
    b"0",
    b"99999999999",
    b"2147483648",
    b"9223372036854775808",
    b"1e999",
    b"4294967296",
    b"340282366920938463463374607431768211456",
]


def broken(found: Document, rng: random.Random, other: Document) -> Document:
    """The document with one to four changes; some stay as they are, because valid documents must not fail either."""
    if rng.random() < 0.12:
        return found
    content = found.content
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        structured = rng.random() < 0.45
        try:
            content = (_structured(found.name, rng) if structured else rng.choice(BYTES))(content, rng, other.content)
        except Exception:  # what was broken before need not have the structure any more
            content = _flip(content, rng, b"")
    name = found.name if rng.random() < 0.97 else f"{found.name.partition('.')[0]}.{other.name.partition('.')[2]}"
    return replace(found, name=name, content=content[:2_000_000])


def _structured(name: str, rng: random.Random) -> Callable[[bytes, random.Random, bytes], bytes]:
    ending = name.rpartition(".")[2]
    return {
        "json": _json,
        "jsonl": _json_line,
        "csv": _cell,
        "tsv": _cell,
        "zip": _zip,
        "npz": _zip,
        "xlsx": _zip,
        "eval": _zip,
        "npy": _npy,
    }.get(ending, rng.choice(BYTES))


# ---------------------------------------------------------------- values


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to every value inside a value, itself included."""
    yield before
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield from places(inner, (*before, key))


def replaced(value: Any, place: tuple[Any, ...], junk: Any) -> Any:
    """A copy with another value at the place."""
    if not place:
        return junk
    changed = copy.deepcopy(value)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = junk
    return changed


def break_json(value: Any, rng: random.Random) -> Any:
    """Replace, remove, repeat or nest one value."""
    place = rng.choice(list(places(value)))
    what = rng.randrange(8)
    if what < 4 or not place:
        return replaced(value, place, rng.choice(JUNK) if rng.random() < 0.8 else odd_json(rng))
    inner: Any = value
    for key in place:
        inner = inner[key]
    if what == 4:
        return replaced(value, place, [inner] * rng.choice([1, 2, 50]))
    if what == 5:
        return replaced(value, place, {odd_name(rng): inner})
    changed = copy.deepcopy(value)
    holder: Any = changed
    for key in place[:-1]:
        holder = holder[key]
    if what == 6:
        del holder[place[-1]]
    elif isinstance(holder, dict):
        holder[odd_name(rng)] = holder.pop(place[-1])
    else:
        holder.insert(rng.randint(0, len(holder)), rng.choice(JUNK))
    return changed


def _json(content: bytes, rng: random.Random, _: bytes) -> bytes:
    if rng.random() < 0.03:
        depth = rng.choice([500, 2000, 60_000])
        return rng.choice([b"[" * depth, b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
    return json_of(break_json(json.loads(content), rng))


def _json_line(content: bytes, rng: random.Random, other: bytes) -> bytes:
    lines = content.splitlines()
    at = rng.randrange(len(lines))
    lines[at] = _json(lines[at], rng, other).strip()
    return b"\n".join(lines) + b"\n"


def _cell(content: bytes, rng: random.Random, _: bytes) -> bytes:
    text = content.decode("utf-8", "surrogatepass")
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    row = rng.choice(rows)
    what = rng.randrange(6)
    if what < 3:
        row[rng.randrange(len(row))] = rng.choice(CELLS) if rng.random() < 0.7 else odd_name(rng)
    elif what == 3:
        del row[rng.randrange(len(row))]
    elif what == 4:
        row.insert(rng.randrange(len(row) + 1), odd_name(rng))
    else:
        rows.insert(rng.randrange(len(rows) + 1), list(rng.choice(rows)))
    return csv_bytes(rows[0], rows[1:], delimiter)


# ---------------------------------------------------------------- containers


def _zip(content: bytes, rng: random.Random, other: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    what = rng.randrange(8)
    if what < 3:
        members[name] = _structured(name, rng)(members[name], rng, other)
    elif what == 3:
        members[
            rng.choice(["../evil.jsonl", "/abs.jsonl", "a/b/c.jsonl", "é.jsonl", ".jsonl", "x.txt", "all.jsonl"])
        ] = members.pop(name)
    elif what == 4:
        members[name] = rng.choice(TOKENS) * rng.choice([1, 1000])
    elif what == 5:
        members = {}
    elif what == 6:
        members[name] = members[name] + b"\x00" * (20 if rng.random() < 0.05 else 1) * 2**20  # which packs well
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    packed = zip_bytes(members, method)
    return _number(packed, rng, b"") if what == 7 else packed


def _npy(content: bytes, rng: random.Random, _: bytes) -> bytes:
    if content[:6] != b"\x93NUMPY":
        return _flip(content, rng, b"")
    (size,) = struct.unpack("<H", content[8:10])
    header, body = content[10 : 10 + size].decode("latin-1").rstrip(), content[10 + size :]
    what = rng.randrange(6)
    if what == 0:
        dims = rng.choice(
            [
                "(1000000000, 1000000000)",
                "(99999999999,)",
                "(-1, 2)",
                "()",
                "(0, 5)",
                "(1,)*9",
                "(2**40,)",
                "(True, 2)",
                "(1.5,)",
                "'x'",
                "(3000000000, 1)",
            ]
        )
        header = re.sub(r"\([^)]*\)", dims, header)
    elif what == 1:
        kind = rng.choice(
            [
                "|O",
                "<U1000000000",
                "|V8",
                "<f16",
                "<M8[s]",
                "<c16",
                "[('a', '<f8')]",
                "|S0",
                "x",
                "<i3",
                "|b1",
                "<f2",
                "('<f8', (10**6,))",
            ]
        )
        header = re.sub(r"'descr': '[^']*'", f"'descr': {kind}" if kind[:1] in "[(" else f"'descr': '{kind}'", header)
    elif what == 2:
        header = rng.choice(
            [
                "{",
                "",
                "{}",
                "None",
                "{'descr': 1}",
                "(" * 3000,
                "{'shape': (1,), 'descr': '<f8'}",
                "\x00",
                "1 +",
                "{'a': [" * 200,
            ]
        )
    elif what == 3:
        header = header.replace("False", rng.choice(["True", "None", "1", "'x'"]))
    elif what == 4:
        body = rng.choice([b"", body[:3], body * 3])
    else:
        return content[:6] + bytes([rng.randrange(5), rng.randrange(3)]) + content[8:]
    raw = header.encode("latin-1") + b"\n"
    return content[:8] + struct.pack("<H", len(raw) & 0xFFFF) + raw + body


# ---------------------------------------------------------------- bytes


def _flip(content: bytes, rng: random.Random, other: bytes) -> bytes:
    data = bytearray(content or b"\x00")
    for _ in range(rng.choice([1, 1, 3, 20])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _cut(content: bytes, rng: random.Random, _: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _remove(content: bytes, rng: random.Random, _: bytes) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.choice([1, 2, 8, 100]) :]


def _insert(content: bytes, rng: random.Random, _: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(TOKENS) * rng.choice([1, 1, 1, 30]) + content[at:]


def _splice(content: bytes, rng: random.Random, other: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other) + 1) :]


def _repeat(content: bytes, rng: random.Random, _: bytes) -> bytes:
    start = rng.randrange(len(content) + 1)
    part = content[start : start + rng.choice([1, 10, 100])]
    return content[:start] + part * rng.choice([2, 20, 1000]) + content[start:]


def _number(content: bytes, rng: random.Random, _: bytes) -> bytes:
    found = list(re.finditer(rb"\d+", content))
    if found and rng.random() < 0.7:
        match = rng.choice(found)
        return content[: match.start()] + rng.choice(HUGE) + content[match.end() :]
    at = rng.randrange(max(1, len(content) - 8))
    value = rng.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, rng.randrange(2**32)])
    return content[:at] + struct.pack("<I", value) + content[at + 4 :]


def _recode(content: bytes, rng: random.Random, _: bytes) -> bytes:
    text = content.decode("utf-8", "replace")
    return text.encode(
        rng.choice(["utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "utf-7", "utf-8-sig", "cp037"]), "replace"
    )


BYTES: list[Callable[[bytes, random.Random, bytes], bytes]] = [
    _flip,
    _flip,
    _cut,
    _remove,
    _insert,
    _splice,
    _repeat,
    _number,
    _recode,
]
