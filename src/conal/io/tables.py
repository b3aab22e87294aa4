"""Tables in all formats: CSV, TSV and JSON Lines, which are read here, and Parquet, Arrow and Excel."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from conal._files import atomic_files
from conal.data.annotations import Annotations
from conal.data.cleaning import Rule, missing_rule
from conal.data.encoding import Names, numbers_or_text, text_column
from conal.data.frames import NAME_ROLES, find_columns, find_first, is_name_column
from conal.errors import InputError, examples, people
from conal.io import limits
from conal.io.binary_tables import (
    Choose,
    class_names,
    read_columns,
    read_excel,
    table_batches,
    table_schema,
    with_class_names,
)
from conal.io.limits import ARROW_ERRORS, COMPRESSED, VALUE_ERRORS, blocks_of, check_json_lines, refusing, unreadable

# The format of a table, by name or ending.

ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".xlsx": "xlsx",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
DELIMITERS = {"csv": ",", "tsv": "\t"}
UNTYPED = tuple(DELIMITERS)
"""Formats in which everything is text."""


def table_kind(path: Path, format: str | None) -> str:  # noqa: A002
    """The format of a table to read, which may be compressed: "csv" of ``a.csv.gz``."""
    return _kind(without_compression(path), format, set(ENDINGS.values()))


def without_compression(path: Path) -> Path:
    """``a.csv`` of ``a.csv.gz``."""
    return path.with_suffix("") if path.suffix.lower() in COMPRESSED else path


def file_kind(path: Path, format: str | None) -> str:  # noqa: A002
    """The format to write, by name or ending; an unknown one is an error that lists the known ones."""
    return _kind(path, format, _WRITERS)


def _kind(path: Path, format: str | None, known_kinds: Collection[str]) -> str:  # noqa: A002
    kind = format or ENDINGS.get(path.suffix.lower())
    if kind is not None and kind in known_kinds:
        return kind
    known = ", ".join(sorted(ending for ending, kind in ENDINGS.items() if kind in known_kinds))
    raise InputError(f"{path}: unknown kind of table {(format or path.suffix)!r}; use {known}")


def check_readable(path: Path) -> None:
    """A missing, empty or unreadable file is an error."""
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.is_dir():
        raise InputError(f"{path}: is a folder, expected a file")
    if not path.stat().st_size:
        raise InputError(f"{path}: is empty")


# Tables by the names of their columns.

CODED_ROWS = 2**20
"""Rows that become codes at a time."""
UNNAMED_INDEX = re.compile(r"__index_level_\d+__$")
"""What pandas calls an index without a name in Parquet files."""


def read_table(
    path: str | PathLike[str],
    format: str | None = None,  # noqa: A002
    names: Sequence[str | None] = (),
    roles: Sequence[str] = NAME_ROLES,
) -> pa.Table:
    """Read a table file; an unreadable or empty file is an error.

    ``names`` are columns that contain names, in addition to those that are called like one of the ``roles``: in CSV and
    TSV they are text unless all of them are numbers.
    """
    given = {name for name in names if name is not None}

    def choose(header: Sequence[str]) -> list[str]:
        more = roles is NAME_ROLES  # others may be features
        return [name for name in header if name in given or is_name_column(name, roles, more=more)]

    table = _read(Path(path), format, choose)
    for name, classes in class_names(table.schema).items():
        place = table.schema.get_field_index(name)
        if place >= 0:
            named = with_class_names(table[name], classes, f"{path}: column {name!r}")
            table = table.set_column(place, name, named)
    return table


def read_roles(
    path: Path,
    format: str | None,  # noqa: A002
    wanted: Mapping[str, str | None],
) -> tuple[dict[str, pa.ChunkedArray], dict[str, str]]:
    """The column of each role as Arrow dictionaries, that is 32-bit codes and distinct names, and how it is called.

    If the table has a column of times, it is there too, as "time".
    """
    found: dict[str, str] = {}

    def choose(header: Sequence[str]) -> list[str]:
        _refuse_wide(path, header, wanted)
        found.clear()  # of another sheet
        found.update(find_columns(header, wanted, str(path)))
        time = find_first([name for name in header if name not in found.values()], "time")
        found.update({} if time is None else {"time": time})
        return list(found.values())

    table = _read(path, format, choose, coded=True)
    pa.default_memory_pool().release_unused()  # what parsing took, before the codes are sorted
    classes = class_names(table_schema(path, table_kind(path, format)))

    def named(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
        where = f"{path}: column {name!r}"
        return with_class_names(column, classes[name], where) if name in classes else decoded(column, where)

    times = {"time": table[found.pop("time")]} if "time" in found else {}
    return {role: map_names(table[name], partial(named, name=name)) for role, name in found.items()} | times, found


def _refuse_wide(path: Path, header: Sequence[str], wanted: Mapping[str, str | None]) -> None:
    """Refuse a table without any of the wanted columns, which may have a column per annotator."""
    unknown = not any(is_name_column(name, wanted, more=True) for name in header)
    if len(header) > 2 and unknown and not any(wanted.values()):
        roles = ", ".join(map(repr, wanted))
        raise InputError(
            f"{path}: no column for the task; it has {', '.join(map(repr, header))}. If a row is one label, call the "
            f"columns {roles}, or set task= (--task-column) and so on; if a row is a task and a column an annotator, "
            f"pass format='wide' (--set format=wide) and task={header[0]!r} (--task-column {header[0]!r})"
        )


def _read(path: Path, format: str | None, choose: Choose, *, coded: bool = False) -> pa.Table:  # noqa: A002
    """The table, whose columns of names are chosen by its header; with ``coded``, these as dictionaries, and no others.

    A batch becomes codes before the next one is read.
    """
    kind = table_kind(path, format)
    check_readable(path)

    def checked(header: Sequence[str]) -> Sequence[str]:
        _check_header(path, kind, header)
        return choose(header)

    with refusing(ARROW_ERRORS, unreadable(path, kind)):
        table = _load(path, kind, checked, coded)
    if not table.num_rows:
        raise InputError(f"{path}: has a header ({', '.join(map(repr, table.column_names))}) but no rows")
    return table


def _load(path: Path, kind: str, choose: Choose, coded: bool) -> pa.Table:
    if kind in DELIMITERS:
        return read_delimited(path, DELIMITERS[kind], choose, coded=coded)
    if kind in ("parquet", "arrow"):
        columns = list(choose(table_schema(path, kind).names))
        if not coded:
            return read_columns(path, kind)
        batches = table_batches(path, kind, columns, CODED_ROWS, coded=True)
    else:
        table = read_excel(path, choose) if kind == "xlsx" else read_json_lines(path)
        columns = list(choose(table.column_names)) if table.num_rows else []
        if not coded or not table.num_rows:
            return table
        batches = iter(table.select(columns).to_batches())
    found = [_coded(batch) for batch in batches]
    return pa.Table.from_batches(found) if found else pa.table({name: pa.array([]) for name in columns})


def _coded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Distinct values and 32-bit codes; values that Arrow cannot compare, such as lists, are unchanged."""

    def code(column: pa.Array) -> pa.Array:
        kind = column.type
        is_plain = not (pa.types.is_nested(kind) or pa.types.is_null(kind) or pa.types.is_dictionary(kind))
        return column.dictionary_encode() if is_plain else column

    return pa.RecordBatch.from_arrays([code(column) for column in batch.columns], names=batch.schema.names)


