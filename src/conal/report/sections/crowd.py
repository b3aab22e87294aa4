"""All labels together: how many there are, how many are right, and how far annotators agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from markupsafe import Markup

from conal.errors import InputError
from conal.metrics import krippendorff_alpha
from conal.report.evidence import BELIEF, MEASURED, Evidence, Plain, Report
from conal.report.findings import Finding, Findings, register
from conal.report.intervals import CONFIDENCE
from conal.report.wording import count, percent

MAX_FOR_ALPHA = 2_000_000
"""With more annotations than this, the agreement is not worth its bootstrap."""


@register("crowd")
class Crowd(Finding):
    """Counts, expected accuracies and agreement; the page shows the counts in its header.

    *Alpha*: Krippendorff's alpha with its interval. Keys: ``value``, ``low``, ``high``.

    *CrowdSection*: Counts, and shares of right labels, of majority votes and of inferred labels. ``basis`` says of
    each share whether it was measured by true labels or is the model's belief. ``believed_label_accuracy`` is the
    belief where the first was measured, to compare annotators with who were not. Keys: ``n_tasks``,
    ``n_tasks_labelled``, ``n_annotators``, ``n_annotators_active``, ``n_annotations``, ``n_classes``,
    ``expected_label_accuracy``, ``expected_majority_accuracy``, ``expected_inferred_accuracy``, ``basis`` (not
    always), ``believed_label_accuracy`` (not always), ``n_majority_changed``, ``krippendorff_alpha``.
    """

    rank = 10

    def section(self, findings: Findings) -> Plain:
        """Figures about all labels together."""
        evidence = findings.evidence
        crowd = evidence.annotations
        voted = np.flatnonzero(evidence.majority >= 0)
        q = evidence.posterior[voted]
        changed = evidence.majority[voted] != evidence.inferred[voted]
        rows = np.arange(len(voted))
        given = crowd.labels_per_annotator()
        right = float(findings.intervals.quality.value @ given / given.sum()) if crowd.n_annotations else None
        shares = {
            "expected_label_accuracy": right,
            "expected_majority_accuracy": float(q[rows, evidence.majority[voted]].mean()) if len(voted) else None,
            "expected_inferred_accuracy": float(q.max(1).mean()) if len(voted) else None,
        }
        section: Plain = {
            "n_tasks": crowd.n_tasks,
            "n_tasks_labelled": len(voted),
            "n_annotators": crowd.n_annotators,
            "n_annotators_active": int(np.count_nonzero(given)),
            "n_annotations": crowd.n_annotations,
            "n_classes": crowd.n_classes,
            **shares,
            "basis": dict.fromkeys(shares, BELIEF),
            "n_majority_changed": int(changed.sum()),
            "krippendorff_alpha": _alpha(evidence, findings.seed),
        }
        if evidence.measured is not None and right is not None:
            section["believed_label_accuracy"] = right
            found = (evidence.measured.crowd, evidence.measured.majority, evidence.measured.cleaned)
            for name, rate in zip(shares, found, strict=True):
                if np.isfinite(rate.value):
                    section[name] = rate.value
                    section["basis"][name] = MEASURED
        return section

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """How often the inferred label differs from the majority vote."""
        changed = section["n_majority_changed"]
        if not section["n_tasks_labelled"]:
            return
        if changed:
            yield Markup("The inferred labels differ from the majority vote on <b>{}</b> ({}).").format(
                count(changed, "task", "tasks"), percent(changed / section["n_tasks_labelled"], 1)
            )
        else:
            yield Markup("The inferred label equals the majority vote on <b>every task</b>.")


def _alpha(evidence: Evidence, seed: int) -> Plain | None:
    """Agreement between annotators; None if no task has two labels, or if it is not defined for this crowd."""
    crowd = evidence.annotations
    if crowd.n_annotations > MAX_FOR_ALPHA or crowd.labels_per_task().max(initial=0) < 2:
        return None
    try:
        level: Literal["ordinal", "nominal"] = "ordinal" if crowd.ordinal else "nominal"
        found = krippendorff_alpha(crowd, level, n_boot=200, confidence=CONFIDENCE, seed=seed)
    except InputError:
        return None
    return found._asdict()
