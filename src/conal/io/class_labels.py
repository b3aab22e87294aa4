"""Names of classes that Hugging Face datasets store as numbers (``ClassLabel``), from the metadata of a schema."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from conal.errors import InputError
from conal.io.limits import check_depth

__all__ = ["class_names", "name_of", "with_class_names"]

KEY = b"huggingface"


def class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Column to the names of its classes, also for a column of lists of classes."""
    text = (schema.metadata or {}).get(KEY)
    if text is None:
        return {}
    try:
        check_depth(text, "the metadata")
        features = json.loads(text)["info"]["features"]
        found = {column: _names(feature) for column, feature in features.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}  # metadata of something else
    return {column: names for column, names in found.items() if names is not None}


def _names(feature: Any) -> list[str] | None:
    """The names of a ``ClassLabel``, by itself or in a list (``List``, ``Sequence``, or ``[...]`` in old versions)."""
    if isinstance(feature, list) and len(feature) == 1:
        return _names(feature[0])
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") in ("List", "LargeList", "Sequence"):
        return _names(feature.get("feature"))
    names = feature.get("names") if feature.get("_type") == "ClassLabel" else None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def name_of(number: Any, names: list[str], where: str) -> str | None:
    """The class of this number; -1, with which datasets mark what is not labelled, has none.

    >>> name_of(1, ["cat", "dog"], "x"), name_of(-1, ["cat", "dog"], "x")
    ('dog', None)
    """
    if number is None or number == -1:
        return None
    if not isinstance(number, int) or not 0 <= number < len(names):
        raise InputError(f"{where}: {number!r} is none of the {len(names)} classes that the dataset declares")
    return names[number]


def with_class_names(column: pa.ChunkedArray, names: list[str], where: str) -> pa.ChunkedArray:
    """A column of class numbers as their names."""
    if not pa.types.is_integer(column.type):
        return column
    known = {number: name_of(number, names, where) for number in column.unique().to_pylist()}
    numbers = pa.array(list(known), column.type)
    return pc.take(pa.array(list(known.values()), pa.string()), pc.index_in(column, numbers))
