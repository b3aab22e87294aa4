"""Parquet, a batch of rows at a time: every batch is checked, and what all of them take has a limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from conal.errors import InputError
from conal.io.limits import ARRAY_BYTES, refuse_bomb, unpacked_limit
from conal.io.name_types import check_field_names, without_extensions, without_views
from conal.io.refusals import ARROW_ERRORS, refusing

__all__ = ["open_parquet", "parquet_batches", "read_parquet"]

BATCH_ROWS = 2**16
CODE_BYTES = 4
"""What a value takes at least: a 32-bit code, or a number in single precision."""


@contextmanager
def open_parquet(path: Path, **options: Any) -> Iterator[Any]:
    """The file; one that Arrow cannot open is an error with the words of :func:`conal.io.read_table`."""
    import pyarrow.parquet as pq

    with refusing(ARROW_ERRORS, _message(path)):
        file = pq.ParquetFile(path, **options)
        check_field_names(file.schema_arrow)
    with file:
        yield file


def parquet_batches(path: Path, file: Any, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most this many rows. A small file may promise many values, because equal ones take no room."""
    limit = unpacked_limit(path.stat().st_size, ARRAY_BYTES)
    if file.metadata.num_rows * len(columns) * CODE_BYTES > limit:
        refuse_bomb(path, limit)
    total = found = 0
    with refusing(ARROW_ERRORS, _message(path)):
        for batch in file.iter_batches(rows, columns=list(columns)):
            batch.validate(full=True)  # text that is not UTF-8, and codes and lists beyond the values
            total += batch.nbytes
            found += batch.num_rows
            if total > limit:
                refuse_bomb(path, limit)
            if found > file.metadata.num_rows:
                break
            yield without_views(without_extensions(batch))
    if found != file.metadata.num_rows:
        count = "more" if found > file.metadata.num_rows else f"{found:,}"
        raise InputError(f"{path}: says that it has {file.metadata.num_rows:,} rows, and has {count}; write it again")


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """These columns, or all."""
    with open_parquet(path) as file:
        schema = file.schema_arrow
        wanted = schema.names if columns is None else columns
        batches = list(parquet_batches(path, file, wanted, BATCH_ROWS))
    return pa.Table.from_batches(batches, None if batches else schema)


def _message(path: Path) -> str:
    return f"{path}: cannot be read as parquet: {{}}. Check the file, or set its format with format= (--format)"