def _check_header(path: Path, kind: str, header: Sequence[str]) -> None:
    """Reject repeated column names, and a single column that contains another delimiter."""
    refuse_repeated(header, path)
    alone = header[0] if kind in DELIMITERS and len(header) == 1 else ""
    found = next((mark for mark in (";", "\t", ",", "|") if mark in alone), None)
    if found is not None:
        advice = {
            "\t": "call it .tsv, or say format='tsv' (--set format=tsv)",
            ",": "call it .csv",
            ";": "call it .csv",
        }
        raise InputError(
            f"{path}: columns are separated by {found!r}, which is not {kind}; "
            f"{advice.get(found, 'separate them by commas')}"
        )


def pandas_index(schema: pa.Schema) -> list[str]:
    """The columns of a Parquet file that were a pandas index: those that its metadata name, and unnamed ones."""
    try:
        named = list((schema.pandas_metadata or {})["index_columns"])
    except (ValueError, LookupError, TypeError, RecursionError):  # none, or damaged
        named = []
    return [name for name in schema.names if name in named or UNNAMED_INDEX.match(name)]


# Encoding and quotes of text: a value that begins with a quote and does not end where it should swallows rows.


_ENCODING: ContextVar[str | None] = ContextVar("encoding of text without a byte-order mark", default=None)


@contextmanager
def decoding(encoding: str | None) -> Iterator[None]:
    """While this lasts, text files without a byte-order mark have this encoding; None for UTF-8."""
    try:
        known = encoding if encoding is None else codecs.lookup(encoding).name
        "".encode(known or "utf-8")  # not one from bytes to bytes
    except LookupError:
        raise InputError(
            f"encoding (--encoding): there is no encoding called {encoding!r}; usual are latin-1, cp1252 and utf-16"
        ) from None
    before = _ENCODING.set(known if known != "utf-8" else None)
    try:
        yield
    finally:
        _ENCODING.reset(before)


