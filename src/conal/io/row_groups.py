"""Features from Parquet, a batch of rows at a time: never two copies in memory, and a mapped file for large data."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.errors import InputError
from conal.io.parquet_files import open_parquet, parquet_batches

__all__ = ["fill_rows"]

FloatRows = npt.NDArray[Any]

SPILL_BYTES = 2**30
"""Larger features go to a temporary file that is mapped into memory; the system pages it in and out."""


def fill_rows(path: Path, columns: list[str], convert: Callable[[pa.Table], FloatRows]) -> FloatRows:
    """(n, ...) all rows of these columns, ``convert`` giving those of one batch."""
    with open_parquet(path) as file:
        n_rows, start = file.metadata.num_rows, 0
    rows: FloatRows | None = None
    for batch in parquet_batches(path, columns):
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
