"""Limits on files from elsewhere, and errors of parsers as messages."""

from __future__ import annotations

import decimal
import lzma
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.errors import InputError

# Errors of parsers as messages: one place that says which errors a damaged file can cause.

Errors = tuple[type[Exception], ...]

ARROW_ERRORS: Errors = (
    *(pa.ArrowException, UnicodeError, OSError, OverflowError, MemoryError),
    decimal.DecimalException,
)
"""What Arrow raises about a table, and Python about names that are no UTF-8, dates and decimals that do not exist."""
VALUE_ERRORS: Errors = (*ARROW_ERRORS, ValueError)
"""What Arrow and Python raise about values that become Python objects."""
NUMPY_ERRORS: Errors = (
    *(ValueError, TypeError, SyntaxError, tokenize.TokenError, KeyError, IndexError, AttributeError, OverflowError),
    *(RecursionError, MemoryError, OSError, EOFError, struct.error),
)
"""What NumPy raises about a header, which is a Python literal: whatever Python's parser and types do."""
ZIP_ERRORS: Errors = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError),
    *(ValueError, IndexError, OverflowError, MemoryError, RuntimeError, NotImplementedError, TypeError),
)
"""What reading an archive raises: damaged, encrypted, or packed by a method that Python does not have."""


ENCODING_REMEDY = (
    "if it is text in another encoding, name it with encoding='latin-1' (--encoding latin-1), or save the file as UTF-8"
)


@contextmanager
def refusing(errors: Errors, message: str) -> Iterator[None]:
    """These errors as an :class:`InputError` with this message, in which the last ``{}`` stands for the reason.

    Put nothing but calls of the parser into the block: a defect of conal must not look like a damaged file.
    """
    try:
        yield
    except InputError:
        raise
    except errors as error:
        before, _, after = message.rpartition("{}")
        raise InputError(before + first_line(error) + after) from error


def first_line(error: Exception) -> str:
    """What an error says, in one line; its type where it says nothing."""
    line = next(iter(str(error).splitlines()), "") or type(error).__name__
    return f"{line}; {ENCODING_REMEDY}" if "UTF8" in line else line


def unreadable(path: Path, kind: str) -> str:
    """The message of :func:`refusing` about a damaged table."""
    return f"{path}: cannot be read as {kind}: {{}}. Check the file, or set its format with format= (--set format=NAME)"


# Limits on files from elsewhere: what a small file may unpack to, how deep JSON may nest, and how large pictures are.
#
# A file of two megabytes can unpack to twelve gigabytes, and a line of brackets can end the process inside a parser.
# Both are noticed while the file is read in small blocks, before a parser sees it.

COMPRESSED = (".gz", ".bz2", ".zst")
"""Endings of compressed text, which is read directly."""
MAX_RATIO = 100
"""Beyond the limit below, a file may unpack to this many times its size; tables and texts stay well below."""
TABLE_BYTES = 2**29
JSON_BYTES = 2**26
ARRAY_BYTES = 2**30
"""Every file may unpack to this much. Objects of JSON take many times the memory of their text, arrays no more."""
MAX_PICTURE_BYTES = 2**26
MAX_PICTURE_PIXELS = 2**26
"""Of one picture: a camera has half as many pixels, and in memory they take 200 MB."""
MAX_DEPTH = 100
"""Lists and objects inside each other; Arrow's reader of JSON Lines takes minutes for some thousands, or fails."""
_BLOCK = 2**20
_NO_OBJECT = re.compile(rb"\n[^\S\n]*[^{\s]")
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""Possessive: a string of megabytes takes no memory to go back in."""
_STEPS: npt.NDArray[np.int8] = np.zeros(256, np.int8)
_STEPS[[*b"[{"]], _STEPS[[*b"]}"]] = 1, -1


def unpacked_limit(packed: int, free: int) -> int:
    """How many bytes a file of this size may unpack to."""
    return max(free, MAX_RATIO * packed)


def refuse_bomb(where: object, limit: int, remedy: str = "unpack it yourself and pass what is inside") -> NoReturn:
    """The error about a file that unpacks to more than the limit."""
    raise InputError(
        f"{where}: unpacks to more than {limit // 2**20:,} MB, over {MAX_RATIO} times its size; no usual data does. If "
        f"it is meant, {remedy}"
    )


def blocks_of(path: Path, free: int) -> Iterator[bytes]:
    """The file in blocks, unpacked if it is compressed; one that unpacks to too much is an error."""
    packed = path.suffix.lower() in COMPRESSED
    limit = unpacked_limit(path.stat().st_size, free) if packed else None
    total = 0
    with pa.input_stream(str(path)) as stream:
        for block in blocks_in(stream):
            total += len(block)
            if limit is not None and total > limit:
                refuse_bomb(path, limit)
            yield block


def blocks_in(file: Any) -> Iterator[bytes]:
    """What is in an open file, in blocks."""
    return iter(partial(file.read, _BLOCK), b"")


def check_json_lines(blocks: Iterable[bytes], path: Path) -> None:
    """Reject lines that Arrow's reader cannot take: no objects, and objects nested too deep. Both end the process."""
    number, rest = 1, b""
    for block in chain(blocks, [b"\n"]):
        head, newline, tail = block.rpartition(b"\n")
        if not newline:
            rest += block
            continue
        lines = (rest + head).removeprefix(b"\xef\xbb\xbf") if number == 1 else rest + head
        _check_lines(lines, path, number)
        number, rest = number + lines.count(b"\n") + 1, tail


def _check_lines(lines: bytes, path: Path, first: int) -> None:
    """Complete lines, of which the first has this number."""
    other = _NO_OBJECT.search(b"\n" + lines)
    if other is not None:
        number = first + lines.count(b"\n", 0, other.end() - 1)
        shown = lines[other.end() - 2 :].partition(b"\n")[0][:40].decode("utf-8", "replace")
        raise InputError(unreadable(path, "jsonl").format(f"line {number} is no JSON object but {shown!r}"))
    if _depth_bound(lines) > MAX_DEPTH:
        for number, line in enumerate(lines.split(b"\n"), first):
            if line.count(b"[") + line.count(b"{") > MAX_DEPTH:
                check_depth(line, f"{path}: cannot be read as jsonl: line {number}")


def check_depth(text: bytes, where: object) -> None:
    """Reject JSON with more than :data:`MAX_DEPTH` lists and objects inside each other; strings do not count."""
    if _depth_bound(text) > MAX_DEPTH and _is_deep(text):
        raise InputError(
            f"{where}: has lists and objects more than {MAX_DEPTH} deep inside each other; no annotations are, so "
            "check the file"
        )


def _depth_bound(text: bytes) -> int:
    """The depth if brackets in strings counted too: a sum, which is much faster than to look for strings."""
    depth = deepest = 0
    for start in range(0, len(text), _BLOCK):
        depths = np.cumsum(_STEPS[np.frombuffer(text[start : start + _BLOCK], np.uint8)], dtype=np.int32)
        deepest = max(deepest, depth + int(depths.max()))
        depth += int(depths[-1])
        if depth < 0:  # strings with closing brackets: begin again
            return MAX_DEPTH + 1
    return deepest


def _is_deep(text: bytes) -> bool:
    """One bracket after the other, up to the first that is too deep: nothing is copied."""
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        depth += int(_STEPS[text[found.start()]])
        if depth > MAX_DEPTH:
            return True
    return False
