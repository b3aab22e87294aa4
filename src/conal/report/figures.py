"""Altair charts of the page, as Vega-Lite specifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from conal.findings import Report
from conal.findings.annotators import AnnotatorRow
from conal.findings.common_confusion import ConfusedPair
from conal.findings.model import ModelSection
from conal.findings.wording import short_names
from conal.report.charts import PAGE, course, heat_map, intervals, points

__all__ = ["figures", "matrix_rows", "shown_names"]

MAX_BARS = 40
"""Annotators in the chart of qualities."""
QUALITY = "probability that a label is right"
DIGITS = 4
"""Decimals of shares on the page; the files have all."""
CURVES = {
    "loss": "training loss",
    "validation_accuracy": "validation accuracy",
    "holdout_log_likelihood": "log-likelihood of held-out labels",
}

Spec = dict[str, Any]


def figures(report: Report) -> dict[str, Spec]:
    """Chart name to Vega-Lite specification; only charts that have something to show."""
    return _confusion(report) | _quality(report) | _curves(report["model"])


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


def _confusion(report: Report) -> dict[str, Spec]:
    section, names = report["common_confusion"], shown_names(report)
    made: dict[str, Spec] = {}
    if names:
        cells = pa.Table.from_pylist(matrix_rows(section["matrix"], names))
        made["common"] = heat_map(cells, "share", look=PAGE).to_dict()
        # The same definition serves every annotator whose name is clicked; the script puts the numbers in.
        made["annotator"] = heat_map(cells, "share", look=PAGE).to_dict()
    if section["pairs"]:
        made["pairs"] = intervals(_pair_table(section["pairs"]), x_title="share of the labels", look=PAGE).to_dict()
    return made


def _quality(report: Report) -> dict[str, Spec]:
    people = [row for row in report["annotators"]["rows"] if row["annotator_quality"] is not None]
    made: dict[str, Spec] = {}
    if people:
        mark = report["crowd"]["expected_label_accuracy"]
        made["people"] = intervals(_people_table(people), x_title=QUALITY, mark=mark, look=PAGE).to_dict()
    told = [row for row in people if row["common_mistake_share"] is not None]
    if len(told) > 1:
        titles = {"x_title": QUALITY, "y_title": "share of common mistakes", "size_title": "labels"}
        made["mistakes"] = points(_mistake_table(told), **titles, look=PAGE).to_dict()
    return made


def _pair_table(pairs: list[ConfusedPair]) -> pa.Table:
    names = short_names([f"{short_names([p['true']], 18)[0]} → {short_names([p['observed']], 18)[0]}" for p in pairs])
    return _interval_table(names, [(pair["share"], pair["low"], pair["high"]) for pair in pairs])


def _people_table(people: list[AnnotatorRow]) -> pa.Table:
    """Those with the most expected mistakes, best first."""
    some = sorted(people[:MAX_BARS], key=lambda row: -(row["annotator_quality"] or 0.0))
    names = short_names([row["worker"] for row in some], 28)
    ends = [(row["annotator_quality"], row["annotator_quality_low"], row["annotator_quality_high"]) for row in some]
    return _interval_table(names, ends)


def _mistake_table(people: list[AnnotatorRow]) -> pa.Table:
    return pa.table(
        {
            "name": short_names([row["worker"] for row in people], 28),
            "x": [_rounded(row["annotator_quality"]) for row in people],
            "y": [_rounded(row["common_mistake_share"]) for row in people],
            "size": [row["num_examples_labeled"] for row in people],
        }
    )


def _interval_table(names: list[str], rows: Sequence[tuple[float | None, ...]]) -> pa.Table:
    columns = zip(("value", "low", "high"), zip(*rows, strict=True), strict=True)
    return pa.table({"name": names} | {column: [_rounded(share) for share in shares] for column, shares in columns})


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, DIGITS)


def _curves(model: ModelSection) -> dict[str, Spec]:
    metrics = model["metrics"]
    kept = None if metrics["selection"] == "last" or "ensemble" in metrics else metrics["best_epoch"]
    made = {}
    for name, title in CURVES.items():
        rows = [
            {"epoch": row["epoch"], "member": row.get("member", 1), name: float(f"{row[name]:.5g}")}
            for row in model["history"]
            if row.get(name) is not None
        ]
        if len(rows) > 1:
            chart = course(pa.Table.from_pylist(rows), value=name, title=title, kept=kept, look=PAGE)
            made[f"curve_{name}"] = chart.to_dict()
    return made
