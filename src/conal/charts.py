"""Plain tables to Altair charts: the same definitions for figures on paper and in pages.

Charts know tables only, never models. Colours are Okabe and Ito's, which people with any colour vision can tell apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import pyarrow as pa

from conal.io.atomic import atomic_file

__all__ = ["PALETTE", "heat_maps", "lines", "save"]

PALETTE = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#999999", "#8C6D31", "#5D3A9B"]

MAX_POINTS = 20
"""A line through more is drawn without its points."""
LABEL_GAP = 0.04
"""Least distance between the labels of two lines, as a share of what the chart spans."""


def _values(table: pa.Table) -> Any:
    return alt.InlineData(values=table.to_pylist())


def heat_maps(table: pa.Table, value: str, *, by: str, title: str, percent: bool = True) -> Any:
    """A true x observed map for every value of the column ``by``, each cell with its number.

    Parameters
    ----------
    table : pa.Table
        Columns true, observed, ``value`` (a share) and ``by``.
    """
    shown = f"round(100 * datum.{value})" if percent else f"datum.{value}"
    groups = list(dict.fromkeys(table[by].to_pylist()))
    maps = [_heat_map(table.filter(_equals(table, by, group)), value, shown, group) for group in groups]
    return alt.concat(*maps, columns=3, title=title).resolve_scale(color="shared")


def _heat_map(table: pa.Table, value: str, shown: str, title: str) -> Any:
    order = list(dict.fromkeys(table["true"].to_pylist()))
    side = max(220, 34 * len(order))
    base = alt.Chart(_values(table), title=title, width=side, height=side).encode(
        x=alt.X("observed:N", sort=order, title="observed label", axis=alt.Axis(labelAngle=-45)),
        y=alt.Y("true:N", sort=order, title="true class"),
    )
    cells = base.mark_rect().encode(
        color=alt.Color(f"{value}:Q", scale=alt.Scale(scheme="blues", domainMin=0), title=value)
    )
    numbers = (
        base.transform_calculate(shown=shown)
        .mark_text(fontSize=11)
        .encode(text="shown:Q", color=alt.condition(f"datum.{value} > 0.4", alt.value("white"), alt.value("black")))
    )
    return cells + numbers


def lines(table: pa.Table, *, x: str, x_title: str, y_title: str, by: str | None = None, title: str = "") -> Any:
    """Mean and standard deviation against ``x``, a line per ``series``, labelled at its end.

    Parameters
    ----------
    table : pa.Table
        Columns ``x``, series, mean, spread (both in percent) and, for panels, ``by``.
    """
    panels = [None] if by is None else list(dict.fromkeys(table[by].to_pylist()))
    tables = [table if by is None else table.filter(_equals(table, by, panel)) for panel in panels]
    parts = [_panel(part, x, x_title, y_title, panel) for part, panel in zip(tables, panels, strict=True)]
    return alt.hconcat(*parts, title=title).resolve_scale(color="shared", y="shared")


def _panel(table: pa.Table, x: str, x_title: str, y_title: str, title: str | None) -> Any:
    series = list(dict.fromkeys(table["series"].to_pylist()))
    colour = alt.Color("series:N", scale=alt.Scale(domain=series, range=PALETTE[: len(series)]), legend=None)
    base = alt.Chart(_values(table), title=title or "", width=320, height=300).encode(
        x=alt.X(f"{x}:Q", title=x_title, scale=alt.Scale(zero=False, nice=False, padding=12)), color=colour
    )
    mean = alt.Y("mean:Q", title=y_title, scale=alt.Scale(zero=False))
    ends = {"low": "max(datum.mean - datum.spread, 0)", "high": "min(datum.mean + datum.spread, 100)"}
    bars = base.transform_calculate(**ends).mark_rule(opacity=0.5)
    few = len(set(table[x].to_pylist())) <= MAX_POINTS
    return (
        base.mark_line(point=few).encode(y=mean)
        + bars.transform_filter("datum.spread > 0").encode(y=alt.Y("low:Q", title=y_title), y2="high:Q")
        + alt.Chart(_values(_end_labels(table, x)))
        .mark_text(align="left", dx=7, fontSize=10)
        .encode(x=alt.X(f"{x}:Q"), y=alt.Y("at:Q", title=y_title), text="series:N", color=colour)
    )


def _end_labels(table: pa.Table, x: str) -> pa.Table:
    """A label for the last point of every series, moved apart where they would stand on each other."""
    rows = table.to_pylist()
    last = max(row[x] for row in rows)
    ends = sorted((row for row in rows if row[x] == last), key=lambda row: row["mean"])
    means = [row["mean"] for row in rows]
    places = _apart([row["mean"] for row in ends], LABEL_GAP * (max(means) - min(means)))
    return pa.Table.from_pylist(
        [{x: last, "series": row["series"], "at": place} for row, place in zip(ends, places, strict=True)]
    )


def _apart(values: list[float], gap: float) -> list[float]:
    """Rising values moved as little as needed to be ``gap`` apart: those too close share a group around their mean.

    >>> _apart([1.0, 1.1, 9.0], gap=1.0)
    [0.55, 1.55, 9.0]
    """
    groups: list[list[float]] = []
    for value in values:
        group = [value]
        while groups and _ends(groups[-1], gap)[1] + gap > _ends(group, gap)[0]:
            group = groups.pop() + group
        groups.append(group)
    return [_ends(group, gap)[0] + k * gap for group in groups for k in range(len(group))]


def _ends(group: list[float], gap: float) -> tuple[float, float]:
    """Lowest and highest place in a group around its mean."""
    middle, half = sum(group) / len(group), gap * (len(group) - 1) / 2
    return middle - half, middle + half


def _equals(table: pa.Table, column: str | None, value: Any) -> Any:
    import pyarrow.compute as pc

    return pc.equal(table[column], value)


def save(chart: Any, stem: Path) -> list[Path]:
    """Write ``stem.svg`` and ``stem.png``, each aside first and then renamed."""
    written = []
    for ending in ("svg", "png"):
        path = stem.with_name(f"{stem.name}.{ending}")
        with atomic_file(path) as aside:
            chart.save(str(aside), format=ending, scale_factor=2.0 if ending == "png" else 1.0)
        written.append(path)
    return written
