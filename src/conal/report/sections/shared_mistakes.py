"""Do annotators err alike: the same mistakes (co-direction), and on the same tasks (effective number)?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from markupsafe import Markup

from conal.metrics.shared_mistakes import Estimate
from conal.report.evidence import Evidence, Plain, Report, plain
from conal.report.findings import Finding, Findings, register

FEWER = 0.95
"""The effective number is shown where its interval ends below this part of the number of labels."""
MAX_GROUPS = 10
MAX_MEMBERS = 20


@register("shared_mistakes")
class SharedMistakes(Finding):
    """How far mistakes are shared. A sentence speaks only where the interval excludes that nothing is.

    *Figure*: A value with its interval, or the reason why there is none. Keys: ``value``, ``low``, ``high``,
    ``reason``.

    *ClassFigure*: Co-direction of the mistakes on tasks of one class. Keys: ``value``, ``low``, ``high``, ``reason``,
    ``true``.

    *DirectionFigure*: Co-direction of all mistakes; ``true_labels`` is how many tasks with a true label it is judged
    by. 0 if mistakes are judged by inferred labels. Keys: ``value``, ``low``, ``high``, ``reason``, ``true_labels``.

    *EffectiveFigure*: How many independent labels the labels of a task are worth. Inferred labels give an upper
    bound, ``at_most``: the upper end of the interval by them, because what they give may by chance be too low as
    well. ``value`` is an estimate by the true labels of ``true_labels`` tasks, or None. The interval and the
    correlation are by these true labels, or by inferred labels if there is no such value. Keys: ``value``,
    ``at_most``, ``low``, ``high``, ``labels_per_task``, ``error_correlation``, ``true_labels``.

    *SharedMistakesSection*: Co-direction over all and by class, the effective number, and groups of annotators who
    err together. Keys: ``co_direction``, ``by_class``, ``effective_number``, ``groups``.
    """

    rank = 25

    def section(self, findings: Findings) -> Plain:
        """Both statistics, by true labels where there are enough of them, and else by the posterior."""
        evidence = findings.evidence
        direction = evidence.co_direction
        names = evidence.class_names
        number, groups = _errors_together(evidence)
        by_truth = 0 if evidence.co_direction_by_truth is None else len(evidence.true_tasks)
        return {
            "co_direction": {**figure_of(direction.overall), "true_labels": by_truth},
            "by_class": [
                {"true": name, **figure_of(found)} for name, found in zip(names, direction.by_class, strict=True)
            ],
            "effective_number": number,
            "groups": groups,
        }

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """Whether people confuse the same classes, and what the labels of a task are worth."""
        direction, number = section["co_direction"], section["effective_number"]
        if direction["low"] is not None and direction["low"] > 0:
            yield Markup(
                "Different annotators make the same mistakes: co-direction <b>{}</b> ({} to {}), where 0 means that "
                "everybody confuses other classes, and 1 that all confuse the same. Look at the instructions and the "
                "tasks before you look at single annotators."
            ).format(*(f"{direction[key] or 0.0:.2f}" for key in ("value", "low", "high")))
        high, n = number["high"], number["labels_per_task"]
        if high is not None and high < FEWER * n:
            worth = Markup("at most <b>{:.1f}</b> independent ones").format(number["at_most"] or 0.0)
            if number["value"] is not None:
                worth = Markup(
                    "<b>{:.1f}</b> independent ones ({:.1f} to {:.1f}; by the true labels of {:,} tasks)"
                ).format(number["value"], number["low"] or 0.0, high, number["true_labels"])
            yield Markup("Annotators err on the same tasks: the {} labels of a task are worth {}.").format(
                per_task(n), worth
            )


def _errors_together(evidence: Evidence) -> tuple[Plain, list[list[Any]]]:
    """The effective number, and groups of annotators who may be named."""
    bound = evidence.errors_by_posterior
    found = evidence.errors_by_truth or bound
    number: Plain = {
        "value": None if found is bound else float(found.value),
        "at_most": _or_none(bound.high),
        "low": _or_none(found.low),
        "high": _or_none(found.high),
        "labels_per_task": found.n,
        "error_correlation": _or_none(found.rho),
        "true_labels": 0 if found is bound else len(evidence.true_tasks),
    }
    groups = [[name for name in group.tolist() if name in evidence.visible_names] for group in found.groups]
    listed = [[plain(name) for name in group[:MAX_MEMBERS]] for group in groups if len(group) > 1]
    return number, listed[:MAX_GROUPS]


def figure_of(found: Estimate) -> Plain:
    """An estimate as plain data."""
    value, low, high = (_or_none(number) for number in found[:3])
    return {"value": value, "low": low, "high": high, "reason": found.reason}


def _or_none(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def per_task(n: float) -> str:
    """Labels per task, with a decimal only where their number is not whole.

    >>> per_task(12.0), per_task(2.547)
    ('12', '2.5')
    """
    return f"{n:.1f}".removesuffix(".0")
