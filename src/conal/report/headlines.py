"""The most important sentences of all findings."""

from __future__ import annotations

from typing import Any, cast

from markupsafe import Markup

from conal.findings import Report
from conal.findings.base import all_findings
from conal.findings.gold_rates import measured_lead
from conal.findings.wording import percent

__all__ = ["headlines", "lead"]


def headlines(report: Report) -> list[Markup]:
    """The headlines, most important first; findings without a headline are left out."""
    sections = cast(dict[str, Any], report)
    present = [finding for finding in all_findings() if finding.name in sections]
    return [sentence for finding in present for sentence in finding.headlines(sections[finding.name], report)]


MEASURE = {
    "model": "<code>conal plan MODEL --experts 50 --out plan.csv</code> chooses them for "
    "<code>conal fit --true-labels</code>",
    "aggregation": "label fifty random ones and pass <code>conal aggregate --true-labels FILE</code>",
}


def lead(report: Report) -> Markup:
    """The first lines of the page: how many labels are right, and whether that was measured or is believed."""
    if "gold_rates" in report:
        return measured_lead(report["gold_rates"])
    crowd = report["crowd"]
    if crowd["expected_label_accuracy"] is None:
        return Markup("")
    return Markup(
        "<b>The model believes</b> that {} of the inferred labels, {} of the majority votes and {} of the annotators' "
        "labels are right; nothing was measured. Such beliefs are too high where annotators err alike, as language "
        "models do (figures of eight juries: docs/results.md). True labels of fifty tasks measure it: {}."
    ).format(
        percent(crowd["expected_inferred_accuracy"]),
        percent(crowd["expected_majority_accuracy"]),
        percent(crowd["expected_label_accuracy"]),
        Markup(MEASURE["model" if "model" in report else "aggregation"]),  # noqa: S704 - a constant
    )
