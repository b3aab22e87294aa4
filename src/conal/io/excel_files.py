"""Excel workbooks (.xlsx): one sheet as a table. A workbook is a zip of XML, whose size is checked first."""

from __future__ import annotations

import datetime as dt
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from conal.data.encoding import spelling
from conal.errors import InputError, examples
from conal.io.limits import TABLE_BYTES, ZIP_ERRORS, Room, blocks_in, refuse_bomb, refusing, unpacked_limit

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


class SheetHead(NamedTuple):
    """A sheet that is not empty: its name, its first row, and the next ones as text."""

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sheet_heads(path: Path) -> list[SheetHead]:
    """The beginning of every sheet that is not empty."""
    with _open(path) as book:
        heads = [_head(name, _rows(book, name, path)) for name in book.sheetnames]
    return [head for head in heads if head is not None]


def read_excel(path: Path, fits: Callable[[Sequence[str]], bool]) -> pa.Table:
    """The only sheet, or the only one whose columns fit; the first row has their names.

    Numbers without a fraction are integers, as people see them. A column of numbers and text is text.
    """
    name = _choose(path, sheet_heads(path), fits)
    with _open(path) as book:
        rows = _rows(book, name, path)
        header = _header(next(rows, (0, ()))[1])
        columns: list[list[Any]] = [[] for _ in header]
        for number, row in rows:
            if any(cell is not None for cell in row[len(header) :]):
                raise InputError(f"{path}: sheet {name!r}, row {number} has cells without a column name; name them")
            for k, column in enumerate(columns):
                column.append(row[k] if k < len(row) else None)
    named = [(text, _typed(cells)) for text, cells in zip(header, columns, strict=True) if _is_used(text, cells)]
    return pa.Table.from_arrays([column for _, column in named], names=[text for text, _ in named])


def _choose(path: Path, heads: Sequence[SheetHead], fits: Callable[[Sequence[str]], bool]) -> str:
    if not heads:
        raise InputError(f"{path}: all its sheets are empty")
    if len(heads) == 1:
        return heads[0].name
    fitting = [head for head in heads if fits(head.header)]
    if len(fitting) == 1:
        return fitting[0].name
    shown = "; ".join(f"{head.name!r} with {examples(head.header, 5)}" for head in heads[:10])
    which = "several of its sheets fit" if fitting else "none of its sheets has the columns"
    raise InputError(f"{path}: {which}: {shown}. Leave one sheet in the file, or save one as CSV")


@contextmanager
def _open(path: Path) -> Iterator[Any]:
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
            with refusing((*ZIP_ERRORS, *_XML_ERRORS), _message(path)):
                book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            yield book


_XML_ERRORS: tuple[type[Exception], ...] = (SyntaxError, KeyError, AttributeError, AssertionError, ArithmeticError)
"""What openpyxl raises about damaged XML, where parts are missing, and about dates that do not exist."""


def _message(path: Path) -> str:
    return f"{path}: cannot be read as an Excel file ({{}}); save it again, or as CSV"


def _check_unpacked(path: Path) -> None:
    """Refuse a workbook that unpacks to too much, and XML that declares entities, which may expand to any size."""
    limit = unpacked_limit(path.stat().st_size, TABLE_BYTES)
    left = limit
    with refusing(ZIP_ERRORS, _message(path)), zipfile.ZipFile(path) as archive:
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
    room = Room(path, path.stat().st_size)
    with refusing((*ZIP_ERRORS, *_XML_ERRORS), _message(path)):
        sheet = book[name]
        if not hasattr(sheet, "iter_rows"):  # a chart
            return
        if hasattr(sheet, "reset_dimensions"):
            sheet.reset_dimensions()  # which the file states, and which may be wrong
        for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
            room.take(CELL_BYTES * (len(row) + 1) + sum(len(cell) for cell in row if isinstance(cell, str)))
            if any(cell is not None for cell in row):
                yield number, row


def _head(name: str, rows: Iterator[tuple[int, Row]]) -> SheetHead | None:
    first = next(rows, None)
    if first is None:
        return None
    shown = tuple(tuple("" if cell is None else _text(cell) for cell in row) for _, row in islice(rows, HEAD_ROWS))
    return SheetHead(name, _header(first[1]), shown)


def _header(row: Row) -> tuple[str, ...]:
    """Names of columns, without empty cells at the end."""
    names = ["" if cell is None else _text(cell) for cell in row]
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def _is_used(name: str, cells: Sequence[Any]) -> bool:
    return bool(name) or any(cell is not None for cell in cells)


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