def encoding_of(start: bytes) -> str:
    """The encoding of a text, from its first bytes: by a byte-order mark, as the user says, or UTF-8."""
    if start.startswith(UTF_16_MARKS):
        return "utf-16"
    return "utf-8-sig" if start.startswith(UTF_8_MARK) else _ENCODING.get() or "utf-8-sig"


def text_blocks(path: Path, limit: int | None = None) -> Iterator[bytes]:
    """A text file, which may be compressed, in blocks of UTF-8 without a byte-order mark."""
    blocks = blocks_of(path, limits.TABLE_BYTES if limit is None else limit)
    first = next(blocks, b"")
    encoding = encoding_of(first)
    if encoding != "utf-8-sig":
        decoder = codecs.getincrementaldecoder(encoding)("replace")
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


# CSV and TSV, which have only text; names must keep their exact text.

UTF_8_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""How a file in UTF-16 begins, as spreadsheets write it."""
QUOTE_REMEDY = (
    'put a value that contains a quote in quotes, and double the quotes inside it ("a ""b"" c"), as pandas and '
    "csv.writer do, or remove the quote"
)
MAX_VALUE_BYTES = 2**31 - 1
"""Bytes of a value that Python's reader takes."""
START_BYTES = 2**16
BLOCK_BYTES = 2**20
MAX_BLOCK_BYTES = 2**30
"""Maximum number of bytes in a row."""
CODED = pa.dictionary(pa.int32(), pa.string())
Blocks = Iterable[bytes]
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


def parse_delimited(content: bytes, delimiter: str, where: str) -> pa.Table:
    """A table in memory, such as a file of an archive, all of whose columns may contain names."""
    quoted = check_quotes(lambda: [content.removeprefix(UTF_8_MARK)], delimiter, where)
    parse = pv.ParseOptions(delimiter=delimiter, newlines_in_values=quoted)
    with refusing(ARROW_ERRORS, f"{where}: cannot be read as a table: {{}}"):
        with pv.open_csv(pa.BufferReader(content), parse_options=parse) as reader:
            header = reader.schema.names
        refuse_repeated(header, where)
        convert = pv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()))
        table = pv.read_csv(pa.BufferReader(content), parse_options=parse, convert_options=convert)
    return pa.table({name: numbers_or_text(table[name], padded=is_padded(name)) for name in header})


# JSON Lines.


def read_json_lines(path: Path) -> pa.Table:
    """One JSON object per line. Texts stay texts, also those that look like times."""
    import pyarrow.json as pj

    check_json_lines(text_blocks(path, limits.JSON_BYTES), path)
    with pa.input_stream(str(path)) as stream:
        is_utf_8 = encoding_of(bytes(stream.read(3))) == "utf-8-sig"
    text = None if is_utf_8 else b"".join(text_blocks(path, limits.JSON_BYTES))

    def read(size: int | None, texts: Iterable[str] = ()) -> pa.Table:
        parse = pj.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in texts]))
        return pj.read_json(path if text is None else pa.BufferReader(text), pj.ReadOptions(block_size=size), parse)

    table = with_long_rows(read)
    times = [field.name for field in table.schema if pa.types.is_temporal(field.type)]
    if times:
        table = with_long_rows(partial(read, texts=times))
    table.validate(full=True)  # Arrow takes text that is not UTF-8
    return table


# Columns of names: which types can be names of tasks, annotators and classes, and what they become.

_BYTES = ("binary", "large_binary", "fixed_size_binary", "binary_view")
_NO_NAMES = ("time", "duration", "interval", "run_end_encoded", "union")


def _as_names(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """A column whose values can be names that a model folder can store; others are an error.

    Bytes and decimals become text, decimals without places integers; lists are left to the encoder, which shows one.
    """
    kind = column.type
    if any(getattr(pa.types, f"is_{name}")(kind) for name in _BYTES):
        with refusing(ARROW_ERRORS, f"{where} is not UTF-8 text ({{}})"):
            return column.cast(pa.binary()).cast(pa.string())
    if pa.types.is_decimal(kind):
        with refusing(ARROW_ERRORS, f"{where} contains {kind}: {{}}; convert it to text"):
            return column.cast(pa.int64() if kind.scale == 0 and kind.precision < 19 else pa.string())
    if any(getattr(pa.types, f"is_{name}")(kind) for name in _NO_NAMES):
        raise InputError(f"{where} contains {kind}, which cannot be names; convert it to text or whole numbers")
    if pa.types.is_temporal(kind):
        with refusing(VALUE_ERRORS, f"{where} contains dates that do not exist ({{}}); correct them"):
            column.unique().to_pylist()
    return column


def map_names(column: pa.ChunkedArray, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> pa.ChunkedArray:
    """A column with every distinct name changed; for a plain column, every value."""
    if not pa.types.is_dictionary(column.type):
        return change(column)
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no rows, or too much text for one array
        return change(column.cast(column.type.value_type))
    names = change(pa.chunked_array([whole.dictionary])).combine_chunks()
    if isinstance(names, pa.ChunkedArray):
        names = names.chunk(0) if names.num_chunks else pa.array([], type=names.type)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(whole.indices, names)])


