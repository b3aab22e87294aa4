"""Which types of columns can be names of tasks, annotators and classes, and what they become."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from conal.errors import InputError
from conal.io.refusals import ARROW_ERRORS, VALUE_ERRORS, refusing

__all__ = ["as_names_or_refuse", "check_field_names", "without_extensions", "without_views"]

_BYTES = ("binary", "large_binary", "fixed_size_binary", "binary_view")
_NO_NAMES = ("time", "duration", "interval", "run_end_encoded", "union")


def as_names_or_refuse(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """A column whose values can be names that a model folder can store; others are an error.

    Bytes and decimals become text, decimals without places integers; lists are left to the encoder, which shows one.
    """
    kind = column.type
    if any(getattr(pa.types, f"is_{name}")(kind) for name in _BYTES):
        with refusing(ARROW_ERRORS, f"{where} is not UTF-8 text; save the file as UTF-8 ({{}})"):
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


def check_field_names(fields: Iterable[pa.Field]) -> None:
    """A :class:`UnicodeDecodeError` if a name, of a column or inside of one, is no UTF-8; Arrow decodes them late."""
    for field in fields:
        field.name.encode()
        check_field_names(field.type.field(k) for k in range(field.type.num_fields))


def without_extensions(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Extension types as what they store, and UUIDs as people write them; Arrow computes with neither."""
    if not any(isinstance(kind, pa.BaseExtensionType) for kind in batch.schema.types):
        return batch
    return _with_columns(batch, [_stored(column) for column in batch.columns])


def without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Views of text and bytes, as Polars writes them, as plain text and bytes: Arrow can hardly compute with views."""
    if not any(map(_is_view, batch.schema.types)):
        return batch
    return _with_columns(batch, [_unviewed(column) for column in batch.columns])


def _is_view(kind: pa.DataType) -> bool:
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string_view(values) or pa.types.is_binary_view(values))


def _unviewed(column: Any) -> Any:
    if not _is_view(column.type):
        return column
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _unviewed(column.dictionary))
    return column.cast(pa.string() if pa.types.is_string_view(column.type) else pa.binary())


def _with_columns(batch: pa.RecordBatch, columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names, metadata=batch.schema.metadata)


def _stored(column: Any) -> Any:
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if column.type.extension_name == "arrow.uuid":
        return pa.array([None if name is None else str(name) for name in column.to_pylist()], pa.string())
    return column.storage
