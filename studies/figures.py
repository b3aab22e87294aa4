"""Altair charts of results: lines with spreads, and maps of confusion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from studies.tables import Row, column, group_by

PALETTE = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#999999", "#8C6D31", "#5D3A9B"]
"""Colours of Okabe and Ito, which people with any colour vision can distinguish."""
MAX_POINTS = 20
"""A line through more is drawn without its points."""


def points_of(rows: Sequence[Row], value: str, **names: str) -> list[Row]:
    """Means and sample standard deviations in percent, by the columns that become ``names``.

    >>> rows = [{"method": "a", "n": 1, "seed": s, "share": v} for s, v in enumerate((0.8, 0.9))]
    >>> points_of(rows, "share", series="method", x="n")
    [{'series': 'a', 'x': 1, 'mean': 85.0, 'spread': 7.0710678118654755}]
    """
    found = []
    for key, some in group_by(rows, *names.values()).items():
        shares = 100 * np.array([each for each in column(some, value) if each is not None], float)
        if len(shares):
            spread = float(shares.std(ddof=1)) if len(shares) > 1 else 0.0
            found.append(dict(zip(names, key, strict=True)) | {"mean": float(shares.mean()), "spread": spread})
    return found


def lines(rows: Sequence[Row], *, x_title: str, y_title: str, title: str) -> Any:
    """A panel per value of ``panel``, a line per ``series``: mean against x, with bars of the spread."""
    series = list(dict.fromkeys(column(rows, "series")))
    colour = alt.Color("series:N", scale=alt.Scale(domain=series, range=PALETTE), sort=None, title=None)
    panels = []
    for panel, some in group_by(rows, "panel").items():
        base = alt.Chart(alt.InlineData(values=some), title=str(panel), width=320, height=300).encode(
            x=alt.X("x:Q", title=x_title, scale=alt.Scale(zero=False, nice=False, padding=12)), color=colour
        )
        mean = alt.Y("mean:Q", title=y_title, scale=alt.Scale(zero=False))
        ends = {"low": "max(datum.mean - datum.spread, 0)", "high": "min(datum.mean + datum.spread, 100)"}
        bars = base.transform_calculate(**ends).transform_filter("datum.spread > 0").mark_rule(opacity=0.5)
        few = len(set(column(some, "x"))) <= MAX_POINTS
        panels.append(
            base.mark_line(point=few).encode(y=mean) + bars.encode(y=alt.Y("low:Q", title=y_title), y2="high:Q")
        )
    return alt.hconcat(*panels, title=title).resolve_scale(color="shared", y="shared")


def paired_bars(rows: Sequence[Row], *, y_title: str, title: str) -> Any:
    """A panel per value of ``panel``: for every ``x``, a bar of ``share`` for each value of ``series``, in percent."""
    series = list(dict.fromkeys(column(rows, "series")))
    colour = alt.Color("series:N", scale=alt.Scale(domain=series, range=PALETTE[1:]), sort=None, title=None)
    panels = [
        alt.Chart(alt.InlineData(values=some), title=str(panel), width=34 * len(group_by(some, "x")), height=240)
        .transform_calculate(percent="100 * datum.share")
        .mark_bar()
        .encode(
            x=alt.X("x:N", sort=None, title=None),
            xOffset=alt.XOffset("series:N", sort=None),
            y=alt.Y("percent:Q", title=y_title),
            color=colour,
        )
        for panel, some in group_by(rows, "panel").items()
    ]
    return alt.hconcat(*panels, title=title).resolve_scale(color="shared", y="shared")


def heat_maps(rows: Sequence[Row], value: str, *, by: str, title: str, columns: int = 3) -> Any:
    """A map of true and observed classes for every value of ``by``, each cell with its share in percent."""
    order = list(dict.fromkeys(column(rows, "true")))
    maps = []
    for name, some in group_by(rows, by).items():
        here = [each for each in order if each in set(column(some, "true"))]
        side = max(220, 34 * len(here))
        base = alt.Chart(alt.InlineData(values=some), title=str(name), width=side, height=side).encode(
            x=alt.X("observed:N", scale=alt.Scale(domain=here), sort=None, title="observed label"),
            y=alt.Y("true:N", scale=alt.Scale(domain=here), sort=None, title="true class"),
        )
        fill = alt.Color(f"{value}:Q", scale=alt.Scale(scheme="blues", domainMin=0), title=value)
        ink = alt.condition(f"datum.{value} > 0.4", alt.value("white"), alt.value("black"))
        shares = base.transform_calculate(shown=f"round(100 * datum.{value})").mark_text(fontSize=11)
        maps.append(base.mark_rect().encode(color=fill) + shares.encode(text="shown:Q", color=ink))
    return alt.concat(*maps, columns=columns, title=title).resolve_scale(color="shared")
