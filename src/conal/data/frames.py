"""Input of DataFrames (pandas, polars, Arrow) and matrices."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.encoding import unmasked
from conal.errors import InputError

__all__ = ["column_names", "frame_column", "is_arrow", "kind_of_frame", "matrix_cells", "open_frame", "to_frame"]

FRAMES = ("pandas", "polars", "modin", "cudf")
"""Libraries of frames, beside Arrow, whose frames are taken and given back."""


def is_arrow(data: Any) -> bool:
    """Whether this is an Arrow table."""
    return isinstance(data, pa.Table)


def column_names(data: Any) -> list[str] | None:
    """The names of a frame's columns; None if it is not a frame."""
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):
        raise InputError("a lazy frame has no rows yet; call .collect() on it")
    names = data.column_names if is_arrow(data) else getattr(data, "columns", None)
    return None if names is None else [str(name) for name in names]


def open_frame(frame: Any, where: str) -> Any:
    """A pandas or polars frame or an Arrow table, wrapped by narwhals; anything else is an error."""
    import narwhals as nw

    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InputError(f"{where}: {error}; pass a pandas or polars DataFrame or an Arrow table") from error
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"{where}: several columns have the same name: {' '.join(str(error).split())}") from error


def frame_column(series: Any) -> object:
    """A column as Arrow, or as a list of objects where Arrow has no type for them."""
    import narwhals as nw

    try:
        if series.dtype != nw.Object:  # polars hands Arrow the addresses of its objects, pandas makes lists of tuples
            column = series.to_arrow()
            if not isinstance(column.type, pa.BaseExtensionType):  # in which Arrow has the periods of pandas as numbers
                return column
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        pass  # mixed categories
    return series.to_list()


def matrix_cells(matrix: Any, where: str) -> npt.NDArray[Any]:
    """The cells of a matrix, with their types; None where they are masked."""
    try:
        if isinstance(matrix, np.ma.MaskedArray) or _has_masked_rows(matrix):
            return unmasked(np.ma.array(matrix))
        values = np.asarray(matrix)
    except ValueError as error:
        raise InputError(f"{where}: expected tasks x annotators, but the rows are not equally long") from error
    if values.dtype.kind in "US" and not isinstance(matrix, np.ndarray):
        return np.asarray(matrix, dtype=object)  # NumPy made text of the NaN and -1 among the labels
    if values.dtype.kind in "iuf" and isinstance(matrix, list | tuple):
        objects = np.asarray(matrix, dtype=object)
        if any(isinstance(cell, bool | np.bool_) for cell in objects.flat):
            return objects  # NumPy made numbers of the truth values
    return values


def _has_masked_rows(matrix: Any) -> bool:
    return isinstance(matrix, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in matrix)


def kind_of_frame(*inputs: Any) -> str | None:
    """The library of the first frame or series among the inputs, such as "pandas"; None if there is none.

    >>> kind_of_frame([1, 2], pa.table({"x": [1]}))
    'pyarrow'
    """
    import narwhals as nw

    for data in inputs:
        opened = nw.from_native(data, eager_only=True, allow_series=True, pass_through=True)
        if isinstance(opened, nw.DataFrame | nw.Series):
            return str(opened.implementation.value)
    return None


def to_frame(table: pa.Table, kind: str) -> Any:
    """An Arrow table as a frame of another library.

    >>> to_frame(pa.table({"x": [1, 2]}), "pandas")["x"].tolist()
    [1, 2]
    """
    import narwhals as nw

    if kind in ("arrow", "pyarrow"):
        return table
    if kind not in FRAMES:
        raise InputError(f"frame={kind!r}: there is no such kind of frame; use 'pandas', 'polars' or 'arrow'")
    try:
        return nw.from_arrow(table, backend=cast(Any, kind)).to_native()
    except ModuleNotFoundError as error:
        raise InputError(f"frame={kind!r}: {error.name} is not installed; install it, or use 'arrow'") from error
