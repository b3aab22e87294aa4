"""Features from ``.npy`` (memory-mapped), ``.npz``, ``.parquet`` and ``.csv``, with task ids where there are some."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.alignment import RowIndex, check_unique_ids
from conal.data.cleaning import drop_blank_names
from conal.data.encoding import MISSING, Names, encode
from conal.data.frames import find_column, is_name_column, open_frame
from conal.errors import DataWarning, InputError, examples, warn
from conal.io.arrow_files import open_parquet, read_columns, table_batches
from conal.io.delimited import refuse_line_ends
from conal.io.numpy_files import map_npy, read_npz
from conal.io.tables import check_readable, decoded, pandas_index, read_first_row, read_table

# Features from Parquet, a batch of rows at a time: never two copies in memory, and a mapped file for large data.

FloatRows = npt.NDArray[Any]

SPILL_BYTES = 2**30
"""Larger features go to a temporary file that is mapped into memory; the system pages it in and out."""


def fill_rows(path: Path, columns: list[str], convert: Callable[[pa.Table], FloatRows]) -> FloatRows:
    """(n, ...) all rows of these columns, ``convert`` giving those of one batch."""
    with open_parquet(path) as file:
        n_rows, start = file.metadata.num_rows, 0
    rows: FloatRows | None = None
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
    if rows is None:
        raise InputError(f"{path}: has columns but no rows")
    return rows


def _room(shape: tuple[int, ...], kind: np.dtype[Any]) -> FloatRows:
    """Memory for this many rows, or a mapped temporary file, which ends with the process."""
    if kind.itemsize * math.prod(shape) <= SPILL_BYTES:
        return np.empty(shape, dtype=kind)
    with tempfile.TemporaryFile(prefix="conal-features-") as file:  # the map keeps it alive
        return np.memmap(file, dtype=kind, mode="r+", shape=shape)


# Features from ``.npy`` (memory-mapped), ``.npz``, ``.parquet`` and ``.csv``, with task ids where there are any.

CHUNK_BYTES = 8 * 2**20
DIGITS_LOST = 1e-4
"""Rounding to single precision, in deviations of a column, from which a table stays in double precision."""
FEW = 10
"""Rows below which any feature may look like ids."""
HEAD = 1000
"""Rows by which most features are told from ids, before all are looked at."""
ROW_NUMBERS = r"(unnamed: \d+|index|level_\d+|row|row_?(id|number)|id)$"
"""What pandas and databases call the column that numbers the rows."""
DECIMAL_COMMA = r"^\s*[-+]?[0-9]*,[0-9]+([eE][-+]?[0-9]+)?\s*$"
NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"


@dataclass(frozen=True)
class FeatureTable:
    """Feature rows, with ids and column names if there are any.

    Attributes
    ----------
    values : (n, ...) array
        One row per task; a memory map where the file allows it.
    ids : (n,) array or None
        Task ids, where the source carries any; a :class:`~conal.data.alignment.RowIndex` where they may be.
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
    path: str | PathLike[str], *, task: str | None = None, fallback_to_aliases: bool = False, check: bool = True
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
    return _checked(table, check)


def features_from(values: Any, *, task_ids: Any = None, where: str = "features", check: bool = True) -> FeatureTable:
    """Features from an array, a DataFrame (a task or id column gives the ids) or a :class:`FeatureTable`."""
    if isinstance(values, FeatureTable):
        table = values
    elif hasattr(values, "columns") and not isinstance(values, np.ndarray):
        table = _from_arrow(frame_to_arrow(values, where), None, where)
        if table.ids is None and task_ids is None:
            _warn_of_ids(table)
            table = replace(table, ids=_row_index(values, where))
    elif hasattr(values, "toarray"):
        raise InputError(f"{where}: is a sparse matrix; pass X.toarray(), or fewer dimensions (TruncatedSVD)")
    elif np.ma.is_masked(values):
        raise InputError(f"{where}: {int(np.ma.getmaskarray(values).sum()):,} values are masked; impute or remove them")
    else:
        table = FeatureTable(np.asanyarray(values), where=where)
    if task_ids is not None:
        table = replace(table, ids=ids_from(task_ids, table.where))
    return _checked(table, check)


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


def _checked(table: FeatureTable, check: bool) -> FeatureTable:
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
    if check and not table.checked:
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
    head = read_first_row(path)
    task_column, names = _layout(head, task, where, fallback_to_aliases)
    ids = None if task_column is None else ids_from(read_columns(path, "parquet", [task_column])[task_column], where)
    values = fill_rows(path, list(names), lambda batch: _values(batch, names, where))
    _warn_of_names(names, where)
    return FeatureTable(values, ids, () if _is_list(head, names) else names, where)


def _from_arrow(table: pa.Table, task: str | None, where: str, fallback_to_aliases: bool = False) -> FeatureTable:
    task_column, names = _layout(table, task, where, fallback_to_aliases)
    ids = None if task_column is None else ids_from(table[task_column], where)
    values = _values(table, names, where)
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


def _warn_of_ids(table: FeatureTable) -> None:
    """Ids under another name would be a feature, and rows would be tasks in whatever order they are."""
    if len(table) < FEW or len(table.columns) < 2:
        return
    columns = zip(table.columns, table.values.T, strict=True)
    ids = [name for name, values in columns if may_be_ids(values) and np.ptp(values) == len(table) - 1]
    if ids:
        warn(
            f"{table.where}: numbers the rows in {examples(ids)}, which becomes a feature, while the rows are tasks in "
            "their present order; if these are task ids, call the column 'task'",
            DataWarning,
        )


def may_be_ids(values: npt.NDArray[Any]) -> bool:
    """Whether these are whole numbers of which none occurs twice, at least at the beginning.

    >>> may_be_ids(np.array([3.0, 1.0, 2.0])), may_be_ids(np.array([3.0, 1.0, 1.0])), may_be_ids(np.array([0.5, 1.0]))
    (True, False, False)
    """
    head = values[:HEAD]
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
    with np.errstate(over="ignore", invalid="ignore"):  # infinities and NaN are told of later
        single = values.astype(np.float32)
        lost = np.abs(values - single).mean(0) > DIGITS_LOST * values.std(0)
    return values if np.any(lost) else single


def _no_numbers(column: pa.ChunkedArray) -> str:
    """What is wrong with a column that has another type: a few cells, or all of it."""
    import pyarrow.compute as pc

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        wrong = pc.fill_null(pc.invert(pc.match_substring_regex(column, NUMBER)), False)
        n_wrong = pc.sum(wrong).as_py()
        commas = pc.fill_null(pc.match_substring_regex(column, DECIMAL_COMMA), False)
        if n_wrong and pc.sum(commas).as_py() == n_wrong:
            row = pc.index(commas, True).as_py()
            return (
                f"has decimal commas, such as {column[row].as_py()!r} in row {row} (rows count from 0); write decimal "
                "points, or read it with pandas.read_csv(..., decimal=',') and save it again"
            )
        if n_wrong and n_wrong <= len(column) // 2:
            row = pc.index(wrong, True).as_py()
            return (
                f"has {column[row].as_py()!r} in row {row}, where a number is expected ({n_wrong:,} of {len(column):,} "
                "rows have none; rows count from 0); correct them"
            )
    return f"contains {column.type}, not numbers; remove it, encode it, or if it is the task id, call it 'task'"


def _list_column(column: pa.ChunkedArray, where: str) -> npt.NDArray[Any]:
    import pyarrow.compute as pc

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
