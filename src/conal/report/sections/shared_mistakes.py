"""Do annotators err alike: the same mistakes (co-direction), and on the same tasks (effective number)?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from conal.metrics.shared_mistakes import Estimate
from conal.report.evidence import MIN_TRUE_LABELS, Evidence, plain, plain_names
from conal.report.section import Finding, Panel, Plain, Report, register, short

if TYPE_CHECKING:
    from conal.report.findings import Findings

FEWER = 0.95
"""The effective number is shown where its interval ends below this part of the number of labels."""
NONE = "\u2013"
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
    title = "Shared mistakes"

    def section(self, findings: Findings) -> Plain:
        """Both statistics, by true labels where there are enough of them, and else by the posterior."""
        evidence = findings.evidence
        direction = evidence.co_direction
        names = plain_names(evidence.annotations.classes)
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
                "tasks before you look at people."
            ).format(*(f"{direction[key] or 0.0:.2f}" for key in ("value", "low", "high")))
        high, n = number["high"], number["labels_per_task"]
        if high is not None and high < FEWER * n:
            yield Markup(
                "Annotators err on the same tasks: the {} labels of a task are worth {} independent ones{}."
            ).format(_per_task(n), _worth(number), _by_truth(number))

    def panel(self, section: Plain) -> Panel:
        """Both figures, the classes, and the groups."""
        number = section["effective_number"]
        ends = NONE if number["value"] is None else f"{_number(number['low'])} to {_number(number['high'])}"
        rows = [
            ("co-direction of all mistakes", *_cells(section["co_direction"])),
            (f"independent labels among {_per_task(number['labels_per_task'])}", _independent(number), ends),
            *(("group that errs on the same tasks", names, NONE) for names in section["groups"]),
            *(
                (f"co-direction, true class {short(each['true'])}", *_cells(each))
                for each in section["by_class"]
                if each["value"] is not None or each["reason"] != section["co_direction"]["reason"]
            ),
        ]
        text = (
            "Co-direction compares two mistakes on the same class: are they the same if two people made them, as often "
            f"as if one person made both? It is not the share of common mistakes. {_judged(section)}"
        )
        return Panel(self.title, text, ("figure", "value", "interval"), rows, None)


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
    visible = set(evidence.annotations.annotator_ids[evidence.visible_annotators].tolist())
    groups = [[name for name in group.tolist() if name in visible][:MAX_MEMBERS] for group in found.groups]
    listed = [[plain(name) for name in group] for group in groups if len(group) > 1]
    return number, listed[:MAX_GROUPS]


BOUND = (
    "By inferred labels, the number of independent labels is an upper bound: a mistake that most people share moves "
    "the inferred label, and is no mistake then."
)


def _judged(section: Plain) -> str:
    """What mistakes are judged by, and what follows for the number of independent labels."""
    direction, number = section["co_direction"]["true_labels"], section["effective_number"]["true_labels"]
    if number:
        what = "Mistakes are" if direction else "For the number of independent labels, mistakes are"
        return f"{what} judged by the true labels of {number:,} tasks."
    by_truth = f"Co-direction is judged by the true labels of {direction:,} tasks. " if direction else ""
    return f"{by_truth}{BOUND} With true labels of at least {MIN_TRUE_LABELS} random tasks it is an estimate."


def figure_of(found: Estimate) -> Plain:
    """An estimate as plain data."""
    value, low, high = (_or_none(number) for number in found[:3])
    return {"value": value, "low": low, "high": high, "reason": found.reason}


def _or_none(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _cells(figure: Plain) -> tuple[str, str]:
    if figure["value"] is None:
        return NONE, figure["reason"]
    return _number(figure["value"]), f"{_number(figure['low'])} to {_number(figure['high'])}"


def _worth(number: Plain) -> Markup:
    """The number of independent labels: an estimate with its interval, or an upper bound."""
    if number["value"] is None:
        return Markup("at most <b>{}</b>").format(f"{number['at_most'] or 0.0:.1f}")
    return Markup("<b>{}</b>").format(f"{number['value']:.1f}")


def _by_truth(number: Plain) -> str:
    if number["value"] is None:
        return ""
    ends = " to ".join(f"{number[end] or 0.0:.1f}" for end in ("low", "high"))
    return f" ({ends}; by the true labels of {number['true_labels']:,} tasks)"


def _independent(number: Plain) -> str:
    if number["value"] is not None:
        return _number(number["value"])
    return NONE if number["at_most"] is None else f"at most {_number(number['at_most'])}"


def _per_task(n: float) -> str:
    """Labels per task, with a decimal only where their number is not whole.

    >>> _per_task(12.0), _per_task(2.547)
    ('12', '2.5')
    """
    return f"{n:.1f}".removesuffix(".0")


def _number(value: float | None) -> str:
    return NONE if value is None else f"{round(value, 2) + 0.0:.2f}"  # no -0.00
