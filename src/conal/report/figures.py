"""Altair charts of the page, each as a specification without data; the data stand in the page once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from conal.report.charts import PAGE, course, heat_map, intervals, points
from conal.report.text import short_names

__all__ = ["figures", "matrix_rows"]

MAX_BARS = 40
QUALITY = "probability that a label is right"
DIGITS = 4
"""Decimals of shares in the page; the files have all."""
CURVES = {
    "loss": "training loss",
    "validation_accuracy": "validation accuracy",
    "holdout_log_likelihood": "log-likelihood of held-out labels",
}

Report = dict[str, Any]
Spec = dict[str, Any]


def figures(report: Report) -> dict[str, Spec]:
    """Chart name to Vega-Lite specification; only charts that there is something to show in."""
    made: dict[str, Spec] = {}
    names = shown_names(report)
    if names:
        cells = matrix_rows(report["common_confusion"]["matrix"], names)
        made["common"] = heat_map(pa.Table.from_pylist(cells), "share", look=PAGE).to_dict()
        # The same definition without data serves every annotator that is clicked on.
        made["annotator"] = heat_map(pa.Table.from_pylist(cells), "share", look=PAGE).to_dict()
    pairs = report["common_confusion"]["pairs"]
    if pairs:
        made["pairs"] = intervals(_pair_table(pairs), x_title="share of the labels", look=PAGE).to_dict()
    people = [row for row in report["annotators"]["rows"] if row["annotator_quality"] is not None]
    if people:
        mark = report["crowd"]["expected_label_accuracy"]
        made["people"] = intervals(_people_table(people), x_title=QUALITY, mark=mark, look=PAGE).to_dict()
    told = [row for row in people if row["common_mistake_share"] is not None]
    if len(told) > 1:
        titles = {
            "x_title": QUALITY,
            "y_title": "share of mistakes that go where everybody's go",
            "size_title": "labels",
        }
        made["mistakes"] = points(_mistake_table(told), **titles, look=PAGE).to_dict()
    return made | _curves(report)


def shown_names(report: Report) -> list[str]:
    """The classes that matrices show, as the page calls them."""
    names = short_names(report["classes"], 24)
    return [names[k] for k in report["common_confusion"]["classes_shown"]]


def matrix_rows(matrix: list[list[float]], names: list[str]) -> list[dict[str, Any]]:
    """A row per cell."""
    return [
        {"true": true, "observed": observed, "share": round(matrix[c][k], DIGITS)}
        for c, true in enumerate(names)
        for k, observed in enumerate(names)
    ]


def _pair_table(pairs: list[dict[str, Any]]) -> pa.Table:
    names = short_names([f"{short_names([p['true']], 18)[0]} → {short_names([p['observed']], 18)[0]}" for p in pairs])
    return _interval_table(names, pairs, "share", "low", "high")


def _people_table(people: list[dict[str, Any]]) -> pa.Table:
    """Those with the most expected mistakes, best first."""
    some = sorted(people[:MAX_BARS], key=lambda row: -row["annotator_quality"])
    names = short_names([row["worker"] for row in some], 28)
    return _interval_table(names, some, "annotator_quality", "annotator_quality_low", "annotator_quality_high")


def _mistake_table(people: list[dict[str, Any]]) -> pa.Table:
    columns = {"x": "annotator_quality", "y": "common_mistake_share", "size": "num_examples_labeled"}
    names = short_names([row["worker"] for row in people], 28)
    return pa.table({"name": names} | {c: [round(row[k], DIGITS) for row in people] for c, k in columns.items()})


def _interval_table(names: list[str], rows: list[dict[str, Any]], *columns: str) -> pa.Table:
    ends = zip(("value", "low", "high"), columns, strict=True)
    return pa.table({"name": names} | {end: [round(row[column], DIGITS) for row in rows] for end, column in ends})


def _curves(report: Report) -> dict[str, Spec]:
    history, metrics = report["model"]["history"], report["model"]["metrics"]
    kept = None if metrics["selection"] == "last" or "ensemble" in metrics else metrics["best_epoch"]
    made = {}
    for name, title in CURVES.items():
        rows = [
            {"epoch": row["epoch"], "member": row.get("member", 1), name: float(f"{row[name]:.5g}")}
            for row in history
            if row.get(name) is not None
        ]
        if len(rows) > 1:
            made[f"curve_{name}"] = course(
                pa.Table.from_pylist(rows), value=name, title=title, kept=kept, look=PAGE
            ).to_dict()
    return made
