"""May models replace people? The alternative annotator test, where it is known who is a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypedDict

from markupsafe import Markup

from conal.errors import InputError
from conal.findings.base import Finding, register
from conal.findings.evidence import Evidence, plain
from conal.findings.panel import Panel
from conal.findings.wording import percent, short
from conal.metrics.replacement import Replacement, replacement_test

if TYPE_CHECKING:
    from conal.findings.collection import Findings
    from conal.findings.report import Report

__all__ = ["ReplacementFinding", "ReplacementSection"]

PEOPLE = ("human", "humans", "people", "person", "persons")
"""Groups of people, in lower case; all other groups are models."""
EPSILON = 0.2
"""What a person's label costs more than a model's, as agreement: that of experts."""


class VerdictRow(TypedDict):
    """The verdict about one model."""

    model: Any
    winning_share: float
    advantage_share: float
    people: int
    replaces: bool


class ReplacementSection(TypedDict):
    """A verdict per model, the best first, or the reason why there is none."""

    epsilon: float
    rows: list[VerdictRow]
    reason: str


@register("replacement")
class ReplacementFinding(Finding[ReplacementSection]):
    """Whether models agree with people as well as people agree with each other."""

    rank = 28
    title = "May models replace people?"

    def applies(self, evidence: Evidence) -> bool:
        """Where groups say who is a person, and there are others."""
        people, models = _parts(evidence)
        return bool(people) and bool(models)

    def section(self, findings: Findings) -> ReplacementSection:
        """The test, or why it cannot be made."""
        evidence = findings.evidence
        people, models = _parts(evidence)
        try:
            found = replacement_test(evidence.annotations, models, people=people, epsilon=EPSILON)
        except InputError as error:
            return {"epsilon": EPSILON, "rows": [], "reason": str(error)}
        rows = sorted(map(_row, found), key=lambda row: (-row["winning_share"], -row["advantage_share"]))
        return {"epsilon": EPSILON, "rows": rows, "reason": ""}

    def headlines(self, section: ReplacementSection, report: Report) -> Iterator[Markup]:
        """Which models may."""
        good = [short(row["model"], 30) for row in section["rows"] if row["replaces"]]
        if good:
            yield Markup("<b>{}</b> of {} models agree with people as well as people do with each other: {}.").format(
                len(good), len(section["rows"]), ", ".join(good[:6])
            )
        elif section["rows"]:
            yield Markup("No model agrees with people as well as people agree with each other.")

    def panel(self, section: ReplacementSection) -> Panel:
        """A row per model."""
        text = section["reason"] or (
            "The alternative annotator test (Calderon, Reichart and Dror 2025): a model takes the place of each person "
            "in turn, and must agree with the other people nearly as well. It may replace people if it can stand in "
            f"for at least half of them; a person may be better by {section['epsilon']:g}, because models cost less. "
            "Mistakes that a model shares with most people are invisible to this test."
        )
        headings = ("model", "may replace people", "stands in for", "agrees at least as well", "people compared")
        rows = [
            (
                row["model"],
                "yes" if row["replaces"] else "no",
                percent(row["winning_share"]),
                percent(row["advantage_share"]),
                row["people"],
            )
            for row in section["rows"]
        ]
        return Panel(self.title, text, headings, rows, None)


def _parts(evidence: Evidence) -> tuple[list[Any], list[Any]]:
    """Names of the people and of the models, with labels and a group, who may be told."""
    if evidence.groups is None:
        return [], []
    shown = evidence.told & (evidence.annotations.labels_per_annotator() > 0)
    names = evidence.annotations.annotator_ids.tolist()
    known = [
        (name, str(group).casefold())
        for name, group, told in zip(names, evidence.groups.tolist(), shown, strict=True)
        if told and group is not None
    ]
    people = [name for name, group in known if group in PEOPLE]
    return people, [name for name, group in known if group not in PEOPLE]


def _row(found: Replacement) -> VerdictRow:
    return {
        "model": plain(found.model),
        "winning_share": found.winning_rate,
        "advantage_share": found.advantage_probability,
        "people": len(found.people),
        "replaces": bool(found.replaces),
    }
