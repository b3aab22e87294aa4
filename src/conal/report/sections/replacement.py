"""May models replace people? The alternative annotator test, where it is known who is a person."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from conal.data.encoding import Names
from conal.errors import InputError
from conal.metrics.replacement import Replacement, replacement_test
from conal.report.evidence import Evidence, plain
from conal.report.section import Finding, Panel, Plain, Report, percent, register, short

if TYPE_CHECKING:
    from conal.report.findings import Findings

PEOPLE = ("human", "humans", "people", "person", "persons")
"""Groups of people, in lower case; all other groups are models."""
HANDICAPS = {0.2: "experts", 0.15: "trained people", 0.1: "a crowd"}
"""What the authors of the test take for whom."""


@register("replacement")
class ReplacementFinding(Finding):
    """Whether models agree with people as well as people agree with each other.

    *VerdictRow*: The verdict about one model. Keys: ``model``, ``winning_share``, ``advantage_share``, ``people``,
    ``replaces``.

    *Count*: How many models may replace people with another handicap. Keys: ``epsilon``, ``models``.

    *ReplacementSection*: A verdict per model, the best first, or the reason why there is none. ``epsilon`` is the
    people's handicap. With ``scale``, agreement is by distance on the scale of the classes. Keys: ``epsilon``,
    ``rows``, ``reason``, ``scale`` (not always), ``counts`` (not always).
    """

    rank = 28
    title = "May models replace people?"

    def applies(self, evidence: Evidence) -> bool:
        """Where groups say who is a person, and there are others."""
        people, models = _parts(evidence)
        return bool(people) and bool(models)

    def section(self, findings: Findings) -> Plain:
        """The test, or why it cannot be made."""
        evidence = findings.evidence
        people, models = _parts(evidence)
        test = partial(replacement_test, evidence.annotations, models, people=people)
        try:
            found = {epsilon: test(epsilon=epsilon) for epsilon in {evidence.handicap, *HANDICAPS}}
        except InputError as error:
            return {"epsilon": evidence.handicap, "rows": [], "reason": str(error)}
        rows = sorted(map(_row, found[evidence.handicap]), key=_rank)
        counts: list[Plain] = [
            {"epsilon": epsilon, "models": sum(map(_replaces, found[epsilon]))} for epsilon in HANDICAPS
        ]
        scale = evidence.annotations.ordinal
        return {"epsilon": evidence.handicap, "rows": rows, "reason": "", "scale": scale, "counts": counts}

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """Which models may."""
        good = [short(row["model"], 30) for row in section["rows"] if row["replaces"]]
        if good:
            yield Markup(
                "<b>{}</b> of {} models may replace people by the alternative annotator test, with a handicap of {:g} "
                "for people: {}."
            ).format(len(good), len(section["rows"]), section["epsilon"], ", ".join(good[:6]))
        elif section["rows"]:
            yield Markup(
                "No model may replace people by the alternative annotator test, with a handicap of {:g} for people."
            ).format(section["epsilon"])

    def panel(self, section: Plain) -> Panel:
        """A row per model."""
        text = section["reason"] or _text(section)
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


def _text(section: Plain) -> str:
    """What the test does, and with which handicap."""
    measure = "by distance on the scale" if section.get("scale") else "as the share of equal labels"
    others = "; ".join(
        f"with {each['epsilon']:g}, the authors' value for {HANDICAPS[each['epsilon']]}, {each['models']}"
        for each in section.get("counts", [])
        if each["epsilon"] in HANDICAPS and each["epsilon"] != section["epsilon"]
    )
    return (
        "The alternative annotator test (Calderon, Reichart and Dror 2025): a model takes the place of each person in "
        f"turn, and its agreement with the other people is compared with the person's, {measure}. People have a "
        f"handicap of {section['epsilon']:g} (--set handicap), because models cost less: a model can stand in for a "
        "person if the share of tasks on which the person agrees better, less the share on which the model does, is "
        "reliably below it. It may replace people if it can stand in for at least half of them. "
        + (f"Of {len(section['rows'])} models, other handicaps let pass: {others}. " if others else "")
        + "Mistakes that a model shares with most people are invisible to this test."
    )


def _rank(row: Plain) -> tuple[float, float]:
    return -row["winning_share"], -row["advantage_share"]


def _replaces(found: Replacement) -> bool:
    return bool(found.replaces)


def _parts(evidence: Evidence) -> tuple[list[Any], list[Any]]:
    """Names of the people and of the models, with labels and a group, who may be shown."""
    if evidence.groups is None:
        return [], []
    shown = evidence.visible_annotators & (evidence.annotations.labels_per_annotator() > 0)
    people = people_among(evidence.groups)
    models = ~people & np.array([group is not None for group in evidence.groups.tolist()])
    names = evidence.annotations.annotator_ids
    return names[shown & people].tolist(), names[shown & models].tolist()


def people_among(groups: Names) -> npt.NDArray[np.bool_]:
    """(R,) the annotators whose group says that they are people.

    >>> people_among(np.array(["human", "llm", None, "People"], dtype=object)).tolist()
    [True, False, False, True]
    """
    return np.array([str(group).casefold() in PEOPLE for group in groups.tolist()], dtype=bool)


def _row(found: Replacement) -> Plain:
    return {
        "model": plain(found.model),
        "winning_share": found.winning_rate,
        "advantage_share": found.advantage_probability,
        "people": len(found.people),
        "replaces": bool(found.replaces),
    }
