"""Quotes in CSV and TSV: a value that begins with one and does not end where it should swallows the rows after it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from conal.data.encoding import Names
from conal.errors import InputError, examples, people
from conal.io.limits import TABLE_BYTES, blocks_of

__all__ = ["check_quotes", "encoding_of", "name_with_line_end", "refuse_line_ends", "text_blocks"]

UTF_8_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""How a file in UTF-16 begins, as spreadsheets write it."""
REMEDY = (
    'put a value that contains a quote in quotes, and double the quotes inside it ("a ""b"" c"), as pandas and '
    "csv.writer do, or remove the quote"
)
_BEGINS, _ENDS, _DOUBLED = 3, 1, 2
_LETTERS: npt.NDArray[np.uint8] = np.frombuffer(b"abcdef", np.uint8)
"""A letter per quote. Values may begin with those of d, e and f; may end with those of b and e; and another quote
follows those of c and f."""
_VALUES = re.compile(rb"(?:[abc]|[def](?:[cf].)*+[be])*+", re.DOTALL)
"""Quotes inside of plain values, and quoted values. Possessive: it takes no memory, and 20 ns per quote."""
_OPEN_VALUE = re.compile(rb"[def](?:[cf].)*+", re.DOTALL)

Blocks = Iterable[bytes]


def encoding_of(start: bytes) -> str:
    """The encoding of a text, from its first bytes: UTF-8 with or without a byte-order mark, or UTF-16 with one."""
    return "utf-16" if start.startswith(UTF_16_MARKS) else "utf-8-sig"


def text_blocks(path: Path) -> Iterator[bytes]:
    """A text file, which may be compressed, in blocks of UTF-8 without a byte-order mark."""
    blocks = blocks_of(path, TABLE_BYTES)
    first = next(blocks, b"")
    if encoding_of(first) == "utf-16":
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        yield from (decoder.decode(block).encode() for block in chain([first], blocks))
    else:
        yield first.removeprefix(UTF_8_MARK)
        yield from blocks


def check_quotes(blocks: Callable[[], Blocks], delimiter: str, where: object) -> bool:
    """Whether a table has quotes; a value that is not closed, or that goes on after its closing quote, is an error."""
    letters = _letters(blocks(), ord(delimiter))
    read = _VALUES.match(letters)
    first = read.end() if read else 0
    value = _OPEN_VALUE.match(letters, first)
    if value is None:
        return bool(letters)
    begin = _line_of(blocks(), b'"', first)
    if value.end() == len(letters):
        raise InputError(
            f"{where}: line {begin}: a value begins with a quote that is not closed, so that the rest of the file "
            f"would be inside it; {REMEDY}"
        )
    end = _line_of(blocks(), b'"', value.end())
    lost = f"the value began in line {begin}, and the rows between would be lost; " if begin < end else ""
    raise InputError(
        f"{where}: line {end}: after the closing quote of a value comes something else than a delimiter or the end of "
        f"the line; {lost}{REMEDY}"
    )


def refuse_line_ends(path: Path, **names: Names | None) -> None:
    """Reject a task, worker or label of a text table that goes over several lines, as where a quote is not closed."""
    for role, found in names.items():
        odd = None if found is None else name_with_line_end(found)
        if odd is not None:
            line = _line_of(text_blocks(path), odd.replace('"', '""').encode(), 0)
            raise InputError(
                f"{path}: line {line}: the {role} {(people if role == 'worker' else examples)([odd])} contains the end "
                f"of a line, and maybe further rows; write it in one line, or, if it is meant to be shorter, {REMEDY}"
            )


def name_with_line_end(names: Names) -> str | None:
    """The first name that contains a line end; None if there is none."""
    texts = names.tolist() if names.dtype == object else []
    return next((name for name in texts if isinstance(name, str) and ("\n" in name or "\r" in name)), None)


def _letters(blocks: Blocks, delimiter: int) -> bytes:
    """The letter of every quote, by the characters before and after it."""
    found, before = [], b"\n"
    for block in chain(blocks, [b"\n"]):
        data = before + block
        before = data[-2:]  # the last character is looked at with what follows it
        if b'"' in data:
            found.append(_letters_in(np.frombuffer(data, np.uint8), delimiter))
    return b"".join(found)


def _letters_in(data: npt.NDArray[np.uint8], delimiter: int) -> bytes:
    """Of the quotes that have a character before and after them."""
    at = np.flatnonzero(data[1:-1] == ord('"')) + 1
    before, after = data[at - 1], data[at + 1]
    code = _BEGINS * _is_edge(before, delimiter) + _ENDS * _is_edge(after, delimiter) + _DOUBLED * (after == ord('"'))
    return bytes(_LETTERS[code])


def _is_edge(characters: npt.NDArray[np.uint8], delimiter: int) -> npt.NDArray[np.bool_]:
    """Which of these separate values."""
    edge: npt.NDArray[np.bool_] = (characters == delimiter) | (characters == ord("\n")) | (characters == ord("\r"))
    return edge


def _line_of(blocks: Blocks, sought: bytes, times: int) -> int:
    """The line, from 1, in which something occurs after it has occurred this many times; it must not overlap itself."""
    line, data = 1, b""
    for block in blocks:
        data += block
        count = data.count(sought)
        if count > times:
            pieces = data.split(sought, times + 1)
            return line + _line_ends(data[: len(data) - len(pieces[-1]) - len(sought)])
        times -= count
        cut = max(0, len(data) - len(sought) + 1)
        cut -= data[cut - 1 : cut] == b"\r"  # a line end may be two characters
        line, data = line + _line_ends(data[:cut]), data[cut:]
    return line


def _line_ends(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
