"""Scales of ordered classes, and times of labels."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import FloatArray, IntArray
from conal.data.encoding import Names, encode, name_column
from conal.errors import InputError, examples

# Scales: classes with an order, and what a posterior over an ordered scale says as one number.


CONFIDENCE = 0.95
"""Probability of the true class being between the ends of an interval, at least."""
ROUNDING = 1e-9
"""How far a sum of probabilities may be below the one that it is compared with."""
MAX_UNORDERED_CLASSES = 2
"""Two classes have the same distances in both orders."""


class Scores(NamedTuple):
    """What a posterior says on a scale; all but the mean are positions in the classes.

    Attributes
    ----------
    mean : (N,)
        In the numbers that the classes are; for classes that are no numbers, their place on the scale, from 1.
    median : (N,)
        The lowest class at or below which the true class is with a probability of one half or more.
    low, high : (N,)
        Ends of the interval: quantiles at (1 - confidence) / 2 and (1 + confidence) / 2.
    """

    mean: FloatArray
    median: IntArray
    low: IntArray
    high: IntArray


def class_values(classes: Names) -> FloatArray | None:
    """(C,) the classes as finite numbers; None if one is none.

    >>> class_values(np.array([1, 5])).tolist(), class_values(np.array(["low", "high"], dtype=object))
    ([1.0, 5.0], None)
    """
    try:
        values = np.array([float(name) for name in classes.tolist()])
    except (TypeError, ValueError):
        return None
    return values if np.isfinite(values).all() else None


def levels_of(classes: Names, *, stated: bool) -> IntArray:
    """(C,) the place of each class on the scale, from 0: numbers by size, others as listed, if the order was stated.

    >>> levels_of(np.array([3, 1, 2]), stated=False).tolist()
    [2, 0, 1]
    >>> levels_of(np.array(["good", "bad", "fair"], dtype=object), stated=False)
    Traceback (most recent call last):
    conal.errors.InputError: the order of the classes 'good', 'bad', 'fair' is not known; list them from the lowest \
to the highest: Annotations.as_ordinal([...]) (--ordinal --classes LOWEST,...,HIGHEST)
    """
    values = class_values(classes)
    if values is not None:
        return np.argsort(np.argsort(values, kind="stable"), kind="stable")
    if stated or len(classes) <= MAX_UNORDERED_CLASSES:
        return np.arange(len(classes))
    raise InputError(
        f"the order of the classes {examples(classes)} is not known; list them from the lowest to the highest: "
        "Annotations.as_ordinal([...]) (--ordinal --classes LOWEST,...,HIGHEST)"
    )


def scale_options(classes: Names) -> list[str]:
    """What states on the command line that these classes, from the lowest to the highest, are a scale.

    >>> scale_options(np.array([1, 2, 3])), scale_options(np.array(["bad", "good"], dtype=object))
    (['--ordinal'], ['--ordinal', '--classes', 'bad,good'])
    """
    listed = [] if class_values(classes) is not None else ["--classes", ",".join(map(str, classes.tolist()))]
    return ["--ordinal", *listed]


def scale_values(classes: Names, levels: IntArray) -> FloatArray:
    """(C,) the number that stands for each class: the class itself, or its place from 1 if classes are no numbers."""
    values = class_values(classes)
    return levels.astype(np.float64) + 1 if values is None else values


def posterior_scores(probas: FloatArray, classes: Names, levels: IntArray, confidence: float = CONFIDENCE) -> Scores:
    """Mean, median and interval of each row of probabilities (N, C), on the scale that ``levels`` (C,) describe.

    >>> found = posterior_scores(np.array([[0.2, 0.2, 0.6]]), np.array([1, 2, 3]), np.arange(3))
    >>> [column.round(6).tolist() for column in found]
    [[2.4], [2], [0], [2]]
    """
    order = np.argsort(levels)
    below = np.cumsum(probas[:, order], axis=1)
    ends = ((1 - confidence) / 2, (1 + confidence) / 2)
    low, high = (_quantile(below, order, at) for at in ends)
    return Scores(probas @ scale_values(classes, levels), _quantile(below, order, 0.5), low, high)


def score_columns(
    probas: FloatArray, classes: Names, levels: IntArray, unknown: npt.NDArray[np.bool_] | None = None
) -> dict[str, pa.Array]:
    """The scores as columns mean, median, low and high, in the user's names; empty where a task is ``unknown``."""
    mean, *places = posterior_scores(probas, classes, levels)
    names = name_column(classes)
    columns = zip(Scores._fields[1:], places, strict=True)
    return {"mean": pa.array(mean, mask=unknown)} | {
        name: names.take(pa.array(codes, mask=unknown)) for name, codes in columns
    }


def _quantile(below: FloatArray, order: IntArray, at: float) -> IntArray:
    """(N,) the lowest class whose cumulated probability reaches ``at``; the highest where rounding keeps all below."""
    reached = below >= at - ROUNDING
    reached[:, -1:] = True
    return np.asarray(order[reached.argmax(1)], dtype=np.int64)


# Times of labels: dates, text and numbers as one type; what cannot be read is not known.

Times = npt.NDArray[np.datetime64]
MIN_TIMES_SHARE = 0.5
"""If fewer of the values than this are times, the column contains something else."""
TIME_UNITS = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0))
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
            column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()).fill_null(_NO_TIME), "int64"
        ).view("datetime64[us]")
    try:
        codes, names = encode(values)
    except InputError:  # lists and the like
        return None
    distinct = np.array([*(_microseconds(name) for name in names.tolist()), _NO_TIME], dtype=np.int64)
    found = distinct[codes]  # a missing one picks the last
    given = codes >= 0
    if not given.any() or (found[given] != _NO_TIME).mean() < MIN_TIMES_SHARE:
        return None
    return found.view("datetime64[us]")


_NO_TIME = int(np.datetime64("NaT").view(np.int64))


def _as_arrow(values: Any) -> pa.ChunkedArray | None:
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    if not isinstance(values, pa.ChunkedArray):
        return None
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def _microseconds(value: Any) -> int:
    """A time as microseconds since 1970; the number that means "not a time" for anything else."""
    if isinstance(value, bool):
        return _NO_TIME
    if isinstance(value, int | float):
        return next((round(value * unit) for limit, unit in TIME_UNITS if 0 < abs(value) < limit), _NO_TIME)
    try:
        if isinstance(value, str):
            value = _moment(value.strip())
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return int((moment - _FIRST) // timedelta(microseconds=1))
    except (ValueError, OverflowError, AttributeError, TypeError):
        return _NO_TIME


def _moment(text: str) -> datetime:
    """ISO 8601; else as Mechanical Turk and American spreadsheets write times."""
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
