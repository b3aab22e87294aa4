"""Delimited files: encoding, delimiter, quotes, and rows."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from conal.data.encoding import Names, numbers_or_text, text_column
from conal.errors import InputError, examples, people
from conal.io.arrow_files import map_names
from conal.io.limits import ARROW_ERRORS, JSON_BYTES, TABLE_BYTES, blocks_of, check_json_lines, refusing

# Quotes in CSV and TSV: a value that begins with one and does not end where it should swallows the rows after it.

UTF_8_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""How a file in UTF-16 begins, as spreadsheets write it."""
QUOTE_REMEDY = (
    'put a value that contains a quote in quotes, and double the quotes inside it ("a ""b"" c"), as pandas and '
    "csv.writer do, or remove the quote"
)
MAX_VALUE_BYTES = 2**31 - 1
"""Bytes of a value that Python's reader takes."""
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
    """Whether a table has quotes; a value that is not closed, or that goes on after its closing quote, is an error.

    Python's reader is strict, where Arrow's would take the rows after such a value for a part of it.
    """
    if not any(b'"' in block for block in blocks()):
        return False
    reader = csv.reader(_lines(blocks()), delimiter=delimiter, strict=True)
    usual, begin = csv.field_size_limit(MAX_VALUE_BYTES), 1
    try:
        for _ in reader:
            begin = reader.line_num + 1
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise InputError(
                f"{where}: line {begin}: a value begins with a quote that is not closed, so that the rest of the file "
                f"would be inside it; {QUOTE_REMEDY}"
            ) from error
        end = reader.line_num
        lost = f"the value began in line {begin}, and the rows between would be lost; " if begin < end else ""
        raise InputError(
            f"{where}: line {end}: after the closing quote of a value comes something else than a delimiter or the end "
            f"of the line; {lost}{QUOTE_REMEDY}"
        ) from error
    finally:
        csv.field_size_limit(usual)
    return True


def _lines(blocks: Blocks) -> Iterator[str]:
    """Lines with their ends, in a one-byte encoding, in which delimiters and quotes are what they are in UTF-8."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).splitlines(keepends=True) or [b""]  # the end of the last may be two characters
        yield from (line.decode("latin-1") for line in lines)
    yield from (line.decode("latin-1") for line in rest.splitlines(keepends=True))


def refuse_line_ends(path: Path, **names: Names | None) -> None:
    """Reject a task, worker or label of a text table that goes over several lines, as where a quote is not closed."""
    for role, found in names.items():
        odd = None if found is None else name_with_line_end(found)
        if odd is not None:
            before = b"".join(text_blocks(path)).partition(odd.replace('"', '""').encode())[0]
            line = len((before + b"x").splitlines())
            raise InputError(
                f"{path}: line {line}: the {role} {(people if role == 'worker' else examples)([odd])} contains the end "
                "of a line, and maybe further rows; write it in one line, or, if it is meant to be shorter, "
                f"{QUOTE_REMEDY}"
            )


def name_with_line_end(names: Names) -> str | None:
    """The first name that contains a line end; None if there is none."""
    texts = names.tolist() if names.dtype == object else []
    return next((name for name in texts if isinstance(name, str) and ("\n" in name or "\r" in name)), None)


# CSV, TSV and JSON Lines. CSV has only text; names must keep their exact text.

MAX_BLOCK_BYTES = 2**30
"""Maximum number of bytes in a row."""
START_BYTES = 2**16
BLOCK_BYTES = 2**20
CODED = pa.dictionary(pa.int32(), pa.string())
Choose = Callable[[Sequence[str]], Sequence[str]]
"""From the header of a table to its columns of names; an error if something is wrong with the header."""

Read = TypeVar("Read")


def read_delimited(path: Path, delimiter: str, choose: Choose, *, coded: bool = False) -> pa.Table:
    """Read a table; columns that contain names (ids, labels) are text unless all of them are plain numbers.

    Arrow alone would read ``007`` as 7, ``12:00`` as a time and ``true`` as a truth value.

    Parameters
    ----------
    choose : callable
        The columns of names, by the header.
    coded : bool
        Keep these columns only, as 32-bit codes and distinct names: a hundred million rows fit into memory.
    """
    import pyarrow.csv as pv

    def read(block_size: int | None) -> tuple[pa.Table, list[str]]:
        header, blocks, parse = open_delimited(path, delimiter, block_size or (BLOCK_BYTES if coded else None))
        names = list(choose(header))
        types = dict.fromkeys(names, CODED if coded else pa.string())
        convert = pv.ConvertOptions(column_types=types, include_columns=names if coded else None)
        return pv.read_csv(path, blocks, parse, convert), names

    table, names = with_long_rows(read)
    text = set(names)
    columns = [
        map_names(column, partial(numbers_or_text, padded=is_padded(name))) if name in text else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=table.column_names)


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
    return b"".join(text_blocks(path)) if encoding_of(start) == "utf-16" else None


def with_long_rows(read: Callable[[int | None], Read]) -> Read:
    """Read with Arrow's own size of blocks, and in larger ones where a row (of long text, say) is longer than that."""
    size: int | None = None
    while True:
        try:
            return read(size)
        except pa.ArrowInvalid as error:
            size = 2**24 if size is None else 8 * size
            if "straddl" not in str(error) or size > MAX_BLOCK_BYTES:
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
