"""Labels that contradict the votes and either Dawid-Skene or most annotators: the model may be upside down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from conal.report.evidence import Evidence
from conal.report.section import Finding, Plain, Report, percent, register

if TYPE_CHECKING:
    from conal.report.findings import Findings


AGAINST_VOTES = 0.25
"""Least share of tasks whose label has fewer votes than another. Where colluders win `xconal` over, it is more.

Models that are right reach more, too, where most annotators guess or make the same mistakes, but these agree with
Dawid-Skene.
"""
AGAINST_DAWID_SKENE = 0.7
"""Least share of tasks for which Dawid-Skene infers another label, which is nearly all with these colluders.

Real crowds stay far below, and simulated crowds of guessers, where Dawid-Skene itself is weak, below.
"""
LEAST_TASKS = 100
"""On fewer labelled tasks such shares are chance."""


@register("contradiction")
class Contradiction(Finding):
    """A warning; most crowds have no such section.

    *ContradictionSection*: On which share of the labelled tasks the inferred label contradicts the votes, and Dawid-
    Skene's label. ``exchanged_share`` is the share of labels by annotators who exchange classes in one way, if it is
    more than half. Keys: ``text``, ``against_votes``, ``against_dawid_skene``, ``exchanged_share`` (not always).
    """

    rank = 5
    title = "The labels contradict the crowd"

    def applies(self, evidence: Evidence) -> bool:
        """Only where both are contradicted widely."""
        return contradiction(evidence) is not None

    def section(self, findings: Findings) -> Plain:
        """Both shares, and what they mean."""
        found = contradiction(findings.evidence)
        assert found is not None  # noqa: S101 - it applies
        return found

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """The warning."""
        yield Markup("<b>Warning:</b> {}").format(section["text"])


def contradiction(evidence: Evidence) -> Plain | None:
    """Whether the inferred labels contradict the votes and, widely, Dawid-Skene or most annotators; None if not.

    A group of annotators who all make the same exchange of classes explains the labels as well as the truth does. A
    model that follows the group flags everybody else. Dawid-Skene may fall for it too; then more than half of the
    labels follow one exchange of classes. Both are only looked at where the votes are contradicted already.
    """
    labelled = np.flatnonzero(evidence.annotations.labels_per_task())
    if len(labelled) < LEAST_TASKS:
        return None
    label = evidence.inferred[labelled]
    votes = evidence.votes[labelled]
    outvoted = float((votes[np.arange(len(label)), label] < votes.max(1)).mean())
    if outvoted < AGAINST_VOTES:
        return None
    apart = float((evidence.dawid_skene[labelled] != label).mean())
    trained = evidence.classifier is not None
    found: Plain
    found = {"text": "", "against_votes": outvoted, "against_dawid_skene": apart}
    if apart >= AGAINST_DAWID_SKENE:
        return found | {"text": _text(outvoted, apart, trained=trained)}
    exchanged = evidence.detections.upside_down
    return found | {"text": _exchanged(outvoted, exchanged), "exchanged_share": exchanged} if exchanged else None


def _exchanged(outvoted: float, exchanged: float) -> str:
    return (
        f"the inferred labels contradict the votes on {percent(outvoted)} of the tasks, and {percent(exchanged)} "
        "of the labels are by annotators who seem to exchange the classes in one way. Rather a smaller group does, and "
        "has turned the model upside down: all figures about annotators are then wrong. Label a few dozen tasks "
        "yourself and pass them as true labels."
    )


def _text(outvoted: float, apart: float, *, trained: bool) -> str:
    remedy = "Train for more epochs, label" if trained else "Label"
    return (
        f"the inferred labels contradict the votes on {percent(outvoted)} of the tasks and Dawid-Skene on "
        f"{percent(apart)}. Either the model has not learned, or a group of annotators who exchange classes in the "
        "same way has turned it upside down: all figures about annotators are then wrong. "
        f"{remedy} a few dozen tasks yourself and compare them with labels.csv, and with conal aggregate --method "
        "dawid-skene."
    )
