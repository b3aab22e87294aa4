"""Plain tables to Altair charts: the same definitions for figures on paper and in pages.

Charts know tables only, never models. Colours are Okabe and Ito's, which people with any colour vision can tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import pyarrow as pa

__all__ = [
    "PAGE",
    "PALETTE",
    "PAPER",
    "SCREEN",
    "Look",
    "band",
    "correlation_map",
    "course",
    "heat_map",
    "intervals",
    "points",
]

PALETTE = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#999999", "#8C6D31", "#5D3A9B"]

FEW_COUNTS = 10
"""An axis of counts that spans at most so many has a tick at each; Vega would add ticks at fractions."""
ENDS = ("low", "high")
INTERVAL_WIDTH = 420
WIDEST_MAP = 660
"""Width of a map of pairs, where its cells can be smaller."""
LEGIBLE = 24
"""Width of a cell from which on it has room for a number."""


@dataclass(frozen=True)
class Look:
    """Colours of a chart; in a page they are the page's own, so that one chart serves light, dark and print."""

    ink: str = "black"
    on_fill: str = "white"
    right: str = PALETTE[4]
    wrong: str = PALETTE[5]
    ramp: Literal["blues"] | None = "blues"
    """Colour scheme of heat maps; without one, right and wrong have colours, and shares are their opacity."""


PAPER = Look()
SCREEN = Look(ramp=None)
"""As on the page, for places without its style sheet, such as a notebook."""
PAGE = Look("var(--ink)", "var(--on-fill)", "var(--right)", "var(--wrong)", None)


def _values(table: pa.Table) -> Any:
    return alt.InlineData(values=table.to_pylist())


def _in_order(names: list[Any]) -> dict[str, Any]:
    """Names in this order, as a list: Vega would collect and sort them as keys of an object, where it also finds
    "constructor", "toString" and others that every object has, and then draws nothing."""
    return {"scale": alt.Scale(domain=names), "sort": None}


def heat_map(table: pa.Table, value: str, *, title: str = "", look: Look = PAPER) -> Any:
    """A true x observed map, each cell with its number; columns true, observed and ``value``, a share."""
    order = list(dict.fromkeys(table["true"].to_pylist()))
    side = max(220, 34 * len(order))
    base = alt.Chart(_values(table), title=title, width=side, height=side).encode(
        x=alt.X(
            "observed:N",
            **_in_order(order),
            title="observed label",
            axis=alt.Axis(labelAngle=0 if _are_short(order) else -45),
        ),
        y=alt.Y("true:N", **_in_order(order), title="true class"),
    )
    cells = base.mark_rect().encode(**_fill(value, look), tooltip=["true:N", "observed:N", f"{value}:Q"])
    numbers = (
        base.transform_calculate(shown=f"round(100 * datum.{value})")
        .mark_text(fontSize=11)
        .encode(
            text="shown:Q",
            color=alt.condition(f"datum.{value} > 0.4", alt.value(look.on_fill), alt.value(look.ink)),
        )
    )
    return cells + numbers