def decoded(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Convert bytes, which Arrow returns for text in another encoding, to text; refuse what cannot be names."""
    return map_names(column, partial(_as_names, where=where))


def blank_to_null(column: pa.ChunkedArray, rule: Rule | None = None) -> pa.ChunkedArray:
    """Blank text becomes null, or every text that is missing by the ``rule``."""
    if pa.types.is_dictionary(column.type):
        return map_names(column, partial(blank_to_null, rule=rule))
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    is_missing = rule or missing_rule(missing="")
    missing = [name for name in column.unique().to_pylist() if name is not None and is_missing(name)]
    if not missing:
        return column
    found = pc.is_in(column, value_set=pa.array(missing, type=column.type))
    return pc.if_else(found, pa.scalar(None, type=column.type), column)


def coerce_classes(classes: Sequence[Any] | Names | None, labels: Names) -> list[Any] | None:
    """Classes given as text, as a command line does, in the type of the labels."""
    if classes is None:
        return None
    if not all(isinstance(name, str) for name in classes):
        return list(classes)
    try:
        if labels.dtype.kind in "iuf":
            return [float(name) if "." in name else int(name) for name in classes]
        if labels.dtype.kind == "b":
            return [{"true": True, "false": False}[name.lower()] for name in classes]
    except (ValueError, KeyError):
        raise InputError(f"classes {examples(classes)} do not have the type of the labels ({labels.dtype})") from None
    return list(classes)


# Writing.

BATCH = 10_000
"""Rows that are turned into Python objects at a time."""


def write_annotations(annotations: Annotations, path: str | PathLike[str]) -> None:
    """Write columns task, worker, label; the format follows the ending."""
    write_table(annotation_rows(annotations), path)


def annotation_rows(annotations: Annotations) -> pa.Table:
    """Columns task, worker and label, a row per annotation; abstentions come last, by the words for them."""
    table, abstained = annotations.to_table(), annotations.abstentions
    if abstained is None or not abstained.n_annotations:
        return table
    tables = table, abstained.to_table()
    if len({each["label"].type for each in tables}) > 1:  # numbers, and words for abstentions
        at = table.column_names.index("label")
        tables = tuple(each.set_column(at, "label", text_column(each["label"])) for each in tables)
    return pa.concat_tables(tables)


def write_table(table: pa.Table, path: str | PathLike[str]) -> None:
    """Write a table in the format of the path's ending, atomically."""
    write_tables({Path(path): table})


def write_tables(tables: Mapping[Path, pa.Table], texts: Mapping[Path, str] | None = None) -> None:
    """Write tables, and texts such as a page; all are complete before the first is put into place, texts first."""
    texts = texts or {}
    with atomic_files([*texts, *tables]) as temporaries:
        for text, temporary in zip(texts.values(), temporaries, strict=False):
            temporary.write_text(text, encoding="utf-8")
        for (path, table), temporary in zip(tables.items(), temporaries[len(texts) :], strict=True):
            fill_table(table, temporary, path)


def fill_table(table: pa.Table, temporary: Path, path: Path | None = None) -> None:
    """Write a table to a temporary place, in the format of the ``path`` that it will have, if that is another one."""
    path = temporary if path is None else path
    kind = file_kind(path, None)
    try:
        _WRITERS[kind](table, temporary)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{path}: this table cannot be written as {kind}: {error}") from error


def _write_delimited(table: pa.Table, path: Path, delimiter: str) -> None:
    """Write a table with quotes only where some value needs them: Arrow would put them around every text.

    Truth values are spelled True and False, as in the names of columns; Arrow writes true and false.
    """
    columns = [text_column(column) if pa.types.is_boolean(column.type) else column for column in table.columns]
    header = io.StringIO(newline="")
    csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(table.column_names)
    for quotes in ("none", "needed"):
        options = pv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style=quotes)
        try:
            with path.open("wb") as file:
                file.write(header.getvalue().encode())
                pv.write_csv(pa.Table.from_arrays(columns, names=table.column_names), file, options)
            return
        except pa.ArrowInvalid:  # a value contains a delimiter, a quote or a line end
            if quotes == "needed":
                raise


def _write_parquet(table: pa.Table, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path)


def _write_jsonl(table: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for batch in table.to_batches(max_chunksize=BATCH):  # all rows at once would be many Python objects
            file.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in batch.to_pylist())


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    **{kind: partial(_write_delimited, delimiter=mark) for kind, mark in DELIMITERS.items()},
    "parquet": _write_parquet,
    "jsonl": _write_jsonl,
}
