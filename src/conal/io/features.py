"""Arrays, features and texts of tasks, from files and frames; and whether rows without ids are tasks in this order."""

from __future__ import annotations

import math
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib import format as npy

from conal.data.cleaning import drop_blank_names
from conal.data.encoding import MISSING, Names, as_names, encode, spelling
from conal.data.frames import column_names, find_column, find_columns, is_name_column, open_frame
from conal.data.joining import RowIndex, check_unique_ids
from conal.errors import DataWarning, InputError, examples, warn
from conal.io import limits
from conal.io.binary_tables import open_parquet, read_columns, table_batches, table_schema
from conal.io.limits import ARROW_ERRORS, NUMPY_ERRORS, ZIP_ERRORS, refuse_bomb, refusing
from conal.io.tables import (
    UNTYPED,
    check_readable,
    decoded,
    pandas_index,
    read_table,
    refuse_line_ends,
    refuse_repeated,
    table_kind,
)

# Arrays from ``.npy`` and ``.npz``; a header that promises more than the file has is refused.

Array = npt.NDArray[Any]

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def map_npy(path: Path) -> Array:
    """A ``.npy`` file, mapped into memory."""
    with path.open("rb") as file:
        _check_array_header(file, path.stat().st_size, path)
    with _refusing_damage(path):
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
        limit = limits.unpacked_limit(path.stat().st_size, limits.ARRAY_BYTES)
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
    with _refusing_damage(where):
        array = np.asarray(npy.read_array(file, allow_pickle=False))
    if array.dtype.kind == "U":
        _check_characters(array, where)
    return array


def _refusing_damage(where: object) -> AbstractContextManager[None]:
    return refusing((*NUMPY_ERRORS, *ZIP_ERRORS), f"{where}: cannot be read as NumPy numbers or text: {{}}")


def _check_characters(array: Array, where: object) -> None:
    """NumPy takes any 32 bits for a character; Python and UTF-8 do not."""
    codes = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    if (codes > sys.maxunicode).any() or ((codes >= 0xD800) & (codes < 0xE000)).any():
        raise InputError(f"{where}: contains characters that do not exist; the file is damaged, write it again")


def _check_array_header(file: IO[bytes], size: int, where: object) -> None:
    """Reject what the header promises and the file does not have; NumPy would take the memory first."""
    with _refusing_damage(where):
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"version {version} of the format is for records")
        shape, _, kind = _HEADERS[version](file)
        start = file.tell()
        if kind.hasobject:
            raise ValueError("it contains Python objects")
    expected = math.prod(shape) * max(1, kind.itemsize)
    if min(shape, default=0) < 0 or expected > size - start:
        raise InputError(
            f"{where}: cannot be read as NumPy numbers or text: {kind} of shape {shape} takes {expected:,} bytes, and "
            f"there are {size - start:,}; the file was cut off or damaged, write it again"
        )


def read_matrix(path: Path) -> np.ndarray[Any, np.dtype[Any]]:
    """An annotation matrix from ``.npy``; pickled objects are rejected."""
    check_readable(path)
    matrix = read_npy(path)
    if not matrix.size:
        raise InputError(f"{path}: contains no label, its shape is {matrix.shape}")
    return matrix


# Features from Parquet, a batch of rows at a time: never two copies in memory, and a mapped file for large data.

SPILL_BYTES = 2**30
"""Larger features go to a temporary file that is mapped into memory; the system pages it in and out."""


def fill_rows(path: Path, columns: list[str], convert: Callable[[pa.Table], Array]) -> Array:
    """(n, ...) all rows of these columns, ``convert`` giving those of one batch."""
    with open_parquet(path) as file:
        n_rows, start = file.metadata.num_rows, 0
    rows: Array | None = None
    for batch in table_batches(path, "parquet", columns):
        part = convert(pa.Table.from_batches([batch]))
        if rows is None:
            rows = _room((n_rows, *part.shape[1:]), part.dtype)
        if part.shape[1:] != rows.shape[1:]:
            raise InputError(
                f"{path}: feature lists have {rows.shape[1]} and, from row {start}, {part.shape[1]} entries; "
                "they must be equally long"
            )
        if part.dtype.itemsize > rows.dtype.itemsize:  # these rows need double precision
            wider = _room(rows.shape, part.dtype)
            wider[:start] = rows[:start]
            rows = wider
        rows[start : start + len(part)] = part
        start += len(part)
    assert rows is not None  # noqa: S101 - who calls has seen a row
    return rows