def correlation_map(table: pa.Table, names: list[str], *, look: Look = SCREEN) -> Any:
    """A map of pairs: columns row, column and value, between -1 and 1, in the order of the names on both sides."""
    step = min(34, max(10, WIDEST_MAP // max(len(names), 1)))
    base = alt.Chart(_values(table), width=step * len(names), height=step * len(names)).encode(
        x=alt.X("column:N", **_in_order(names), title=None, axis=alt.Axis(labelAngle=-45, labelLimit=150)),
        y=alt.Y("row:N", **_in_order(names), title=None, axis=alt.Axis(labelLimit=150)),
    )
    strength = alt.Scale(domain=[0, 1], range=[0, 1], clamp=True)
    cells = base.transform_calculate(strength="abs(datum.value)").mark_rect()
    cells = cells.encode(
        color=alt.condition("datum.value > 0", alt.value(look.wrong), alt.value(look.right)),
        opacity=alt.Opacity("strength:Q", scale=strength, legend=None),
        tooltip=["row:N", "column:N", alt.Tooltip("value:Q", format=".2f")],
    )
    if step < LEGIBLE:
        return cells
    numbers = base.mark_text(fontSize=10).encode(
        text=alt.Text("value:Q", format=".1f"),
        color=alt.condition("abs(datum.value) > 0.6", alt.value(look.on_fill), alt.value(look.ink)),
    )
    return cells + numbers


def _are_short(names: list[Any]) -> bool:
    return all(len(str(name)) <= 3 for name in names)


def _fill(value: str, look: Look) -> dict[str, Any]:
    if look.ramp is not None:
        return {"color": alt.Color(f"{value}:Q", scale=alt.Scale(scheme=look.ramp, domainMin=0), title=value)}
    share = alt.Scale(type="sqrt", domain=[0, 1], range=[0.03, 1])  # small mistakes are what one looks for
    return {
        "color": alt.condition("datum.true === datum.observed", alt.value(look.right), alt.value(look.wrong)),
        "opacity": alt.Opacity(f"{value}:Q", scale=share, legend=None),
    }


def intervals(table: pa.Table, *, x_title: str, mark: float | None = None, look: Look = PAPER) -> Any:
    """A dot with its interval for every row, from top to bottom in the table's order.

    Parameters
    ----------
    table : pa.Table
        Columns name, value, low, high (shares).
    mark : float, optional
        A share to compare with, drawn as a line; the axis then need not begin at zero.
    """
    order = table["name"].to_pylist()
    base = alt.Chart(_values(table), width=INTERVAL_WIDTH, height={"step": 20}).encode(
        y=alt.Y("name:N", **_in_order(order), title=None, axis=alt.Axis(labelLimit=260)),
        tooltip=["name:N", alt.Tooltip("value:Q", format=".1%"), *(alt.Tooltip(f"{e}:Q", format=".1%") for e in ENDS)],
    )
    axis = alt.Axis(format="%", grid=True, tickCount=8, labelFlush=False)
    bars = base.mark_rule(strokeWidth=3, opacity=0.4, color=look.right)
    bars = bars.encode(x=alt.X("low:Q", title=x_title, axis=axis, scale=alt.Scale(zero=mark is None)), x2="high:Q")
    dots = base.mark_circle(size=55, opacity=1, color=look.right).encode(x="value:Q")
    if mark is None:
        return bars + dots
    rule = alt.Chart(alt.InlineData(values=[{"at": mark}])).mark_rule(color=look.wrong, strokeDash=[4, 3])
    return rule.encode(x="at:Q") + bars + dots


def points(table: pa.Table, *, x_title: str, y_title: str, size_title: str, look: Look = PAPER) -> Any:
    """A circle for every row: columns name, x (a share), y (a number) and size (a count)."""

    def axis(form: str) -> dict[str, Any]:  # without digits: Vega takes as many as tell the ticks apart
        look_of_axis = alt.Axis(format=form, tickCount=8, labelFlush=False)
        return {"axis": look_of_axis, "scale": alt.Scale(zero=False, padding=14)}

    tips = [
        "name:N",
        alt.Tooltip("x:Q", format=".0%", title=x_title),
        alt.Tooltip("y:Q", format=".2f", title=y_title),
    ]
    return (
        alt.Chart(_values(table), width=360, height=320)
        .mark_circle(color=look.right, opacity=0.6)
        .encode(
            x=alt.X("x:Q", title=x_title, **axis("%")),
            y=alt.Y("y:Q", title=y_title, **axis("f")),
            size=alt.Size("size:Q", scale=alt.Scale(range=[20, 260], zero=True), legend=None),
            tooltip=[*tips, alt.Tooltip("size:Q", title=size_title)],
        )
    )


def band(table: pa.Table, *, x: str, x_title: str, y_title: str, mark: float | None = None, look: Look = PAPER) -> Any:
    """A line with the band of its intervals.

    Parameters
    ----------
    table : pa.Table
        Columns ``x``, value, low and high (shares).
    mark : float, optional
        A share to compare with, drawn as a line if the chart reaches it.
    """
    base = alt.Chart(_values(table), width=420, height=220).encode(
        x=alt.X(f"{x}:Q", title=x_title, axis=_count_axis(table[x].to_pylist()))
    )
    share = alt.Axis(format="%", tickCount=8)
    area = base.mark_area(opacity=0.2, color=look.right).encode(
        y=alt.Y("low:Q", title=y_title, axis=share, scale=alt.Scale(zero=False)), y2="high:Q"
    )
    tips = [f"{x}:Q", *(alt.Tooltip(f"{name}:Q", format=".1%") for name in ("value", *ENDS))]
    line = base.mark_line(color=look.right, strokeWidth=1.8, point=True).encode(y="value:Q", tooltip=tips)
    if mark is None or mark > max(table["high"].to_pylist()):
        return area + line
    rule = alt.Chart(alt.InlineData(values=[{"at": mark}])).mark_rule(color=look.wrong, strokeDash=[4, 3])
    return area + line + rule.encode(y="at:Q")


def _count_axis(counts: list[int]) -> alt.Axis:
    low, high = min(counts), max(counts)
    return alt.Axis(values=list(range(low, high + 1)), format="d") if high - low <= FEW_COUNTS else alt.Axis()


def course(table: pa.Table, *, value: str, title: str, kept: int | None = None, look: Look = PAPER) -> Any:
    """A figure after every epoch, a line per member of an ensemble, and where the kept epoch is.

    Parameters
    ----------
    table : pa.Table
        Columns epoch, member and ``value``.
    """
    base = alt.Chart(_values(table), width=320, height=180).encode(
        x=alt.X("epoch:Q", title="epoch", axis=_count_axis(table["epoch"].to_pylist()))
    )
    line = base.mark_line(color=look.right, strokeWidth=1.8).encode(
        y=alt.Y(f"{value}:Q", title=title, scale=alt.Scale(zero=False)), detail="member:N"
    )
    if kept is None:
        return line
    mark = alt.Chart(alt.InlineData(values=[{"epoch": kept}])).mark_rule(color=look.wrong, strokeDash=[4, 3])
    return line + mark.encode(x="epoch:Q")
