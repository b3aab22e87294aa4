"""Numbers from text files, in which every name is text: read as numbers only if no name changes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["numbers_or_text"]

_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_DECIMAL = r"^(0|-?[1-9][0-9]{0,17}|-?(0|[1-9][0-9]{0,17})\.[0-9]+)$"
_WITH_GAPS = r"^(0|-?[1-9][0-9]{0,14})\.0$"
_FIRST_ROWS = 1000


def numbers_or_text(column: pa.ChunkedArray, *, padded: bool = False) -> pa.ChunkedArray:
    """Integers or decimals if every value is one, prints back unchanged, and no two names become one number.

    The task ``1.10`` is not the task ``1.1``, and no float holds an id of 17 digits and a fraction. Such columns stay
    text. One spelling is undone: pandas writes the integers of a column with gaps as ``1.0``, ``2.0``. Blank values are
    gaps. In a ``padded`` column, spaces around numbers do not count, as in files with ", " between the columns.
    """
    import pyarrow.compute as pc

    first, gaps = _values(column.slice(0, _FIRST_ROWS), padded)
    if not _all_match(first.filter(pc.invert(gaps)), _DECIMAL):  # most text is seen to be text at once
        return column
    kind = _number_type(column.unique(), padded)
    if kind is None:
        return column
    values, gaps = _values(column, padded)
    return pc.if_else(gaps, pa.scalar(None, pa.string()), values).cast(kind)


def _number_type(names: pa.Array, padded: bool) -> pa.DataType | None:
    """The type of number that these distinct names can be without loss; None if they must stay text."""
    import pyarrow.compute as pc

    values, gaps = _values(names, padded)
    present = values.filter(pc.invert(gaps)).drop_null()
    if 0 < len(present) < len(names) and _all_match(present, _WITH_GAPS):
        return pa.float64()
    for pattern, kind in ((_WHOLE, pa.int64()), (_DECIMAL, pa.float64())):
        if len(present) and _all_match(present, pattern):
            numbers = present.cast(kind)
            unchanged = pc.all(pc.equal(numbers.cast(pa.string()), present)).as_py()
            return kind if unchanged and len(numbers.unique()) == len(present) else None
    return None


def _values(column: pa.Array | pa.ChunkedArray, padded: bool) -> tuple[Any, Any]:
    """The values, and which of them are blank."""
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    return trimmed if padded else column, pc.fill_null(pc.equal(trimmed, ""), False)


def _all_match(texts: pa.Array | pa.ChunkedArray, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())
