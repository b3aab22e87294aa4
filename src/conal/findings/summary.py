"""All findings of a fitted model: the tables of its folder, and the plain data that the page shows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from conal.errors import InputError
from conal.findings.common_confusion import confusion_findings
from conal.findings.evidence import Evidence, plain_names
from conal.findings.intervals import CONFIDENCE, intervals_of
from conal.findings.people import annotators_table, people_findings
from conal.findings.relabel import suggestions, suggestions_table
from conal.findings.tasks import labels_table, task_findings
from conal.metrics import krippendorff_alpha

__all__ = ["REPORT_VERSION", "Findings", "findings_of"]

REPORT_VERSION = 1
MAX_FOR_ALPHA = 2_000_000
"""Annotations up to which the agreement is worth its bootstrap."""


class Findings(NamedTuple):
    """Tables by file name, and ``report.json``."""

    tables: dict[str, pa.Table]
    report: dict[str, Any]


def findings_of(evidence: Evidence, seed: int = 0) -> Findings:
    """What the evidence says about crowd, confusions, annotators and tasks.

    Parameters
    ----------
    evidence : Evidence
    seed : int
        Of the draws behind the intervals; same seed, same intervals.

    Example
    -------
    >>> from conal.data.annotations import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 1]])
    >>> q = np.array([[0.8, 0.2], [0.1, 0.9]])
    >>> found = findings_of(Evidence(crowd, q, q, np.eye(2), np.stack([np.eye(2)] * 3)))
    >>> found.report["crowd"]["n_annotations"], sorted(found.tables)
    (6, ['annotators.csv', 'labels.csv', 'suggestions.csv'])
    """
    intervals = intervals_of(evidence, seed)
    people = annotators_table(evidence, intervals.quality)
    low = people["annotator_quality_low"].to_numpy(zero_copy_only=False).astype(float)
    queue = suggestions(evidence, low)
    confusion = confusion_findings(evidence, intervals.confusion)
    report = {
        "format": "conal-report",
        "format_version": REPORT_VERSION,
        "confidence": CONFIDENCE,
        "classes": plain_names(evidence.annotations.classes),
        "crowd": _crowd(evidence, seed),
        "common_confusion": confusion,
        "annotators": people_findings(evidence, people, np.array(confusion["classes_shown"])),
        "tasks": task_findings(evidence),
        "suggestions": {"total": len(queue), "rows": queue},
    }
    tables = {
        "labels.csv": labels_table(evidence),
        "annotators.csv": people,
        "suggestions.csv": suggestions_table(queue),
    }
    return Findings(tables, report)


def _crowd(evidence: Evidence, seed: int) -> dict[str, Any]:
    """Figures about all labels together. Expected ones are means of posterior probabilities, no measured accuracy."""
    crowd = evidence.annotations
    voted = np.flatnonzero(evidence.majority >= 0)
    q = evidence.posterior[voted]
    changed = evidence.majority[voted] != evidence.inferred[voted]
    rows = np.arange(len(voted))
    right = float(evidence.expected_right.mean()) if crowd.n_annotations else None
    return {
        "n_tasks": crowd.n_tasks,
        "n_tasks_labelled": len(voted),
        "n_annotators": crowd.n_annotators,
        "n_annotators_active": int(np.count_nonzero(crowd.labels_per_annotator())),
        "n_annotations": crowd.n_annotations,
        "n_classes": crowd.n_classes,
        "expected_label_accuracy": right,
        "expected_majority_accuracy": float(q[rows, evidence.majority[voted]].mean()) if len(voted) else None,
        "expected_inferred_accuracy": float(q.max(1).mean()) if len(voted) else None,
        "n_majority_changed": int(changed.sum()),
        "krippendorff_alpha": _alpha(evidence, seed),
    }


def _alpha(evidence: Evidence, seed: int) -> dict[str, float | None] | None:
    """Agreement between annotators, with its interval; None where nobody labelled what another did."""
    crowd = evidence.annotations
    if crowd.n_annotations > MAX_FOR_ALPHA or crowd.labels_per_task().max(initial=0) < 2:
        return None
    try:
        found = krippendorff_alpha(crowd, n_boot=200, confidence=CONFIDENCE, seed=seed)
    except InputError:  # it is not defined for every crowd
        return None
    return {"value": found.value, "low": found.low, "high": found.high}
