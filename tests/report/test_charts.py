"""Charts from plain tables: numbers where readers look for them, and user text that stays text."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import numpy as np
import pytest
import vl_convert

from conal.report.charts import (
    SCREEN,
    band,
    correlation_map,
    course,
    intervals,
    points,
)


def rows(**columns: Any) -> list[dict[str, Any]]:
    """Rows from columns of numbers and names."""
    values = [np.asarray(column).tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def ticks(chart: Any) -> list[list[str]]:
    """The labels of every axis, as they are drawn."""
    drawn = vl_convert.vegalite_to_svg(json.dumps(chart.to_dict()))
    axes = re.findall(r"role-axis-label.*?</g>", drawn, re.DOTALL)
    return [re.findall(r"<text[^>]*>([^<]*)</text>", axis) for axis in axes]


@pytest.mark.parametrize("spread", [0.7, 0.16, 0.02, 0.003])
def test_no_tick_of_an_axis_is_repeated(spread: float) -> None:
    values = np.linspace(0.2, 0.2 + spread, 5)
    ends = {"low": values - spread / 10, "high": values + spread / 10}
    made = [
        intervals(rows(name=list("abcde"), value=values, **ends), x_title="x", mark=0.2),
        points(
            rows(name=list("abcde"), x=values, y=values - 0.2, size=[9] * 5),
            x_title="x",
            y_title="y",
            size_title="n",
        ),
        band(rows(labels=range(5), accuracy=values, **ends), x_title="x", y_title="y"),
    ]
    for axis in itertools.chain.from_iterable(map(ticks, made)):
        assert len(axis) == len(set(axis)) > 1, axis


@pytest.mark.parametrize("n", [2, 3, 5, 12, 60])
def test_counts_have_ticks_at_whole_numbers(n: int) -> None:
    values = np.linspace(0.5, 0.9, n)
    epochs = rows(epoch=range(1, n + 1), member=[1] * n, loss=values)
    labels = rows(labels=range(n), accuracy=values, low=values, high=values)
    for chart in (
        course(epochs, value="loss", title="loss"),
        band(labels, x_title="further labels", y_title="right labels"),
    ):
        found = ticks(chart)[0]
        assert len(found) > 1
        assert all(tick.isdigit() for tick in found), found


def test_a_map_of_pairs_keeps_the_order_and_tells_signs_apart() -> None:
    pairs = rows(row=["b", "<i>a", "b", "c"], column=["<i>a", "b", "c", "b"], value=[0.8, 0.8, -0.25, -0.25])
    chart = correlation_map(pairs, ["b", "<i>a", "c"], look=SCREEN)
    text = vl_convert.vegalite_to_svg(json.dumps(chart.to_dict()))
    assert "<i>" not in text
    assert text.index(">b<") < text.index(">&lt;i&gt;a<") < text.index(">c<")
    assert text.count(f'fill="{SCREEN.wrong}"') == text.count(f'fill="{SCREEN.right}"') == 2
    assert text.count(">0.8<") == 2
    assert text.count(">\u22120.3<") + text.count(">\u22120.2<") == 2  # Vega's minus sign
    many = [str(k) for k in range(60)]
    narrow = correlation_map(rows(row=["0"], column=["1"], value=[0.5]), many)
    assert narrow.to_dict()["width"] == 660
    assert "layer" not in narrow.to_dict()  # no room for numbers
