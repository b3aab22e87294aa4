"""Parquet, a batch of rows at a time: what a batch takes is counted before its values are copied, and has a limit.

A file may have a value once and its number in every row, and few bytes may stand for many numbers. Text is therefore
read as codes and distinct values first, and the number of values in lists is that of the file's own index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from conal.errors import InputError
from conal.io.limits import VALUE_BYTES, Room, weight
from conal.io.name_types import check_field_names, without_extensions, without_views
from conal.io.refusals import ARROW_ERRORS, refusing

__all__ = ["open_parquet", "parquet_batches", "read_parquet"]

BATCH_ROWS = 2**16
BATCH_BYTES = 2**26
PREFIXED = "DELTA_BYTE_ARRAY"
"""The encoding in which a text says how much it shares with the one before: a few bytes may stand for a long one, and
Arrow cannot read it as codes."""
LEAST_PREFIXED_ROWS = 16
TEXT = "BYTE_ARRAY"


class Leaf(NamedTuple):
    """A column as Parquet stores it: lists and structs are taken apart."""

    place: int
    path: str
    kind: str
    width: int  # in bytes
    in_lists: bool


@contextmanager
def open_parquet(path: Path, **options: Any) -> Iterator[Any]:
    """The file; one that Arrow cannot open is an error with the words of :func:`conal.io.read_table`."""
    import pyarrow.parquet as pq

    with refusing(ARROW_ERRORS, _message(path)):
        file = pq.ParquetFile(path, **options)
        check_field_names(file.schema_arrow)
    with file:
        yield file


def parquet_batches(
    path: Path, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS, *, coded: bool = False
) -> Iterator[pa.RecordBatch]:
    """Batches of at most this many rows of these columns, or all.

    Parameters
    ----------
    coded : bool
        Leave columns of text as Arrow dictionaries, that is as codes and distinct values.
    """
    room = Room(path, path.stat().st_size)
    with open_parquet(path) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
        wanted = list(schema.names if columns is None else columns)
        with refusing(ARROW_ERRORS, _message(path)):
            leaves = _leaves(file, set(wanted))
            rows = min(rows, _batch_rows(file.metadata, leaves, room))
            texts = [leaf.path for leaf in leaves if leaf.kind == TEXT and not _is_prefixed(file.metadata, leaf)]
    kept = {field.name for field in schema if coded or pa.types.is_dictionary(field.type)}
    found = 0
    with open_parquet(path, read_dictionary=texts) as file, refusing(ARROW_ERRORS, _message(path)):
        for batch in file.iter_batches(rows, columns=wanted):
            batch.validate(full=True)  # text that is not UTF-8, and codes and lists beyond the values
            stored = without_extensions(batch)
            room.take(sum(map(weight, stored.columns)))
            found += batch.num_rows
            if found > n_rows:
                break
            yield without_views(_plain(stored, kept))
    if found != n_rows:
        count = "more" if found > n_rows else f"{found:,}"
        raise InputError(f"{path}: says that it has {n_rows:,} rows, and has {count}; write it again")


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """These columns, or all."""
    batches = list(parquet_batches(path, columns))
    if batches:
        return pa.Table.from_batches(batches)
    with open_parquet(path) as file:
        return file.schema_arrow.empty_table().select(file.schema_arrow.names if columns is None else columns)


def _leaves(file: Any, columns: set[str]) -> list[Leaf]:
    """The stored columns that these columns consist of."""
    owners = [field.name for field in file.schema_arrow for _ in range(_n_leaves(field.type))]
    described = [file.schema.column(k) for k in range(len(file.schema))]
    return [
        Leaf(k, each.path, each.physical_type, max(VALUE_BYTES, each.length), each.max_repetition_level > 0)
        for k, (owner, each) in enumerate(zip(owners, described, strict=True))
        if owner in columns
    ]


def _n_leaves(kind: pa.DataType) -> int:
    if isinstance(kind, pa.BaseExtensionType):
        return _n_leaves(kind.storage_type)
    inside = range(kind.num_fields if pa.types.is_nested(kind) else 0)
    return sum(_n_leaves(kind.field(k).type) for k in inside) or 1


def _batch_rows(metadata: Any, leaves: Sequence[Leaf], room: Room) -> int:
    """How many rows to decode at a time; a file whose index promises too much is an error."""
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    stored: int = sum(group.total_byte_size for group in groups)
    if stored > room.limit:
        stored = sum(group.column(leaf.place).total_uncompressed_size for leaf in leaves for group in groups)
    decoded = 0
    for leaf in leaves:
        in_lists = sum(group.column(leaf.place).num_values for group in groups) if leaf.in_lists else 0
        decoded += leaf.width * max(in_lists, metadata.num_rows)
    room.check(max(stored, decoded))
    rows: int = metadata.num_rows * BATCH_BYTES // max(1, stored + 2 * decoded)
    for leaf in leaves:
        if _is_prefixed(metadata, leaf):
            longest = max(group.column(leaf.place).total_uncompressed_size for group in groups)
            rows = min(rows, max(LEAST_PREFIXED_ROWS, BATCH_BYTES // max(1, longest)))
    return max(1, rows)


def _is_prefixed(metadata: Any, leaf: Leaf) -> bool:
    groups = range(metadata.num_row_groups if leaf.kind == TEXT else 0)
    return any(PREFIXED in metadata.row_group(k).column(leaf.place).encodings for k in groups)


def _plain(batch: pa.RecordBatch, coded: Set[str]) -> pa.RecordBatch:
    """Values instead of codes, but for these columns; those in lists are always values."""
    columns = [
        column if name in coded and pa.types.is_dictionary(column.type) else column.cast(_value_type(column.type))
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names, metadata=batch.schema.metadata)


def _value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values where this one has codes."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if not pa.types.is_nested(kind):
        return kind
    fields = [kind.field(k).with_type(_value_type(kind.field(k).type)) for k in range(kind.num_fields)]
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_map(kind):
        entry = fields[0].type
        return pa.map_(entry.field(0), entry.field(1))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    return pa.large_list(fields[0]) if pa.types.is_large_list(kind) else pa.list_(fields[0])


def _message(path: Path) -> str:
    return f"{path}: cannot be read as parquet: {{}}. Check the file, or set its format with format= (--format)"
