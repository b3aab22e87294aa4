"""Rows of results: grouped, summarised, and written as CSV and Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from studies.statistics import Difference

Row = dict[str, Any]
Tables = Mapping[str, list[Row]]
"""Rows of a study by the names of its parts."""
TEXT = ("parameters", "data", "right", "ensemble_right", "who", "true", "observed", "class", "warning", "judge")
"""Columns that are text, whatever their values look like."""


class Table(NamedTuple):
    """A table of a page, with what readers should know about it."""

    title: str
    header: Sequence[str]
    body: Sequence[Sequence[str]]
    note: str = ""


class Claim(NamedTuple):
    """A sentence, whether it holds, the decisive difference with its interval, what that is, and over how many."""

    claim: str
    verdict: str
    difference: str
    what: str
    n: str


@dataclass
class Summary:
    """What the rows of a study say: claims, tables, and Altair charts by the stems of their files."""

    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    charts: dict[str, Any] = field(default_factory=dict)


def claim(text: str, verdict: str, gap: Difference, what: str, units: str = "seeds") -> Claim:
    """A claim with its decisive difference."""
    return Claim(text, verdict, str(gap), what, f"{gap.n:,} {units}")


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


def by_seed(rows: Iterable[Row], name: str) -> list[Any]:
    """The values of one column in the order of the seeds."""
    return column(sorted(rows, key=itemgetter("seed")), name)


def percent(rows: Iterable[Row], name: str) -> str:
    """The mean of shares, in percent; nothing for no rows."""
    found = [value for value in column(rows, name) if value is not None]
    return f"{100 * np.mean(found):.1f}" if found else ""


def mean_and_spread(values: Sequence[float]) -> str:
    """Mean and sample standard deviation of shares, in percent; the mean alone if there is one value.

    >>> mean_and_spread([0.8, 0.9]), mean_and_spread([0.8])
    ('85.0 ± 7.1', '80.0')
    """
    shares = 100 * np.array(values, float)
    return f"{shares.mean():.1f}" + (f" ± {shares.std(ddof=1):.1f}" if len(shares) > 1 else "")


def markdown(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(markdown(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in body])


def page(title: str, made: str, summary: Summary) -> str:
    """A study's page: what made it, its claims, its tables and its charts."""
    parts = [f"# {title}", made]
    if summary.claims:
        parts += [markdown(["claim", "verdict", "difference", "of", "n"], summary.claims)]
    for table in summary.tables:
        parts += [f"## {table.title}", *([table.note] if table.note else []), markdown(table.header, table.body)]
    parts += [f"![{stem}]({stem}.svg)" for stem in summary.charts]
    return "\n\n".join(parts) + "\n"


def flat(row: Row) -> Row:
    """A row as CSV files have it: what is nested becomes text."""
    return {name: json.dumps(value) if isinstance(value, dict | list) else value for name, value in row.items()}


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """A column for every name, in order of appearance; unrounded."""
    names = dict.fromkeys(name for row in rows for name in row)
    pyarrow.csv.write_csv(pa.table({name: [row.get(name) for row in rows] for name in names}), path)


def read_csv(path: Path) -> list[Row]:
    """The rows of a file as :func:`write_csv` makes it."""
    options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(TEXT, pa.string()))
    rows: list[Row] = pyarrow.csv.read_csv(path, convert_options=options).to_pylist()
    return rows
