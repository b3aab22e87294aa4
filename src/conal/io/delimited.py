"""CSV, TSV and JSON Lines. CSV has only text; names must keep their exact text."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from conal.data.columns import is_name_column
from conal.errors import InputError

__all__ = [
    "MISSING_TOKENS",
    "csv_delimiter",
    "encoding_of",
    "numbers_or_text",
    "open_delimited",
    "parse_delimited",
    "read_delimited",
    "read_json_lines",
    "with_long_rows",
    "write_delimited",
]

MISSING_TOKENS = ("", "nan", "NaN", "NAN", "<NA>", "NA", "N/A", "#N/A", "null", "NULL")
"""Text that means "no label" in a text file. "None" is not among them: it is often a class."""

_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_DECIMAL = r"^(0|-?[1-9][0-9]{0,17}|-?(0|[1-9][0-9]{0,17})\.[0-9]+)$"
_WITH_GAPS = r"^(0|-?[1-9][0-9]{0,14})\.0$"
_FIRST_ROWS = 1000
LARGEST_BLOCK = 2**30
"""Maximum number of bytes in a row."""
START_BYTES = 2**16
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""How a file in UTF-16 begins, as spreadsheets write it."""

Read = TypeVar("Read")


def read_delimited(path: Path, delimiter: str, names: Collection[str], roles: Iterable[str]) -> pa.Table:
    """Read a table; columns that contain names (ids, labels) are text unless all of them are plain numbers.

    Arrow alone would read ``007`` as 7, ``12:00`` as a time and ``true`` as a truth value.

    Parameters
    ----------
    names : collection of str
        Columns that contain names.
    roles : iterable of str
        Columns that are called like one of these (:data:`conal.data.columns.ALIASES`) contain names too.
    """
    import pyarrow.csv as pv

    wanted = set(names)

    def read(block_size: int | None) -> tuple[pa.Table, list[str], set[str]]:
        header, blocks, parse = open_delimited(path, delimiter, block_size)
        text = {name for name in header if name in wanted or is_name_column(name, roles)}
        convert = pv.ConvertOptions(column_types=dict.fromkeys(text, pa.string()))
        return pv.read_csv(path, blocks, parse, convert), header, text

    table, header, text = with_long_rows(read)
    times = Counter(header)
    columns = [
        numbers_or_text(column) if name in text and times[name] == 1 else column
        for name, column in zip(header, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=header)


def encoding_of(start: bytes) -> str:
    """The encoding of a text, from its first bytes: UTF-8 with or without a byte-order mark, or UTF-16 with one."""
    return "utf-16" if start.startswith(UTF_16_MARKS) else "utf-8-sig"


def csv_delimiter(header: str) -> str:
    """A comma, or the semicolon that spreadsheets write where the comma is the decimal point.

    >>> csv_delimiter('task;"label, final"'), csv_delimiter("task,label;x"), csv_delimiter("task")
    (';', ',', ',')
    """
    outside = re.sub('"[^"]*"?', "", header)
    return ";" if ";" in outside and "," not in outside else ","


def open_delimited(path: Path, delimiter: str, block_size: int | None) -> tuple[list[str], Any, Any]:
    """The header, and Arrow's options to parse the file; a comma stands for the delimiter of any CSV file."""
    import pyarrow.csv as pv

    with pa.input_stream(path) as stream:
        start = bytes(stream.read(START_BYTES))
    encoding = encoding_of(start)
    if delimiter == ",":
        delimiter = csv_delimiter((start.decode(encoding, errors="replace").splitlines() or [""])[0])
    blocks = pv.ReadOptions(block_size=block_size, encoding="utf8" if encoding == "utf-8-sig" else encoding)
    parse = pv.ParseOptions(delimiter=delimiter, newlines_in_values=_has_quotes(path))
    with pv.open_csv(path, blocks, parse) as reader:
        return reader.schema.names, blocks, parse


def read_json_lines(path: Path) -> pa.Table:
    """One JSON object per line."""
    import pyarrow.json as pj

    with pa.input_stream(path) as stream:
        start = bytes(stream.read(2))
        recoded = (start + bytes(stream.read())).decode("utf-16").encode() if encoding_of(start) == "utf-16" else None

    def read(block_size: int | None) -> pa.Table:
        source = path if recoded is None else pa.BufferReader(recoded)
        return pj.read_json(source, pj.ReadOptions(block_size=block_size))

    return with_long_rows(read)


def with_long_rows(read: Callable[[int | None], Read]) -> Read:
    """Read with Arrow's own size of blocks, and in larger ones where a row (of long text, say) is longer than that."""
    size: int | None = None
    while True:
        try:
            return read(size)
        except pa.ArrowInvalid as error:
            size = 2**24 if size is None else 8 * size
            if "straddl" not in str(error) or size > LARGEST_BLOCK:
                raise


def write_delimited(table: pa.Table, path: Path, delimiter: str) -> None:
    """Write a table with quotes only where some value needs them: Arrow would put them around every text."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerow(table.column_names)
    try:
        _append_rows(table, path, delimiter, "none")
    except pa.ArrowInvalid:  # a value contains a delimiter, a quote or a line end
        _append_rows(table, path, delimiter, "needed")


def _has_quotes(path: Path) -> bool:
    """Whether a quote occurs at all: only a quoted value can contain a line end, and Arrow reads slower if one may."""
    with pa.input_stream(path) as stream:  # which unpacks what Arrow's reader unpacks
        return any(b'"' in block for block in iter(partial(stream.read, 2**20), b""))


def numbers_or_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Integers or decimals if every value is one, prints back unchanged, and no two names become one number.

    The task ``1.10`` is not the task ``1.1``, and no float holds an id of 17 digits and a fraction. Such columns stay
    text. One spelling is undone: pandas writes the integers of a column with gaps as ``1.0``, ``2.0``.
    """
    import pyarrow.compute as pc

    first, missing = _trimmed(column.slice(0, _FIRST_ROWS))
    if not _all_match(first.filter(pc.invert(missing)), _DECIMAL):  # most text is seen to be text at once
        return column
    kind = _number_type(column.unique())
    if kind is None:
        return column
    trimmed, missing = _trimmed(column)
    return pc.if_else(missing, pa.scalar(None, pa.string()), trimmed).cast(kind)


def _number_type(names: pa.Array) -> pa.DataType | None:
    """The type of number that these distinct names can be without loss; None if they must stay text."""
    import pyarrow.compute as pc

    trimmed, missing = _trimmed(names)
    present = trimmed.filter(pc.invert(missing)).drop_null()
    if 0 < len(present) < len(names) and _all_match(present, _WITH_GAPS):
        return pa.float64()
    for pattern, kind in ((_WHOLE, pa.int64()), (_DECIMAL, pa.float64())):
        if len(present) and _all_match(present, pattern):
            numbers = present.cast(kind)
            unchanged = pc.all(pc.equal(numbers.cast(pa.string()), present)).as_py()
            return kind if unchanged and len(numbers.unique()) == len(present) else None
    return None


def _trimmed(column: pa.Array | pa.ChunkedArray) -> tuple[Any, Any]:
    """The values without surrounding blanks, and which of them mean "missing"."""
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    return trimmed, pc.is_in(trimmed, value_set=pa.array(MISSING_TOKENS))


def _all_match(texts: pa.Array | pa.ChunkedArray, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def _append_rows(table: pa.Table, path: Path, delimiter: str, quoting: str) -> None:
    import pyarrow.csv as pv

    options = pv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style=quoting)
    with path.open("r+b") as file:
        file.seek(0, 2)
        start = file.tell()
        try:
            pv.write_csv(table, file, options)
        except pa.ArrowInvalid:
            file.truncate(start)
            raise


def parse_delimited(content: bytes, delimiter: str, where: str) -> pa.Table:
    """A table in memory, such as a file of an archive, all of whose columns may contain names."""
    import pyarrow.csv as pv

    parse = pv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in content)
    try:
        with pv.open_csv(pa.BufferReader(content), parse_options=parse) as reader:
            header = reader.schema.names
        convert = pv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()))
        table = pv.read_csv(pa.BufferReader(content), parse_options=parse, convert_options=convert)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise InputError(f"{where}: cannot be read as a table: {str(error).splitlines()[0]}") from error
    return pa.table({name: numbers_or_text(table[name]) for name in dict.fromkeys(header)})
