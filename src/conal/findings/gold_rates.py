"""What the true labels of a few tasks say about all: the size of every class, and how many labels are right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from markupsafe import Markup

from conal.findings.base import Finding, register
from conal.findings.evidence import Evidence, plain_names
from conal.findings.panel import Panel
from conal.findings.wording import percent, short
from conal.metrics.crowd_rates import gold_rates
from conal.metrics.difference_estimator import Rate

if TYPE_CHECKING:
    from conal.findings.collection import Findings
    from conal.findings.report import Report

__all__ = ["GoldRatesFinding", "GoldRatesSection"]

MIN_GOLD = 10
"""From so many true labels on, rates are told."""
MIN_OF_ANNOTATOR = 5
"""An annotator is listed from so many labels on tasks with a true label on."""
MAX_ANNOTATORS = 50


class RateFigure(TypedDict):
    """A share with its interval, and the number of random true labels that would give as narrow an interval."""

    value: float
    low: float
    high: float
    n_gold: int
    n_effective: float


class ClassRate(RateFigure):
    """The share of one class."""

    true: Any


class AnnotatorRate(RateFigure):
    """The share of one annotator's labels that are right."""

    worker: Any


class GoldRatesSection(TypedDict):
    """Rates of all tasks that have labels.

    ``cleaned`` is the share of the cleaned labels that are right, before true labels replace any, ``claimed`` what
    the model says that it is, and ``crowd`` the share of the crowd's labels. ``design`` is "random", or "planned" if
    the true labels came with the probabilities by which their tasks were drawn.
    """

    n_gold: int
    design: str
    cleaned: RateFigure
    claimed: float
    crowd: RateFigure
    by_class: list[ClassRate]
    annotators: list[AnnotatorRate]


@register("gold_rates")
class GoldRatesFinding(Finding[GoldRatesSection]):
    """Rates that were measured: predictions for all tasks, corrected where the truth is known."""

    rank = 8
    title = "Measured by true labels"

    def applies(self, evidence: Evidence) -> bool:
        """Where true labels were supplied, and the model can judge them unseen."""
        return evidence.unseen is not None and int(evidence.judged.sum()) >= MIN_GOLD

    def section(self, findings: Findings) -> GoldRatesSection:
        """All rates."""
        evidence = findings.evidence
        crowd, unseen = evidence.annotations, evidence.unseen
        assert evidence.known is not None and unseen is not None  # noqa: S101, PT018 - it applies
        judged = np.flatnonzero(evidence.judged)
        truth = dict(zip(crowd.task_ids[judged].tolist(), crowd.classes[evidence.known[judged]].tolist(), strict=True))
        found = gold_rates(crowd, unseen, truth, inclusion=evidence.inclusion)
        names = plain_names(crowd.classes)
        labelled = crowd.labels_per_task() > 0
        return {
            "n_gold": len(judged),
            "design": "random" if evidence.inclusion is None else "planned",
            "cleaned": _figure(found.cleaned),
            "claimed": float(unseen[labelled].max(1).mean()),
            "crowd": _figure(found.crowd),
            "by_class": [{"true": name, **_figure(rate)} for name, rate in zip(names, found.classes, strict=True)],
            "annotators": _annotators(evidence, found.annotators),
        }

    def headlines(self, section: GoldRatesSection, report: Report) -> Iterator[Markup]:
        """How many cleaned labels are right."""
        rate = section["cleaned"]
        yield Markup(
            "By {} true labels, <b>{}</b> of the cleaned labels are right ({} to {}; the model itself claims {}), and "
            "{} of the crowd's."
        ).format(
            section["n_gold"],
            percent(rate["value"]),
            percent(rate["low"]),
            percent(rate["high"]),
            percent(section["claimed"]),
            percent(section["crowd"]["value"]),
        )

    def panel(self, section: GoldRatesSection) -> Panel:
        """Every rate with its interval."""
        rows = [
            _row("cleaned labels that are right", section["cleaned"]),
            _row("labels of the crowd that are right", section["crowd"]),
            *(_row(f"tasks of class {short(each['true'])}", each) for each in section["by_class"]),
            *(_row(f"right labels of {short(each['worker'])}", each) for each in section["annotators"]),
        ]
        text = (
            f"Predictions for all labelled tasks, corrected by the {section['n_gold']:,} tasks whose true label is "
            "known; each was predicted without its own true label. 95 % intervals, for these tasks. "
            + (
                "The true labels came with the probabilities by which their tasks were drawn."
                if section["design"] == "planned"
                else "The tasks with a true label count as a random sample, because no column inclusion_probability "
                "says how they were chosen: if somebody picked them, these figures are not those of all tasks."
            )
        )
        return Panel(self.title, text, ("rate", "value", "interval", "worth of random true labels"), rows, None)


def _annotators(evidence: Evidence, rates: list[Rate]) -> list[AnnotatorRate]:
    """Annotators with enough labels on judged tasks, those with most of them first."""
    if evidence.discretion is not None:  # a few labels and their tasks would tell who somebody is
        return []
    names = plain_names(evidence.annotations.annotator_ids)
    told = [r for r in np.flatnonzero(evidence.told) if rates[r].n_gold >= MIN_OF_ANNOTATOR]
    order = sorted(told, key=lambda r: (-rates[r].n_gold, int(r)))[:MAX_ANNOTATORS]
    return [{"worker": names[r], **_figure(rates[r])} for r in order]


def _figure(rate: Rate) -> RateFigure:
    return {
        "value": rate.value,
        "low": rate.low,
        "high": rate.high,
        "n_gold": rate.n_gold,
        "n_effective": rate.n_effective,
    }


def _row(name: str, rate: RateFigure) -> tuple[str, str, str, str]:
    ends = f"{percent(rate['low'])} to {percent(rate['high'])}"
    return name, percent(rate["value"]), ends, f"{rate['n_effective']:.0f}"
