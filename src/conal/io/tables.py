"""Tables in all formats through Arrow: CSV, TSV, Parquet, Arrow, Excel, JSON Lines; annotations from them and back."""

from __future__ import annotations

import json
import math
import re
import sys
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.lib import format as npy

from conal._files import atomic_files
from conal.data.annotations import Annotations
from conal.data.cleaning import Rule, missing_rule, words_among
from conal.data.encoding import Names, text_column
from conal.data.frames import NAME_ROLES, find_columns, find_first, is_name_column
from conal.errors import DataWarning, InputError, examples, warn
from conal.io.arrow_files import (
    as_names_or_refuse,
    class_names,
    is_saved_dataset,
    map_names,
    read_columns,
    table_batches,
    table_schema,
    with_class_names,
)
from conal.io.delimited import (
    Choose,
    name_with_line_end,
    read_delimited,
    read_json_lines,
    refuse_repeated,
    write_delimited,
)
from conal.io.excel_files import read_excel
from conal.io.limits import (
    ARRAY_BYTES,
    ARROW_ERRORS,
    COMPRESSED,
    NUMPY_ERRORS,
    ZIP_ERRORS,
    check_depth,
    first_line,
    refuse_bomb,
    refusing,
    unpacked_limit,
)

# Names that spreadsheets take for formulas. conal never changes a name, so it tells users about them.

_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FORMULA_REMEDY = "open CSV files of these names in a spreadsheet by importing the columns as text, or use Parquet"


def formulas_among(names: Names | Iterable[object]) -> list[str]:
    """Names that begin like a formula and are no numbers.

    >>> formulas_among(["=1+1", "-1", "@ann", "a-b"])
    ['=1+1', '@ann']
    """
    if isinstance(names, np.ndarray) and names.dtype != object:
        return []
    texts = (name for name in names if isinstance(name, str) and _FORMULA.match(name) and len(name) > 1)
    return [name for name in texts if not _NUMBER.fullmatch(name)]


def warn_of_formulas(tables: Mapping[Path, pa.Table], where: object = None) -> None:
    """Warn once if a spreadsheet would calculate some names in the tables that are text files."""
    texts = {path: table for path, table in tables.items() if file_kind(path, None) in UNTYPED}
    found = list(dict.fromkeys(name for table in texts.values() for name in _formulas_in(table)))
    if found:
        place = where or next(iter(texts))
        warn(
            f"{place}: spreadsheets take {len(found):,} names for formulas: {examples(found)}; {FORMULA_REMEDY}",
            DataWarning,
        )


def _formulas_in(table: pa.Table) -> list[str]:
    import pyarrow.compute as pc

    found = formulas_among(table.column_names)
    for column in table.columns:
        if pa.types.is_string(column.type):
            suspects = column.filter(pc.match_substring_regex(column, f"^{_FORMULA.pattern}"))
            found += formulas_among(suspects.unique().to_pylist())
    return found


# CSV, TSV, Parquet, Arrow, Excel and JSON Lines through Arrow, and annotations from them and back.

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
CODED_ROWS = 2**20
"""Rows that become codes at a time."""
UNNAMED_INDEX = re.compile(r"__index_level_\d+__$")
"""What pandas calls an index without a name in Parquet files."""
BATCH = 10_000
"""Rows that are turned into Python objects at a time."""


def write_annotations(annotations: Annotations, path: str | PathLike[str]) -> None:
    """Write columns task, worker, label; the format follows the ending."""
    write_table(annotation_rows(annotations), path)
    warn_of_words(annotations, path)


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


def warn_of_words(annotations: Annotations, path: str | PathLike[str]) -> None:
    """Warn of names that are not read back: words for "missing", and names with line ends in a text table."""
    names = (annotations.task_ids, annotations.annotator_ids, annotations.classes)
    if file_kind(Path(path), None) in UNTYPED and any(name_with_line_end(each) is not None for each in names):
        warn(f"{path}: some names contain line ends, which are not read from text tables; use Parquet", DataWarning)
    words = words_among(annotations.classes)
    if words:
        warn(
            f"{path}: classes {examples(words)} are read as missing labels; read it with missing='' (--set missing=)",
            DataWarning,
        )


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
        return [name for name in header if name in given or is_name_column(name, roles)]

    def fits(header: Sequence[str]) -> bool:
        return given <= set(header) and bool(choose(header))

    table = _read(Path(path), format, choose, fits)
    for name, classes in class_names(table.schema).items():
        place = table.schema.get_field_index(name)
        if place >= 0:
            named = with_class_names(table[name], classes, f"{path}: column {name!r}")
            table = table.set_column(place, name, named)
    return table


