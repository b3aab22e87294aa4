"""Rows of result tables: grouped, summarised, and printed as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["Row", "column", "group_by", "markdown", "mean_and_spread", "n_seeds", "notes", "standard_error"]

Row = dict[str, Any]


def group_by(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    """Rows by the values of some columns, in order of appearance; keys are tuples if there are several columns.

    >>> group_by([{"a": 1, "b": 2}, {"a": 1, "b": 3}], "a", "b")
    {(1, 2): [{'a': 1, 'b': 2}], (1, 3): [{'a': 1, 'b': 3}]}
    """
    key = itemgetter(*names)
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def column(rows: Iterable[Row], name: str) -> list[Any]:
    """The values of one column."""
    return [row[name] for row in rows]


def n_seeds(table: pa.Table) -> int:
    """Number of seeds in a table of runs."""
    return len(table["seed"].unique())


def mean_and_spread(values: list[float]) -> str:
    """Mean and sample standard deviation of shares, in percent; the mean alone if there is one value.

    >>> mean_and_spread([0.8, 0.9]), mean_and_spread([0.8])
    ('85.00 ± 7.07', '80.00')
    """
    percent = 100 * np.array(values)
    return f"{percent.mean():.2f}" + (f" ± {percent.std(ddof=1):.2f}" if len(percent) > 1 else "")


def standard_error(values: Iterable[float]) -> float | None:
    """Standard error of the mean; None for a single value.

    >>> standard_error([1.0, 3.0]), standard_error([1.0])
    (1.0, None)
    """
    found = np.asarray(values)
    return float(found.std(ddof=1) / len(found) ** 0.5) if len(found) > 1 else None


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table.

    >>> print(markdown(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def notes(*lines: str) -> str:
    """What readers should know about a table, as a list; empty lines are left out.

    >>> print(notes("*a*: one.", "", "*b*: two."))
    - *a*: one.
    - *b*: two.
    """
    return "\n".join(f"- {line}" for line in lines if line)
