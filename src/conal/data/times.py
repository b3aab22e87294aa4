"""Times of labels: dates, text and numbers as one type; what cannot be read is not known."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.encoding import encode
from conal.errors import InputError

__all__ = ["read_times"]

Times = npt.NDArray[np.datetime64]
READABLE = 0.5
"""If fewer of the values than this are times, the column contains something else."""
UNITS = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0))
"""Numbers below the first are seconds since 1970, milliseconds or microseconds: as many microseconds is one unit."""


def read_times(values: Any) -> Times | None:
    """(n,) times in microseconds since 1970, UTC, NaT where one is missing or no time; None if hardly any is one.

    Text is read as ISO 8601, as nearly all tools write it, or in the way of two platforms; numbers are seconds,
    milliseconds or microseconds.

    >>> read_times(["2026-11-17T10:00:00Z", None, "2026-11-17 12:00+02:00"]).astype(str).tolist()
    ['2026-11-17T10:00:00.000000', 'NaT', '2026-11-17T10:00:00.000000']
    >>> read_times([1.5, 86400]).astype(str).tolist()
    ['1970-01-01T00:00:01.500000', '1970-01-02T00:00:00.000000']
    >>> read_times(["Tue Nov 17 02:00:00 PST 2026", "11/17/2026 10:00:00"]).astype(str).tolist()
    ['2026-11-17T10:00:00.000000', '2026-11-17T10:00:00.000000']
    >>> read_times(["soon", "later"]) is None
    True
    """
    if isinstance(values, list | tuple) and any(isinstance(value, np.datetime64) for value in values):
        values = np.array(values, dtype="datetime64[us]")
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    column = _as_arrow(values)
    if column is not None and pa.types.is_timestamp(column.type):
        return np.asarray(
            column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()).fill_null(_NOT), "int64"
        ).view("datetime64[us]")
    try:
        codes, names = encode(values)
    except InputError:  # lists and the like
        return None
    distinct = np.array([*(_microseconds(name) for name in names.tolist()), _NOT], dtype=np.int64)
    found = distinct[codes]  # a missing one picks the last
    given = codes >= 0
    if not given.any() or (found[given] != _NOT).mean() < READABLE:
        return None
    return found.view("datetime64[us]")


_NOT = int(np.datetime64("NaT").view(np.int64))


def _as_arrow(values: Any) -> pa.ChunkedArray | None:
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    if not isinstance(values, pa.ChunkedArray):
        return None
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def _microseconds(value: Any) -> int:
    """A time as microseconds since 1970; the number that means "not a time" for anything else."""
    if isinstance(value, bool):
        return _NOT
    if isinstance(value, int | float):
        return next((round(value * unit) for limit, unit in UNITS if 0 < abs(value) < limit), _NOT)
    try:
        if isinstance(value, str):
            value = _moment(value.strip())
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return int((moment - _FIRST) // timedelta(microseconds=1))
    except (ValueError, OverflowError, AttributeError, TypeError):
        return _NOT


def _moment(text: str) -> datetime:
    """ISO 8601; else as FigureEight and Mechanical Turk write times."""
    try:
        return datetime.fromisoformat(text.removesuffix(" UTC"))
    except ValueError:
        if text[:1].isdigit():
            return datetime.strptime(text, "%m/%d/%Y %H:%M:%S").replace(tzinfo=UTC)
        zone = next((name for name in ZONES if f" {name} " in text), "UTC")
        moment = datetime.strptime(text.replace(f" {zone} ", " "), "%a %b %d %H:%M:%S %Y")
        return moment.replace(tzinfo=timezone(timedelta(hours=ZONES[zone])))


ZONES = {"UTC": 0, "GMT": 0, "PST": -8, "PDT": -7}
"""Hours of the time zones that Mechanical Turk writes."""
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
