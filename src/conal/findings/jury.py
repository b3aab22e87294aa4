"""The jury: who errs with whom, what each annotator adds, and which of them would do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from scipy.sparse import csr_array

from conal.findings.base import Finding, register
from conal.findings.evidence import Evidence, plain, plain_names
from conal.findings.sub_juries import SMALLEST, PartialLabels, SubJury, sub_juries, without_each
from conal.findings.wording import called, count, percent, short
from conal.metrics.label_change import LabelChange

if TYPE_CHECKING:
    from conal.findings.collection import Findings
    from conal.findings.report import Report

__all__ = ["Jury", "JurySection", "is_jury"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_JUDGES = 60
MIN_SHARED = 20
"""Tasks that most pairs of annotators must both have labelled."""
MOSTLY = 0.5
"""Share of the tasks of either that these must be."""
NOTHING = 0.005
"""Who changes the share of right labels by less than this adds nothing."""
AS_GOOD = 0.01
"""A smaller jury is as good if it loses less than this."""
SURE = 2 / 3
"""Probability from which on the page says either; most of what it says is more probable."""
MAX_NAMED = 6
DIGITS = 3


class JudgeRow(TypedDict):
    """What the labels would be without one annotator.

    ``changed`` labels differ. ``change`` is by how much the share of right labels changes then, ``low`` to ``high``
    its interval, and ``nothing`` the probability that it changes by less than half a point. ``verdict`` is "nothing",
    "adds", "harms" or "open".
    """

    worker: Any
    name: NotRequired[str]
    group: NotRequired[Any]
    cost: NotRequired[float]
    labels: int
    changed: int
    changed_share: float
    change: float
    low: float
    high: float
    nothing: float
    verdict: str


class StepRow(TypedDict):
    """A smaller jury: who left last (None if not to be told), its size and cost, and what it changes."""

    worker: Any
    name: NotRequired[str]
    size: int
    cost_share: float
    changed_share: float
    change: float
    low: float
    high: float
    as_good: bool


class SmallerJuries(TypedDict):
    """Ever smaller juries; ``chosen`` is the row of the cheapest one that is as good, or None, with its members."""

    rows: list[StepRow]
    chosen: int | None
    members: list[Any]
    costs_known: bool


class ErrorMap(TypedDict):
    """Correlation of the errors of annotators, in an order that shows groups; None where it is unknown."""

    workers: list[Any]
    correlation: list[list[float | None]]
    true_labels: int


class JurySection(TypedDict):
    """Everything about the jury.

    ``n_tasks`` labelled tasks were looked at. ``how`` is "refit" if the labels were aggregated again, and "votes" if
    votes were taken out of the posterior.
    ``true_labels`` is the number of true labels that judged the changes.
    """

    n_judges: int
    n_tasks: int
    how: str
    true_labels: int
    map: ErrorMap
    judges: list[JudgeRow]
    smaller: SmallerJuries


def is_jury(evidence: Evidence) -> bool:
    """Whether a few annotators labelled mostly the same tasks, so that each of them can be judged."""
    crowd = evidence.annotations
    given = np.flatnonzero(crowd.labels_per_annotator())
    if not SMALLEST <= len(given) <= MAX_JUDGES or crowd.n_classes < 2:
        return False
    there = csr_array((np.ones(crowd.n_annotations), (crowd.tasks, crowd.annotators)), shape=crowd.shape)
    shared = (there.T @ there).toarray()[np.ix_(given, given)]
    own = shared.diagonal()
    pairs = np.triu_indices(len(given), 1)
    enough = np.median(shared[pairs]) >= MIN_SHARED
    return bool(enough and np.median((shared / np.minimum.outer(own, own))[pairs]) >= MOSTLY)


@register("jury")
class Jury(Finding[JurySection]):
    """What a small jury consists of; that somebody adds nothing, or that fewer do, is said only where it is likely."""

    rank = 27
    title = "The jury"

    def applies(self, evidence: Evidence) -> bool:
        """Where there is a jury."""
        return is_jury(evidence)

    def section(self, findings: Findings) -> JurySection:
        """The map, every judge, and smaller juries."""
        evidence = findings.evidence
        given = evidence.annotations.labels_per_annotator()
        judges = np.flatnonzero(given)
        labels = PartialLabels(evidence)
        n_tasks = int(labels.labelled.sum())
        each = np.ones(len(given)) if evidence.costs is None else evidence.costs
        steps = sub_juries(labels, judges, (each * given)[judges])
        return {
            "n_judges": len(judges),
            "n_tasks": n_tasks,
            "how": labels.how,
            "true_labels": 0 if labels.judged is None else int((labels.judged >= 0).sum()),
            "map": _map(evidence),
            "judges": _judges(evidence, judges, without_each(labels, judges), n_tasks),
            "smaller": _smaller(evidence, steps, n_tasks),
        }

    def headlines(self, section: JurySection, report: Report) -> Iterator[Markup]:
        """Who adds nothing, and how many would do."""
        idle = [row for row in section["judges"] if row["verdict"] == "nothing"]
        n = count(section["n_judges"])
        if idle:
            yield Markup(
                "<b>{} of {}</b> judges probably add nothing: without any one of them ({}), the share of right labels "
                "changes by less than half a point."
            ).format(count(len(idle)), n, _named([called(row) for row in idle]))
        smaller = section["smaller"]
        if smaller["chosen"] is not None:
            row = smaller["rows"][smaller["chosen"]]
            yield Markup(
                "<b>{} of {}</b> judges would probably do ({}): the labels lose less than a point, for {} of the cost."
            ).format(count(row["size"]), n, _named(smaller["members"]), percent(row["cost_share"]))


def _named(names: list[Any]) -> str:
    more = len(names) - MAX_NAMED
    shown = [short(name, 30) for name in names[:MAX_NAMED]]
    return ", ".join([*shown, *([f"{more:,} more"] if more > 0 else [])])


def _map(evidence: Evidence) -> ErrorMap:
    """Correlations of those who may be told, by true labels where these tell."""
    found = evidence.errors_by_truth or evidence.errors_by_posterior
    told = set(evidence.annotations.annotator_ids[evidence.told].tolist())
    names = found.annotators.tolist()
    order = [k for k in found.order.tolist() if names[k] in told]
    return {
        "workers": [plain(names[k]) for k in order],
        "correlation": [[_correlation(found.correlation, r, s) for s in order] for r in order],
        "true_labels": 0 if evidence.errors_by_truth is None else len(evidence.true_tasks),
    }


def _correlation(matrix: FloatArray, r: int, s: int) -> float | None:
    return None if r == s or not np.isfinite(matrix[r, s]) else round(float(np.clip(matrix[r, s], -1, 1)), 2)


def _judges(evidence: Evidence, judges: IntArray, changes: list[LabelChange], n_tasks: int) -> list[JudgeRow]:
    """A row per judge who may be told, those who change most labels first."""
    crowd, names = evidence.annotations, plain_names(evidence.annotations.annotator_ids)
    given = _counts(evidence, crowd.labels_per_annotator())
    moved = _counts(evidence, np.array([change.n_changed for change in changes]))
    rows: list[JudgeRow] = []
    for r, change, changed in zip(judges.tolist(), changes, moved.tolist(), strict=True):
        if not evidence.told[r]:
            continue
        row: JudgeRow = {
            "worker": names[r],
            "labels": int(given[r]),
            "changed": changed,
            "changed_share": _rounded(evidence, change.n_changed / n_tasks),
            "change": _rounded(evidence, change.value),
            "low": _rounded(evidence, change.low),
            "high": _rounded(evidence, change.high),
            "nothing": _rounded(evidence, change.within(NOTHING)),
            "verdict": _verdict(change),
        }
        if evidence.groups is not None and evidence.groups.tolist()[r] is not None:
            row["group"] = plain(evidence.groups.tolist()[r])
        if evidence.costs is not None and evidence.discretion is None:
            row["cost"] = float(evidence.costs[r])
        rows.append(row)
    return sorted(rows, key=lambda row: -row["changed_share"])


def _verdict(change: LabelChange) -> str:
    if change.within(NOTHING) >= SURE:
        return "nothing"
    if change.high < 0:
        return "adds"
    return "harms" if change.low > 0 else "open"


def _smaller(evidence: Evidence, steps: list[SubJury], n_tasks: int) -> SmallerJuries:
    names = plain_names(evidence.annotations.annotator_ids)
    rows: list[StepRow] = [
        {
            "worker": names[step.removed] if evidence.told[step.removed] else None,
            "size": int(step.members.sum()),
            "cost_share": _rounded(evidence, step.cost_share),
            "changed_share": _rounded(evidence, step.change.n_changed / n_tasks),
            "change": _rounded(evidence, step.change.value),
            "low": _rounded(evidence, step.change.low),
            "high": _rounded(evidence, step.change.high),
            "as_good": step.change.loses_less_than(AS_GOOD) >= SURE,
        }
        for step in steps
    ]
    good = [k for k, row in enumerate(rows) if row["as_good"]]
    chosen = good[-1] if good else None  # every step saves something
    members = [] if chosen is None else np.flatnonzero(steps[chosen].members & evidence.told).tolist()
    return {
        "rows": rows,
        "chosen": chosen,
        "members": [names[r] for r in members],
        "costs_known": evidence.costs is not None,
    }


def _rounded(evidence: Evidence, value: float) -> float:
    """A share as it is shown: in tenths of a percent, or in whole ones where names are hidden."""
    hidden = evidence.discretion
    return (round(value, DIGITS) if hidden is None else float(hidden.share(np.array(value)))) + 0.0  # no -0.0


def _counts(evidence: Evidence, numbers: IntArray) -> IntArray:
    return numbers if evidence.discretion is None else evidence.discretion.count(numbers)
