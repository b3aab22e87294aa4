"""Do annotators err alike: the same mistakes (co-direction), and on the same tasks (effective number)?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from markupsafe import Markup

from conal.findings.base import Finding, register
from conal.findings.evidence import Evidence, plain, plain_names
from conal.findings.panel import Panel
from conal.findings.wording import short
from conal.metrics.co_direction import Estimate
from conal.metrics.effective_number import EffectiveNumber, effective_number

if TYPE_CHECKING:
    from conal.findings.collection import Findings
    from conal.findings.report import Report

__all__ = ["SharedMistakes", "SharedMistakesSection", "figure_of"]

FEWER = 0.95
"""The effective number is told where its interval ends below this part of the number of labels."""
MAX_GROUPS = 10
MAX_MEMBERS = 20


class Figure(TypedDict):
    """A value with its interval, or the reason why there is none."""

    value: float | None
    low: float | None
    high: float | None
    reason: str


class ClassFigure(Figure):
    """Co-direction of the mistakes on tasks of one class."""

    true: Any


class EffectiveFigure(TypedDict):
    """How many independent labels the labels of a task are worth: an upper bound, as the labels are inferred."""

    at_most: float | None
    low: float | None
    high: float | None
    labels_per_task: float
    error_correlation: float | None


class SharedMistakesSection(TypedDict):
    """Co-direction over all and by class, the effective number, and groups of annotators who err together."""

    co_direction: Figure
    by_class: list[ClassFigure]
    effective_number: EffectiveFigure
    groups: list[list[Any]]


@register("shared_mistakes")
class SharedMistakes(Finding[SharedMistakesSection]):
    """How far mistakes are shared. A sentence speaks only where the interval excludes that nothing is."""

    rank = 25
    title = "Shared mistakes"

    def section(self, findings: Findings) -> SharedMistakesSection:
        """Both statistics, from the posterior."""
        evidence = findings.evidence
        direction = evidence.co_direction
        names = plain_names(evidence.annotations.classes)
        number, groups = _errors_together(evidence)
        return {
            "co_direction": figure_of(direction.overall),
            "by_class": [
                {"true": name, **figure_of(found)} for name, found in zip(names, direction.by_class, strict=True)
            ],
            "effective_number": number,
            "groups": groups,
        }

    def headlines(self, section: SharedMistakesSection, report: Report) -> Iterator[Markup]:
        """Whether people confuse the same classes, and what the labels of a task are worth."""
        direction, number = section["co_direction"], section["effective_number"]
        if direction["low"] is not None and direction["low"] > 0:
            yield Markup(
                "Different annotators make the same mistakes: co-direction <b>{}</b> ({} to {}), where 0 means that "
                "everybody confuses other classes, and 1 that all confuse the same. Clearer instructions reduce shared "
                "mistakes; more labels do not."
            ).format(*(f"{direction[key] or 0.0:.2f}" for key in ("value", "low", "high")))
        high, n = number["high"], number["labels_per_task"]
        if high is not None and high < FEWER * n:
            yield Markup(
                "Annotators err on the same tasks: the {} labels of a task are worth at most <b>{}</b> "
                "independent ones."
            ).format(f"{n:.1f}", f"{number['at_most'] or 0.0:.1f}")

    def panel(self, section: SharedMistakesSection) -> Panel:
        """Both figures, the classes, and the groups."""
        number = section["effective_number"]
        ends = f"{_number(number['low'])} to {_number(number['high'])}" if number["low"] is not None else ""
        groups = [", ".join(short(name) for name in group) for group in section["groups"]]
        rows = [
            ("co-direction of all mistakes", *_cells(section["co_direction"])),
            (f"independent labels among {number['labels_per_task']:.1f}", _at_most(number), ends),
            *(("group that errs on the same tasks", names, "") for names in groups),
            *((f"co-direction, true class {short(each['true'])}", *_cells(each)) for each in section["by_class"]),
        ]
        text = (
            "Co-direction compares two mistakes on the same class: are they the same if two people made them, as often "
            "as if one person made both? It is not the share of common mistakes. The number of independent labels is "
            "an upper bound: a mistake that most people share moves the inferred label, and is no mistake then."
        )
        return Panel(self.title, text, ("figure", "value", "interval"), rows, None)


def _errors_together(evidence: Evidence) -> tuple[EffectiveFigure, list[list[Any]]]:
    """The effective number, and groups of annotators who may be named."""
    tasks = evidence.some_tasks
    found = effective_number(evidence.annotations[tasks], evidence.posterior[tasks])
    told = set(evidence.annotations.annotator_ids[evidence.told].tolist())
    groups = [[name for name in group.tolist() if name in told][:MAX_MEMBERS] for group in found.groups]
    listed = [[plain(name) for name in group] for group in groups if len(group) > 1]
    return _effective(found), listed[:MAX_GROUPS]


def _effective(found: EffectiveNumber) -> EffectiveFigure:
    return {
        "at_most": _or_none(found.value),
        "low": _or_none(found.low),
        "high": _or_none(found.high),
        "labels_per_task": found.n,
        "error_correlation": _or_none(found.rho),
    }


def figure_of(found: Estimate) -> Figure:
    """An estimate as plain data."""
    value, low, high = (_or_none(number) for number in found[:3])
    return {"value": value, "low": low, "high": high, "reason": found.reason}


def _or_none(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _cells(figure: Figure) -> tuple[str, str]:
    if figure["value"] is None:
        return "\u2013", figure["reason"]
    return _number(figure["value"]), f"{_number(figure['low'])} to {_number(figure['high'])}"


def _at_most(number: EffectiveFigure) -> str:
    return "\u2013" if number["at_most"] is None else f"at most {_number(number['at_most'])}"


def _number(value: float | None) -> str:
    return "\u2013" if value is None else f"{value:.2f}"