def _room(shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    """Memory for this many rows, or a mapped temporary file, which ends with the process."""
    if kind.itemsize * math.prod(shape) <= SPILL_BYTES:
        return np.empty(shape, dtype=kind)
    with tempfile.TemporaryFile(prefix="conal-features-") as file:  # the map keeps it alive
        return np.memmap(file, dtype=kind, mode="r+", shape=shape)


# Features from ``.npy`` (memory-mapped), ``.npz``, ``.parquet`` and ``.csv``, with task ids where there are any.

CHUNK_BYTES = 8 * 2**20
MAX_ROUNDING_LOSS = 1e-4
"""Rounding to single precision, in deviations of a column, from which a table stays in double precision."""
MIN_ROWS_OF_IDS = 10
"""Rows below which any feature may look like ids."""
HEAD_ROWS = 1000
"""Rows by which most features are distinguished from ids, before all are looked at."""
ROW_NUMBERS = r"(unnamed: \d+|index|level_\d+|row|row_?(id|number)|id)$"
"""What pandas and databases call the column that numbers the rows."""
NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"


@dataclass(frozen=True)
class FeatureTable:
    """Feature rows, with ids and column names if there are any.

    Attributes
    ----------
    values : (n, ...) array
        One row per task; a memory map where the file allows it.
    ids : (n,) array or None
        Task ids, where the source carries any; a :class:`~conal.data.joining.RowIndex` where they may be.
    columns : tuple of str
        Names of the feature columns; empty for bare arrays.
    where : str
        How messages name the source.
    checked : bool
        Whether all values are known to be usable: a large file need not be read twice to find out.
    """

    values: npt.NDArray[Any]
    ids: Names | None = None
    columns: tuple[str, ...] = ()
    where: str = "features"
    checked: bool = False

    def __len__(self) -> int:
        return len(self.values)


def read_features(
    path: str | PathLike[str], *, task: str | None = None, fallback_to_aliases: bool = False
) -> FeatureTable:
    """Read features; NaN and infinities are an error that names row and column.

    ``.npz`` contains the array as ``X``, ``features`` or its only array, and ids, if any, as ``task``, ``task_ids``,
    ``id`` or ``ids``. Tables contain ids in the column named by ``task``, or in one that is called like it (``task``,
    ``id``, ...) if none was named or, with ``fallback_to_aliases``, if there is none of that name; every other column
    is a feature, or one column of equally long lists is the whole feature vector.
    """
    path = Path(path)
    check_readable(path)
    kind = path.suffix.lower()
    if kind == ".npy":
        table = FeatureTable(map_npy(path), where=str(path))
    elif kind == ".npz":
        table = _read_npz(path)
    elif kind in (".parquet", ".pq"):
        table = _read_parquet(path, task, fallback_to_aliases)
    elif kind in (".csv", ".tsv", ".tab"):
        table = _from_arrow(read_table(path, names=(task,), roles=("task",)), task, str(path), fallback_to_aliases)
        refuse_line_ends(path, task=table.ids)
    else:
        raise InputError(f"{path}: unknown kind of features {kind!r}; use .npy, .npz, .parquet or .csv")
    return _checked(table)


def features_from(values: Any, *, task_ids: Any = None, where: str = "features") -> FeatureTable:
    """Features from an array, a DataFrame (a task or id column gives the ids) or a :class:`FeatureTable`."""
    if isinstance(values, FeatureTable):
        table = values
    elif hasattr(values, "columns") and not isinstance(values, np.ndarray):
        table = _from_arrow(frame_to_arrow(values, where), None, where)
        if table.ids is None and task_ids is None:
            table = replace(table, ids=_row_index(values, where))
    elif hasattr(values, "toarray"):
        raise InputError(f"{where}: is a sparse matrix; pass X.toarray(), or fewer dimensions (TruncatedSVD)")
    elif np.ma.is_masked(values):
        raise InputError(f"{where}: {int(np.ma.getmaskarray(values).sum()):,} values are masked; impute or remove them")
    else:
        table = FeatureTable(np.asanyarray(values), where=where)
    if task_ids is not None:
        table = replace(table, ids=ids_from(task_ids, table.where))
    return _checked(table)


def _row_index(frame: Any, where: str) -> RowIndex | None:
    """The index of a pandas frame, unless it only numbers the rows or has a value twice, as after a bootstrap."""
    index: Any = getattr(frame, "index", None)
    if getattr(index, "nlevels", None) != 1 or not index.is_unique or index.hasnans:
        return None
    try:
        values = ids_from(list(index), where)
    except InputError:  # blank text
        return None
    return None if np.array_equal(values, np.arange(len(values))) else RowIndex.of(values)


def ids_from(values: Any, where: str) -> Names:
    """Ids in the order of the rows, encoded as in annotations; a row without an id is an error."""
    if isinstance(values, pa.ChunkedArray):
        values = decoded(values, f"{where}: the id column")
    try:
        codes, names = drop_blank_names(encode(values))
    except InputError as error:
        raise InputError(f"{where}: ids: {error}") from error
    missing = np.flatnonzero(codes == MISSING)
    if len(missing):
        raise InputError(
            f"{where}: {len(missing):,} rows have no id, the first is row {missing[0] + 1}; pass one per row"
        )
    return names[codes]


def check_finite(table: FeatureTable) -> None:
    """Reject NaN, infinity and values beyond single precision; a memory map is read in chunks."""
    if table.values.dtype.kind != "f":
        return
    for start, chunk in _chunks(table.values):
        bad = _unusable(chunk)
        if not bad.any():
            continue
        row, *rest = (int(k) for k in np.argwhere(bad)[0])
        column = repr(table.columns[rest[0]]) if table.columns else ", ".join(map(str, rest))
        rows = sum(int(_unusable(c).reshape(len(c), -1).any(1).sum()) for _, c in _chunks(table.values))
        raise InputError(
            f"{table.where}: {chunk[(row, *rest)]} in row {start + row}, column {column} "
            f"({rows:,} rows contain NaN, infinity or more than 3.4e38; rows count from 0); impute or remove them"
        )


def _unusable(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    bad: npt.NDArray[np.bool_] = ~(np.abs(values) <= np.finfo(np.float32).max)
    return bad


def _checked(table: FeatureTable) -> FeatureTable:
    values = table.values
    if values.dtype.kind not in "fiub":
        raise InputError(f"{table.where}: features must be numbers, found {values.dtype}; encode text first")
    if values.ndim < 2:
        raise InputError(f"{table.where}: expected rows x features, got shape {values.shape}; reshape to (n, 1)?")
    if not values.size:
        raise InputError(f"{table.where}: contains no features (shape {values.shape})")
    if table.ids is not None:
        if len(table.ids) != len(values):
            raise InputError(f"{table.where}: {len(table.ids):,} ids for {len(values):,} rows; pass one per row")
        check_unique_ids(table.ids, table.where)
    if not table.checked:
        check_finite(table)
        return replace(table, checked=True)
    return table


def _chunks(values: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    size = max(1, CHUNK_BYTES // max(1, values[:1].nbytes))
    for start in range(0, len(values), size):
        yield start, np.asarray(values[start : start + size])


def _read_npz(path: Path) -> FeatureTable:
    arrays = read_npz(path)
    ids_name = next((name for name in ("task", "task_ids", "id", "ids") if name in arrays), None)
    ids = None if ids_name is None else ids_from(arrays.pop(ids_name), str(path))
    name: str | None = next((name for name in ("X", "features") if name in arrays), None)
    if name is None and len(arrays) == 1:
        name = next(iter(arrays))
    if name is None:
        raise InputError(f"{path}: contains arrays {examples(arrays)}; call the features 'X' or 'features'")
    return FeatureTable(arrays[name], ids, where=str(path))


def frame_to_arrow(frame: Any, where: str) -> pa.Table:
    """A frame's columns; a pandas index is left out unless it is called like a task id."""
    if hasattr(frame, "reset_index"):
        is_id = isinstance(frame.index.name, str) and is_name_column(frame.index.name, ["task"])
        frame = frame.reset_index(drop=not is_id)
    return open_frame(frame, where).to_arrow()


def _read_parquet(path: Path, task: str | None, fallback_to_aliases: bool) -> FeatureTable:
    """Row group by row group."""
    where = str(path)
    refuse_repeated(table_schema(path, "parquet").names, path)
    first = next(table_batches(path, "parquet", rows=1), None)
    if first is None:
        raise InputError(f"{path}: has columns but no rows")
    head = pa.Table.from_batches([first])
    return _from_arrow(head, task, where, fallback_to_aliases, parquet=path)


def _from_arrow(
    table: pa.Table, task: str | None, where: str, fallback_to_aliases: bool = False, parquet: Path | None = None
) -> FeatureTable:
    """Features in a table; of a ``parquet`` file, the table is the first row, and the rest is read by batches."""
    task_column, names = _layout(table, task, where, fallback_to_aliases)
    ids = None
    if task_column is not None:
        named = table if parquet is None else read_columns(parquet, "parquet", [task_column])
        ids = ids_from(named[task_column], where)
    if parquet is None:
        values = _values(table, names, where)
    else:
        values = fill_rows(parquet, list(names), lambda batch: _values(batch, names, where))
    _warn_of_names(names, where)
    return FeatureTable(values, ids, () if _is_list(table, names) else names, where)


def _layout(
    table: pa.Table, task: str | None, where: str, fallback_to_aliases: bool
) -> tuple[str | None, tuple[str, ...]]:
    """The column of the ids, if there is one, and those of the features."""
    index = pandas_index(table.schema)  # no feature, but it may be the ids
    index = [name for name in index if name != task and not is_name_column(name, ["task"])]
    columns = [str(name) for name in table.column_names if name not in index]
    task_column = find_column(columns, "task", None if fallback_to_aliases and task not in columns else task, where)
    names = tuple(name for name in columns if name != task_column)
    if "" in names:
        raise InputError(
            f"{where}: a column has no name (a pandas index?); call it 'task' if it is the id, or remove it"
        )
    if not names:
        raise InputError(f"{where}: has ids but no feature columns")
    return task_column, names


def _warn_of_names(names: tuple[str, ...], where: str) -> None:
    """A classifier that sees labels learns to repeat them, and one that sees row numbers learns the order of a file."""
    labels = [name for name in names if is_name_column(name, ["label", "truth", "worker"])]
    if labels:
        warn(
            f"{where}: {examples(labels)} become features; remove labels and annotators, which give the answers away",
            DataWarning,
        )
    numbers = [name for name in names if re.match(ROW_NUMBERS, name, re.IGNORECASE)]
    if numbers:
        warn(
            f"{where}: {examples(numbers)} becomes a feature, and may only number the rows; remove it, or if it has "
            "the task ids, call it 'task'",
            DataWarning,
        )


def may_be_ids(values: npt.NDArray[Any]) -> bool:
    """Whether these are whole numbers of which none occurs twice, at least at the beginning.

    >>> may_be_ids(np.array([3.0, 1.0, 2.0])), may_be_ids(np.array([3.0, 1.0, 1.0])), may_be_ids(np.array([0.5, 1.0]))
    (True, False, False)
    """
    head = values[:HEAD_ROWS]
    return len(np.unique(head)) == len(head) and np.array_equal(values, np.floor(values))


def _values(table: pa.Table, names: tuple[str, ...], where: str) -> npt.NDArray[Any]:
    """(n, d) numbers, a column each, or one column of lists; doubles if single precision loses a column."""
    if _is_list(table, names):
        return _list_column(table[names[0]], where)
    return np.column_stack([_numeric_column(table[name], name, where) for name in names])


def _is_list(table: pa.Table, names: tuple[str, ...]) -> bool:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return len(names) == 1 and any(is_kind(table[names[0]].type) for is_kind in kinds)


def _numeric_column(column: pa.ChunkedArray, name: str, where: str) -> npt.NDArray[Any]:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    if not any(is_kind(column.type) for is_kind in kinds):
        raise InputError(f"{where}: column {name!r} {_no_numbers(column)}")
    return _halved(column.cast(pa.float64(), safe=False).to_numpy())


def _halved(values: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Single-precision numbers, which take half the memory; unless rounding says more than their differences do."""
    with np.errstate(over="ignore", invalid="ignore"):  # infinities and NaN are reported later
        single = values.astype(np.float32)
        lost = np.abs(values - single).mean(0) > MAX_ROUNDING_LOSS * values.std(0)
    return values if np.any(lost) else single


def _no_numbers(column: pa.ChunkedArray) -> str:
    """What is wrong with a column that has another type: a few cells, decimal commas, or all of it."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        wrong = pc.fill_null(pc.invert(pc.match_substring_regex(column, NUMBER)), False)
        n_wrong, row = pc.sum(wrong).as_py() or 0, pc.index(wrong, True).as_py()
        cell = column[row].as_py() if n_wrong else ""
        has_comma = re.fullmatch(NUMBER, cell.replace(",", ".", 1)) is not None
        if has_comma or 0 < n_wrong <= len(column) // 2:
            commas = "write decimal points, or read it with pandas.read_csv(..., decimal=',') and save it again"
            return (
                f"has {cell!r} in row {row}, where a number is expected ({n_wrong:,} of {len(column):,} rows "
                f"have none; rows count from 0); {commas if has_comma else 'correct them'}"
            )
    return f"contains {column.type}, not numbers; remove it, encode it, or if it is the task id, call it 'task'"


def _list_column(column: pa.ChunkedArray, where: str) -> npt.NDArray[Any]:
    widths = pc.min_max(pc.coalesce(pc.list_value_length(column), pa.scalar(0, pa.int32())))
    if widths["min"] != widths["max"]:
        raise InputError(
            f"{where}: feature lists have {widths['min']} to {widths['max']} entries; they must be equally long"
        )
    entries = pc.list_flatten(column)
    try:
        if pa.types.is_nested(entries.type):  # images, say
            return _halved(np.array(column.to_pylist(), dtype=np.float64))
        return _halved(entries.cast(pa.float64(), safe=False).to_numpy().reshape(len(column), -1))
    except (ValueError, TypeError, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{where}: feature lists must contain numbers only, equally many in each ({error})") from error


# Texts from CSV, TSV, Parquet, Arrow, Excel, JSON Lines and frames, one per task.


@dataclass(frozen=True)
class TextTable:
    """Texts and what is known about them.

    Attributes
    ----------
    texts : tuple of str
        One per task; "" where there is none.
    ids : (n,) array or None
        Task ids, where the source carries any.
    where : str
        How messages name the source.
    others : pyarrow.Table or None
        The other columns of a table without ids, which may be among them under another name.
    """

    texts: tuple[str, ...]
    ids: Names | None = None
    where: str = "texts"
    others: pa.Table | None = None

    @property
    def other_columns(self) -> tuple[str, ...]:
        """Names of the other columns."""
        return () if self.others is None else tuple(map(str, self.others.column_names))

    def __len__(self) -> int:
        return len(self.texts)


def read_texts(
    path: str | PathLike[str],
    *,
    text: str | None = None,
    task: str | None = None,
    format: str | None = None,  # noqa: A002
    fallback_to_aliases: bool = False,
) -> TextTable:
    """Read one text per task; a task may have several rows, as in a file of labels, if all contain the same text.

    Parameters
    ----------
    path : path
        CSV, TSV, Parquet, Arrow, Excel or JSON Lines.
    text, task : str, optional
        Column names, where they are not the usual ones (:data:`conal.data.frames.ALIASES`). Without a task column, row
        numbers are the ids.
    fallback_to_aliases : bool
        A file without the column named by ``task`` may have one of the usual names instead.
    """
    if format is None and Path(path).suffix.lower() == ".json":
        raise InputError(
            f"{path}: texts must be a table (CSV, TSV, Parquet, JSON Lines), or an export of a platform that is also "
            "the file of labels; write the texts as a table with a task column and a text column"
        )
    table = read_table(Path(path), format, (task, text), roles=("task", "text"))
    named = None if fallback_to_aliases and task not in table.column_names else task
    found = _texts_from_arrow(table, text, named, str(path))
    if table_kind(Path(path), format) in UNTYPED:
        refuse_line_ends(Path(path), task=found.ids)
    return found


def texts_of(table: pa.Table, *, text: str | None, where: str) -> TextTable:
    """Texts in a table of tasks, as an export of a platform contains them (:func:`conal.io.import_file`)."""
    return _texts_from_arrow(table, text, "task", where)


def is_text(values: Any) -> bool:
    """Whether these are texts: a :class:`TextTable`, a sequence of str, or a frame with a column of them."""
    if isinstance(values, TextTable | FeatureTable):
        return isinstance(values, TextTable)
    if column_names(values) is None:
        return _is_sequence_of_text(values)
    return _may_hold_text(values) and _text_column(frame_to_arrow(values, "features"), "features") is not None


def texts_from(values: Any, *, task_ids: Any = None, where: str = "texts") -> TextTable:
    """Texts from a list, an array, a Series, a frame with a text column, or a :class:`TextTable`."""
    if isinstance(values, TextTable):
        table = values
    elif column_names(values) is not None:
        arrow = frame_to_arrow(values, where)
        table = _texts_from_arrow(arrow, _text_column(arrow, where), None, where)
        if task_ids is None and len(table) >= MIN_ROWS_OF_IDS:
            warn_of_row_numbers(table)
    else:
        index = getattr(values, "index", None)  # a Series; of a list it is a method without a name
        named = is_name_column(getattr(index, "name", None) or "", ["task"])
        ids = ids_from(index, where) if named else None
        plain = values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else list(values)
        table = _one_per_task(plain, ids, where)
    return table if task_ids is None else replace(table, ids=ids_from(task_ids, where))


def _may_hold_text(frame: Any) -> bool:
    """A look at the types, so that large tables of numbers are not converted in vain."""
    import narwhals as nw

    kinds = (nw.String, nw.Categorical, nw.Enum, nw.Object)
    types = open_frame(frame, "features").schema.items()
    return any(isinstance(kind, kinds) and not is_name_column(name, ["task"]) for name, kind in types)


def _is_sequence_of_text(values: Any) -> bool:
    from conal.text import is_missing

    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_pylist()
    if not (isinstance(values, list | tuple | np.ndarray) or hasattr(values, "to_list")):  # a Series has it
        return False
    if getattr(values, "ndim", 1) != 1 or getattr(getattr(values, "dtype", None), "kind", "O") in "fiubc":
        return False
    found = (value for value in values if not is_missing(value))
    first = next(found, None)
    return isinstance(first, str) and all(isinstance(value, str) for value in found)


def _text_column(table: pa.Table, where: str) -> str | None:
    """A frame's column of text; None where it has none and is a table of numbers, or of something else."""
    names = [str(name) for name in table.column_names]
    task = find_column(names, "task", None, where)
    text = [name for name in names if name != task and _holds_text(table[name])]
    usual = [name for name in text if is_name_column(name, ["text"])]
    if not usual and len(text) != 1:
        return None
    numbers = [name for name in names if name != task and name not in text]
    if numbers and usual:
        raise InputError(
            f"{where}: has text in {examples(usual)} and other columns, {examples(numbers)}; "
            "pass the text (and the task ids) or the features, not both"
        )
    if numbers:
        return None
    return find_column(usual, "text", None, where) if usual else text[0]


def _holds_text(column: pa.ChunkedArray) -> bool:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _texts_from_arrow(table: pa.Table, text: str | None, task: str | None, where: str) -> TextTable:
    columns = [str(name) for name in table.column_names]
    column = find_columns(columns, {"text": text}, where)["text"]
    task_column = find_column([name for name in columns if name != column], "task", task, where)
    values = decoded(table[column], f"{where}: column {column!r}")
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_nested(values.type):
        raise InputError(
            f"{where}: column {column!r} contains {values.type}, not text; name another by --set text_column=NAME"
        )
    ids = None if task_column is None else ids_from(table[task_column], where)
    with refusing(
        ARROW_ERRORS,
        f"{where}: column {column!r} contains {values.type}, not text ({{}}); name another by --set text_column=NAME",
    ):
        texts = values.cast(pa.large_string()).to_pylist()
    found = _one_per_task(texts, ids, where)
    return found if ids is not None else replace(found, others=table.drop_columns([column]))


def _one_per_task(values: list[Any], ids: Names | None, where: str) -> TextTable:
    """Repeated tasks become one; two texts of one task are an error, an empty one beside another is not."""
    from conal.text import check_texts

    texts = check_texts(values)
    if ids is None:
        return TextTable(tuple(texts), None, where)
    found: dict[Any, str] = {}
    for row, (name, text) in enumerate(zip(ids.tolist(), texts, strict=True)):
        known = found.setdefault(name, text)
        if known != text and known.strip() and text.strip():
            raise InputError(
                f"{where}: task {name!r} has different texts, the second is in row {row + 1}: {_short(known)} and "
                f"{_short(text)}; pass one text per task"
            )
        if not known.strip():
            found[name] = text
    return TextTable(tuple(found.values()), as_names(found), where)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


# Features and texts without a column of ids: are their rows really the tasks, in this order?

ID_REMEDY = "call the column of ids 'task'"


def check_row_order(table: FeatureTable | TextTable, task_ids: Names) -> None:
    """Say that rows of a table without ids are taken for tasks by their numbers; an error where that cannot be meant.

    It cannot where a column has the ids of all tasks, or where no task is a row number. Bare arrays, which have no
    columns, are meant so.
    """
    columns = table.columns if isinstance(table, FeatureTable) else table.other_columns
    if table.ids is not None or not columns:
        return
    tasks = {spelling(name) for name in task_ids.tolist()}
    rows = [str(row) for row in range(len(table))]
    harmless = rows if isinstance(table, TextTable) or len(columns) == 1 else None  # else they would be a feature
    for name, values in _could_be_ids(table):
        if values != harmless and tasks <= set(values) and len(set(values)) == len(values):
            raise InputError(f"{table.where}: column {name!r} has the tasks' ids, but is not called so; {ID_REMEDY}")
    if tasks.isdisjoint(rows):
        raise InputError(
            f"{table.where}: has no column of task ids (it has {examples(columns)}), and tasks such as "
            f"{examples(task_ids[:1])} are no row numbers (0 to {len(rows) - 1:,}); {ID_REMEDY}"
        )
    numbers = f"0 to {len(rows) - 1:,}"
    warn(f"{table.where}: has no column of task ids; its rows are tasks {numbers}, in this order", DataWarning)


def warn_of_row_numbers(table: FeatureTable | TextTable, known: Sequence[str] = ()) -> None:
    """Say that row numbers stand for ids, where a column that is not used might have them.

    ``known`` are the columns of features that a model uses.
    """
    if table.ids is not None:
        return
    unused = [name for name, values in _could_be_ids(table) if name not in known and len(set(values)) == len(values)]
    if unused:
        warn(
            f"{table.where}: has no column of task ids, so that tasks are called 0 to {len(table) - 1:,}, and "
            f"{examples(unused)} counts for nothing; if these are the ids, {ID_REMEDY}",
            DataWarning,
        )


def _could_be_ids(table: FeatureTable | TextTable) -> Iterator[tuple[str, list[str]]]:
    """Columns as files spell them; of features those of whole numbers of which none occurs twice at the beginning."""
    if isinstance(table, TextTable):
        if table.others is not None:
            for name in table.others.column_names:
                yield name, [spelling(value) for value in table.others[name].to_pylist()]
        return
    for name, values in zip(table.columns, table.values.T if table.columns else (), strict=True):
        if may_be_ids(values):
            yield name, [str(int(value)) for value in values.tolist()]