def read_roles(path: Path, format: str | None, wanted: Mapping[str, str | None]) -> dict[str, pa.ChunkedArray]:  # noqa: A002
    """The column of each role as Arrow dictionaries, that is 32-bit codes and distinct names, batch by batch.

    If the table has a column of times, it is there too, as "time".
    """
    found: dict[str, str] = {}

    def choose(header: Sequence[str]) -> list[str]:
        _refuse_wide(path, header, wanted)
        found.update(find_columns(header, wanted, str(path)))
        time = find_first([name for name in header if name not in found.values()], "time")
        found.update({} if time is None else {"time": time})
        return list(found.values())

    def fits(header: Sequence[str]) -> bool:
        try:
            return bool(choose(header))
        except InputError:
            return False

    table = _read(path, format, choose, fits, coded=True)
    pa.default_memory_pool().release_unused()  # what parsing took, before the codes are sorted
    classes = class_names(table_schema(path, table_kind(path, format)))

    def named(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
        where = f"{path}: column {name!r}"
        return with_class_names(column, classes[name], where) if name in classes else decoded(column, where)

    times = {"time": table[found.pop("time")]} if "time" in found else {}
    return {role: map_names(table[name], partial(named, name=name)) for role, name in found.items()} | times


def _refuse_wide(path: Path, header: Sequence[str], wanted: Mapping[str, str | None]) -> None:
    """Refuse a table without any of the wanted columns, which may have a column per annotator."""
    unknown = not any(is_name_column(name, wanted) for name in header)
    if len(header) > 2 and unknown and not any(wanted.values()):
        roles = ", ".join(map(repr, wanted))
        raise InputError(
            f"{path}: no column for the task; it has {', '.join(map(repr, header))}. If a row is one label, call the "
            f"columns {roles}, or set task= (--task-column) and so on; if a row is a task and a column an annotator, "
            f"pass format='wide' (--set format=wide) and task={header[0]!r} (--task-column {header[0]!r})"
        )


def _read(
    path: Path,
    format: str | None,  # noqa: A002
    choose: Choose,
    fits: Callable[[Sequence[str]], bool],
    *,
    coded: bool = False,
) -> pa.Table:
    """The table, whose columns of names are chosen by its header; with ``coded``, these as dictionaries, and no others.

    A batch becomes codes before the next one is read. Of several sheets of a workbook, that is read whose header fits.
    """
    kind = table_kind(path, format)
    check_readable(path)

    def checked(header: Sequence[str]) -> Sequence[str]:
        _check_header(path, kind, header)
        return choose(header)

    with _refusing_damage(path, kind):
        table = _load(path, kind, checked, fits, coded)
    if not table.num_rows:
        raise InputError(f"{path}: has a header ({', '.join(map(repr, table.column_names))}) but no rows")
    return table


def _load(path: Path, kind: str, choose: Choose, fits: Callable[[Sequence[str]], bool], coded: bool) -> pa.Table:
    if kind in DELIMITERS:
        return read_delimited(path, DELIMITERS[kind], choose, coded=coded)
    if kind in ("parquet", "arrow"):
        columns = list(choose(table_schema(path, kind).names))
        if not coded:
            return read_columns(path, kind)
        batches = table_batches(path, kind, columns, CODED_ROWS, coded=True)
    else:
        table = read_excel(path, fits) if kind == "xlsx" else read_json_lines(path)
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


@contextmanager
def _refusing_damage(path: Path, kind: str) -> Iterator[None]:
    """Errors of Arrow in words for users."""
    try:
        yield
    except ARROW_ERRORS as error:
        reason = first_line(error)
        if "UTF8" in reason:
            raise InputError(f"{path}: is not UTF-8 text ({reason}); save the file as UTF-8") from error
        raise InputError(
            f"{path}: cannot be read as {kind}: {reason}. Check the file, or set its format "
            "with format= (--set format=NAME)"
        ) from error


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


def write_table(table: pa.Table, path: str | PathLike[str]) -> None:
    """Write a table in the format of the path's ending, atomically."""
    write_tables({Path(path): table})


def write_tables(tables: Mapping[Path, pa.Table], texts: Mapping[Path, str] | None = None) -> None:
    """Write tables, and texts such as a page; all are complete before the first is put into place, texts first."""
    warn_of_formulas(tables)
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


def pandas_index(schema: pa.Schema) -> list[str]:
    """The columns of a Parquet file that were a pandas index: those that its metadata name, and unnamed ones."""
    named = [name for name in _described_index(schema) if isinstance(name, str)]  # a range of row numbers is no column
    return [name for name in schema.names if name in named or UNNAMED_INDEX.match(name)]


def _described_index(schema: pa.Schema) -> list[Any]:
    """The index that pandas describes in the metadata; empty if these are damaged."""
    text = (schema.metadata or {}).get(b"pandas", b"{}")
    try:
        check_depth(text, "the metadata")
        described = json.loads(text)
    except ValueError:
        return []
    index = described.get("index_columns") if isinstance(described, dict) else None
    return index if isinstance(index, list) else []


def read_matrix(path: Path) -> np.ndarray[Any, np.dtype[Any]]:
    """An annotation matrix from ``.npy``; pickled objects are rejected."""
    check_readable(path)
    matrix = read_npy(path)
    if not matrix.size:
        raise InputError(f"{path}: contains no label, its shape is {matrix.shape}")
    return matrix


def table_kind(path: Path, format: str | None) -> str:  # noqa: A002
    """The format of a table to read, which may be compressed: "csv" of ``a.csv.gz``."""
    if format is None and is_saved_dataset(path):
        return "arrow"
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
    if is_saved_dataset(path):
        return
    if path.is_dir():
        raise InputError(f"{path}: is a folder, expected a file")
    if not path.stat().st_size:
        raise InputError(f"{path}: is empty")


def decoded(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Convert bytes, which Arrow returns for text in another encoding, to text; refuse what cannot be names."""
    return map_names(column, partial(as_names_or_refuse, where=where))


def blank_to_null(column: pa.ChunkedArray, rule: Rule | None = None) -> pa.ChunkedArray:
    """Blank text becomes null, or every text that is missing by the ``rule``."""
    import pyarrow.compute as pc

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


def _write_parquet(table: pa.Table, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path)


def _write_jsonl(table: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for batch in table.to_batches(max_chunksize=BATCH):  # all rows at once would be many Python objects
            file.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in batch.to_pylist())


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    **{kind: partial(write_delimited, delimiter=mark) for kind, mark in DELIMITERS.items()},
    "parquet": _write_parquet,
    "jsonl": _write_jsonl,
}


# Arrays from ``.npy`` and ``.npz``; a header that promises more than the file has is refused.

Array = npt.NDArray[Any]

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def map_npy(path: Path) -> Array:
    """A ``.npy`` file, mapped into memory."""
    with path.open("rb") as file:
        _check_array_header(file, path.stat().st_size, path)
    with refusing(NUMPY_ERRORS, f"{path}: cannot be read as NumPy numbers or text: {{}}"):
        return npy.open_memmap(path, mode="r")


def read_npy(path: Path) -> Array:
    """A ``.npy`` file in memory."""
    with path.open("rb") as file:
        return _read_array(file, path.stat().st_size, path)


def read_npz(path: Path) -> dict[str, Array]:
    """Name to array of a ``.npz`` archive."""
    advice = "save it again with numpy.savez"
    broken = refusing(ZIP_ERRORS, f"{path}: cannot be read as a .npz archive: {{}}; {advice}")
    with broken, zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if not info.is_dir()]
        limit = unpacked_limit(path.stat().st_size, ARRAY_BYTES)
        if sum(info.file_size for info in members) > limit:
            refuse_bomb(path, limit)
        found = {}
        for info in members:
            with archive.open(info) as file:
                array = _read_array(file, info.file_size, f"{path}: {info.filename}")
            found[info.filename.removesuffix(".npy")] = array
        return found


def _read_array(file: IO[bytes], size: int, where: object) -> Array:
    _check_array_header(file, size, where)
    file.seek(0)
    with refusing((*NUMPY_ERRORS, *ZIP_ERRORS), f"{where}: cannot be read as NumPy numbers or text: {{}}"):
        array = np.asarray(npy.read_array(file, allow_pickle=False))
    if array.dtype.kind == "U":
        _check_characters(array, where)
    return array


def _check_characters(array: Array, where: object) -> None:
    """NumPy takes any 32 bits for a character; Python and UTF-8 do not."""
    codes = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    if (codes > sys.maxunicode).any() or ((codes >= 0xD800) & (codes < 0xE000)).any():
        raise InputError(f"{where}: contains characters that do not exist; the file is damaged, write it again")


def _check_array_header(file: IO[bytes], size: int, where: object) -> None:
    """Reject what the header promises and the file does not have; NumPy would take the memory first."""
    with refusing((*NUMPY_ERRORS, *ZIP_ERRORS), f"{where}: cannot be read as NumPy numbers or text: {{}}"):
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"version {version} of the format is for records")
        shape, _, kind = _HEADERS[version](file)
        start = file.tell()
    if kind.hasobject:
        raise InputError(f"{where}: cannot be read as NumPy numbers or text: it contains Python objects")
    expected = math.prod(shape) * max(1, kind.itemsize)
    if min(shape, default=0) < 0 or expected > size - start:
        raise InputError(
            f"{where}: cannot be read as NumPy numbers or text: {kind} of shape {shape} takes {expected:,} bytes, and "
            f"there are {size - start:,}; the file was cut off or damaged, write it again"
        )
