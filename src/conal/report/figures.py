"""The charts of the report, from its content: for the page as Vega-Lite specifications, elsewhere as Altair charts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from conal.findings import Report
from conal.findings.annotators import AnnotatorRow, mostly_measured
from conal.findings.common_confusion import ConfusedPair
from conal.findings.evidence import BELIEF, MEASURED
from conal.findings.wording import called, short_names
from conal.report.charts import PAGE, Look, band, correlation_map, course, heat_map, intervals, points

__all__ = [
    "annotators",
    "common_confusion",
    "confused_pairs",
    "confusion_map",
    "curve",
    "errors_together",
    "figures",
    "groups",
    "matrix_rows",
    "more_labels",
    "shared_mistakes",
    "shown_names",
]

MAX_BARS = 40
"""Annotators in the chart of qualities."""
MAX_GROUPS = 6
"""Groups whose matrices are drawn."""
QUALITY = "share of right labels"
DIGITS = 4
"""Decimals of shares on the page; the files have all."""
CURVES = {
    "loss": "training loss",
    "validation_accuracy": "validation accuracy",
    "holdout_log_likelihood": "log-likelihood of held-out labels",
}

Spec = dict[str, Any]


def figures(report: Report) -> dict[str, Spec]:
    """Chart name to Vega-Lite specification, in the page's colours; only charts that have something to show."""
    made = {name: chart(report, PAGE) for name, chart in CHARTS.items()}
    made |= {f"group_{k}": chart for k, (_, chart) in enumerate(groups(report, PAGE))}
    specs = {name: chart.to_dict() for name, chart in made.items() if chart is not None}
    if "common" in specs:
        # The same definition serves every annotator whose name is clicked; the script puts the numbers in.
        specs["annotator"] = specs["common"]
    return specs


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


def common_confusion(report: Report, look: Look) -> Any:
    """The common confusion matrix, as learned."""
    return confusion_map(report["common_confusion"]["matrix"], shown_names(report), look)


def confusion_map(matrix: list[list[float]], names: list[str], look: Look) -> Any:
    """A matrix of these classes; None if there are none."""
    return heat_map(pa.Table.from_pylist(matrix_rows(matrix, names)), "share", look=look) if names else None


def confused_pairs(report: Report, look: Look) -> Any:
    """The most frequent mistakes of the crowd."""
    pairs = report["common_confusion"]["pairs"]
    return intervals(_pair_table(pairs), x_title="share of the labels", look=look) if pairs else None


def annotators(report: Report, look: Look) -> Any:
    """The annotators' quality."""
    people = _people(report)
    mark = report["crowd"]["expected_label_accuracy"]
    if not mostly_measured(people):
        mark = report["crowd"].get("believed_label_accuracy", mark)
    return intervals(_people_table(people), x_title=_quality(people), mark=mark, look=look) if people else None


def shared_mistakes(report: Report, look: Look) -> Any:
    """Whether the annotators' mistakes are those of the others, against their quality."""
    told = [row for row in _people(report) if row.get("co_direction") is not None]
    titles = {"x_title": _quality(told), "y_title": "co-direction with the others", "size_title": "labels"}
    return points(_mistake_table(told), **titles, look=look) if len(told) > 1 else None


def errors_together(report: Report, look: Look) -> Any:
    """Who of a jury errs with whom; None where there is no jury."""
    found = report["jury"]["map"] if "jury" in report else None
    if found is None or len(found["workers"]) < 2:
        return None
    names = short_names([_name_of(report, worker) for worker in found["workers"]], 24)
    cells = [
        {"row": row, "column": column, "value": value}
        for row, values in zip(names, found["correlation"], strict=False)
        for column, value in zip(names, values, strict=False)
        if value is not None
    ]
    return correlation_map(pa.Table.from_pylist(cells), names, look=look) if cells else None


def groups(report: Report, look: Look) -> list[tuple[str, Any]]:
    """The names of the largest groups of annotators, and the confusion matrix of each; none where there are none."""
    rows = report["groups"]["rows"][:MAX_GROUPS] if "groups" in report else []
    names = short_names([row["group"] for row in rows], 40)
    maps = [confusion_map(row["matrix"], shown_names(report), look) for row in rows]
    return list(zip(names, maps, strict=True))


