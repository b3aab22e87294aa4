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
from conal.data.encoding import text_column
from conal.data.numbers import numbers_or_text
from conal.errors import InputError, examples
from conal.io.limits import JSON_BYTES, blocks_of, check_json_lines
from conal.io.quotes import UTF_8_MARK, check_quotes, encoding_of, text_blocks
from conal.io.refusals import ARROW_ERRORS, refusing

__all__ = [
    "csv_delimiter",
    "is_padded",
    "open_delimited",
    "parse_delimited",
    "read_delimited",
    "read_json_lines",
    "refuse_repeated",
    "with_long_rows",
    "write_delimited",
]

LARGEST_BLOCK = 2**30
"""Maximum number of bytes in a row."""
START_BYTES = 2**16

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
        numbers_or_text(column, padded=is_padded(name)) if name in text and times[name] == 1 else column
        for name, column in zip(header, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=header)


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
    quoted = check_quotes(partial(text_blocks, path), delimiter, path)
    parse = pv.ParseOptions(delimiter=delimiter, newlines_in_values=quoted)  # slower where values may contain line ends
    with pv.open_csv(path, blocks, parse) as reader:
        return reader.schema.names, blocks, parse


def refuse_repeated(header: Collection[str], where: object) -> None:
    """Reject a table in which a name could mean several columns."""
    twice = {name for name, count in Counter(header).items() if count > 1}
    if twice:
        raise InputError(f"{where}: several columns have the name {examples(sorted(twice))}; rename them")


def is_padded(header: str) -> bool:
    """Whether there are spaces around the name of a column, as in files with ", " between the columns."""
    return header != header.strip()


def read_json_lines(path: Path) -> pa.Table:
    """One JSON object per line. Texts stay texts, also those that look like times."""
    import pyarrow.json as pj

    recoded = _from_utf_16(path)
    check_json_lines(blocks_of(path, JSON_BYTES) if recoded is None else [recoded], path)

    def read(size: int | None, texts: Iterable[str] = ()) -> pa.Table:
        parse = pj.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in texts]))
        source = path if recoded is None else pa.BufferReader(recoded)
        return pj.read_json(source, pj.ReadOptions(block_size=size), parse)

    table = with_long_rows(read)
    times = [field.name for field in table.schema if pa.types.is_temporal(field.type)]
    if times:
        table = with_long_rows(partial(read, texts=times))
    table.validate(full=True)  # Arrow takes text that is not UTF-8
    return table


def _from_utf_16(path: Path) -> bytes | None:
    """A file in UTF-16 as UTF-8; None for others."""
    with pa.input_stream(path) as stream:
        start = bytes(stream.read(2))
    if encoding_of(start) != "utf-16":
        return None
    return b"".join(blocks_of(path, JSON_BYTES)).decode("utf-16").encode()


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
    """Write a table with quotes only where some value needs them: Arrow would put them around every text.

    Truth values are spelled True and False, as in the names of columns; Arrow writes true and false.
    """
    columns = [text_column(column) if pa.types.is_boolean(column.type) else column for column in table.columns]
    table = pa.Table.from_arrays(columns, names=table.column_names)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerow(table.column_names)
    try:
        _append_rows(table, path, delimiter, "none")
    except pa.ArrowInvalid:  # a value contains a delimiter, a quote or a line end
        _append_rows(table, path, delimiter, "needed")


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

    quoted = check_quotes(lambda: [content.removeprefix(UTF_8_MARK)], delimiter, where)
    parse = pv.ParseOptions(delimiter=delimiter, newlines_in_values=quoted)
    with refusing(ARROW_ERRORS, f"{where}: cannot be read as a table: {{}}"):
        with pv.open_csv(pa.BufferReader(content), parse_options=parse) as reader:
            header = reader.schema.names
        refuse_repeated(header, where)
        convert = pv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()))
        table = pv.read_csv(pa.BufferReader(content), parse_options=parse, convert_options=convert)
    return pa.table({name: numbers_or_text(table[name], padded=is_padded(name)) for name in header})
