"""All labels together: how many there are, how many are right, and how far annotators agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np
from markupsafe import Markup

from conal.errors import InputError
from conal.findings.base import Finding, register
from conal.findings.evidence import Evidence
from conal.findings.intervals import CONFIDENCE
from conal.findings.wording import count, percent
from conal.metrics import krippendorff_alpha

if TYPE_CHECKING:
    from conal.findings.collection import Findings
    from conal.findings.report import Report

__all__ = ["Crowd", "CrowdSection"]

MAX_FOR_ALPHA = 2_000_000
"""With more annotations than this, the agreement is not worth its bootstrap."""


class Alpha(TypedDict):
    """Krippendorff's alpha with its interval."""

    value: float
    low: float | None
    high: float | None


class CrowdSection(TypedDict):
    """Counts, and accuracies that the model expects: means of posterior probabilities, not measurements."""

    n_tasks: int
    n_tasks_labelled: int
    n_annotators: int
    n_annotators_active: int
    n_annotations: int
    n_classes: int
    expected_label_accuracy: float | None
    expected_majority_accuracy: float | None
    expected_inferred_accuracy: float | None
    n_majority_changed: int
    krippendorff_alpha: Alpha | None


@register("crowd")
class Crowd(Finding[CrowdSection]):
    """Counts, expected accuracies and agreement; the page shows the counts in its header."""

    rank = 10

    def section(self, findings: Findings) -> CrowdSection:
        """Figures about all labels together."""
        evidence = findings.evidence
        crowd = evidence.annotations
        voted = np.flatnonzero(evidence.majority >= 0)
        q = evidence.posterior[voted]
        changed = evidence.majority[voted] != evidence.inferred[voted]
        rows = np.arange(len(voted))
        given = crowd.labels_per_annotator()
        right = float(findings.intervals.quality.value @ given / given.sum()) if crowd.n_annotations else None
        return {
            "n_tasks": crowd.n_tasks,
            "n_tasks_labelled": len(voted),
            "n_annotators": crowd.n_annotators,
            "n_annotators_active": int(np.count_nonzero(given)),
            "n_annotations": crowd.n_annotations,
            "n_classes": crowd.n_classes,
            "expected_label_accuracy": right,
            "expected_majority_accuracy": float(q[rows, evidence.majority[voted]].mean()) if len(voted) else None,
            "expected_inferred_accuracy": float(q.max(1).mean()) if len(voted) else None,
            "n_majority_changed": int(changed.sum()),
            "krippendorff_alpha": _alpha(evidence, findings.seed),
        }

    def headlines(self, section: CrowdSection, report: Report) -> Iterator[Markup]:
        """How many labels are right, and how often the cleaned label differs from the majority vote."""
        if section["expected_label_accuracy"] is not None:
            yield _labels(section)
        if section["n_tasks_labelled"]:
            yield _cleaning(section)


def _labels(crowd: CrowdSection) -> Markup:
    per_task = crowd["n_annotations"] / max(crowd["n_tasks_labelled"], 1)
    return Markup(
        "The model estimates that <b>{}</b> of the labels are right: {} by {} on {}, {:.1f} per task."
    ).format(
        percent(crowd["expected_label_accuracy"]),
        count(crowd["n_annotations"], "label", "labels"),
        count(crowd["n_annotators_active"], "annotator", "annotators"),
        count(crowd["n_tasks_labelled"], "task", "tasks"),
        per_task,
    )


def _cleaning(crowd: CrowdSection) -> Markup:
    changed = crowd["n_majority_changed"]
    if not changed:
        return Markup(
            "The cleaned label equals the majority vote on <b>every task</b>; the model expects {} of them to be right."
        ).format(percent(crowd["expected_inferred_accuracy"]))
    return Markup(
        "The cleaned labels differ from the majority vote on <b>{}</b> ({}). The model expects {} of the majority "
        "votes and {} of the cleaned labels to be right."
    ).format(
        count(changed, "task", "tasks"),
        percent(changed / crowd["n_tasks_labelled"], 1),
        percent(crowd["expected_majority_accuracy"]),
        percent(crowd["expected_inferred_accuracy"]),
    )


def _alpha(evidence: Evidence, seed: int) -> Alpha | None:
    """Agreement between annotators; None if no task has two labels, or if it is not defined for this crowd."""
    crowd = evidence.annotations
    if crowd.n_annotations > MAX_FOR_ALPHA or crowd.labels_per_task().max(initial=0) < 2:
        return None
    try:
        level: Literal["ordinal", "nominal"] = "ordinal" if crowd.ordinal else "nominal"
        found = krippendorff_alpha(crowd, level, n_boot=200, confidence=CONFIDENCE, seed=seed)
    except InputError:
        return None
    return {"value": found.value, "low": found.low, "high": found.high}
