"""Charts from plain tables: numbers where readers look for them, and user text that stays text."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa

from conal.report.charts import LABEL_GAP, _end_labels, heat_maps, lines, save


def test_lines_have_error_bars_and_labels_at_their_ends(tmp_path: Path) -> None:
    table = pa.table(
        {
            "strength": [0.4, 0.6, 0.4, 0.6],
            "series": ["one", "one", "<b>two", "<b>two"],
            "mean": [80.0, 70.0, 85.0, 82.0],
            "spread": [1.0, 2.0, 0.5, 0.5],
        }
    )
    chart = lines(table, x="strength", x_title="common strength", y_title="test accuracy (%)", title="A title")
    svg, png = save(chart, tmp_path / "lines")
    text = svg.read_text(encoding="utf-8")
    for word in ("common strength", "test accuracy (%)", "A title", ">one<", "&lt;b&gt;two"):
        assert word in text, word
    assert "<b>" not in text
    assert png.read_bytes().startswith(b"\x89PNG")


def test_heat_maps_write_their_numbers(tmp_path: Path) -> None:
    table = pa.table(
        {"set": ["s", "s"], "true": ["a", "b"], "observed": ["b", "a"], "share": [0.25, 0.5]},
    )
    svg, _ = save(heat_maps(table, "share", by="set", title="T"), tmp_path / "map")
    text = svg.read_text(encoding="utf-8")
    assert ">25<" in text
    assert ">50<" in text


def test_labels_at_the_ends_do_not_stand_on_each_other() -> None:
    table = pa.table(
        {"x": [0, 1, 0, 1, 0, 1], "series": ["a", "a", "b", "b", "c", "c"], "mean": [0.0, 50.0, 100.0, 50.1, 0.0, 90.0]}
    )
    labels = {row["series"]: row for row in _end_labels(table, "x").to_pylist()}
    assert all(row["x"] == 1 for row in labels.values())
    at = sorted(row["at"] for row in labels.values())
    assert min(b - a for a, b in itertools.pairwise(at)) >= LABEL_GAP * 100 - 1e-9
    assert labels["a"]["at"] < labels["b"]["at"] < labels["c"]["at"]
    assert labels["c"]["at"] == 90  # far from the others, and left where it is