def _name_of(report: Report, worker: Any) -> Any:
    """What readers call an annotator of the jury."""
    return next((called(row) for row in report["jury"]["judges"] if row["worker"] == worker), worker)


def more_labels(report: Report, look: Look) -> Any:
    """The expected accuracy against further labels, as planned; None where none is worth asking for."""
    if "plan" not in report or len(report["plan"]["curve"]) < 2:
        return None
    points = report["plan"]["curve"]
    columns = {"labels": [point["labels"] for point in points], "value": [_rounded(p["accuracy"]) for p in points]}
    columns |= {"low": [_rounded(p["low"]) for p in points], "high": [_rounded(p["high"]) for p in points]}
    titles = {"x_title": "further labels", "y_title": "right labels, as believed"}
    return band(pa.table(columns), x="labels", **titles, mark=report["plan"]["goal"], look=look)


def curve(report: Report, look: Look, name: str) -> Any:
    """A figure after every epoch of the training; None where it was not noted."""
    if "model" not in report:
        return None
    metrics = report["model"]["metrics"]
    kept = None if metrics["selection"] == "last" or "ensemble" in metrics else metrics["best_epoch"]
    rows = [
        {"epoch": row["epoch"], "member": row.get("member", 1), name: float(f"{row[name]:.5g}")}
        for row in report["model"]["history"]
        if row.get(name) is not None
    ]
    if len(rows) < 2:
        return None
    return course(pa.Table.from_pylist(rows), value=name, title=CURVES[name], kept=kept, look=look)


CHARTS: dict[str, Callable[[Report, Look], Any]] = {
    "common": common_confusion,
    "pairs": confused_pairs,
    "people": annotators,
    "mistakes": shared_mistakes,
    "errors": errors_together,
    "plan": more_labels,
    **{f"curve_{name}": partial(curve, name=name) for name in CURVES},
}
"""The charts, by their names on the page."""


def _people(report: Report) -> list[AnnotatorRow]:
    return [row for row in report["annotators"]["rows"] if row["annotator_quality"] is not None]


def _quality(people: list[AnnotatorRow]) -> str:
    """What the axis of qualities says that they are."""
    return QUALITY if any(row.get("quality_basis") == MEASURED for row in people) else f"{QUALITY}, as believed"


def _pair_table(pairs: list[ConfusedPair]) -> pa.Table:
    names = short_names([f"{short_names([p['true']], 18)[0]} → {short_names([p['observed']], 18)[0]}" for p in pairs])
    return _interval_table(names, [(pair["share"], pair["low"], pair["high"]) for pair in pairs])


def _people_table(people: list[AnnotatorRow]) -> pa.Table:
    """The first of the report, in its order."""
    some = people[:MAX_BARS]
    mixed = any(row.get("quality_basis") == MEASURED for row in some)
    marks = [" (belief)" if mixed and row.get("quality_basis") == BELIEF else "" for row in some]
    names = [f"{name}{mark}" for name, mark in zip(short_names([called(row) for row in some], 28), marks, strict=True)]
    ends = [(row["annotator_quality"], row["annotator_quality_low"], row["annotator_quality_high"]) for row in some]
    return _interval_table(names, ends)


def _mistake_table(people: list[AnnotatorRow]) -> pa.Table:
    return pa.table(
        {
            "name": short_names([called(row) for row in people], 28),
            "x": [_rounded(row["annotator_quality"]) for row in people],
            "y": [_rounded(row.get("co_direction")) for row in people],
            "size": [row["num_examples_labeled"] for row in people],
        }
    )


def _interval_table(names: list[str], rows: Sequence[tuple[float | None, ...]]) -> pa.Table:
    columns = zip(("value", "low", "high"), zip(*rows, strict=True), strict=True)
    return pa.table({"name": names} | {column: [_rounded(share) for share in shares] for column, shares in columns})


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, DIGITS)
