"""The jury: correlations of errors, and the labels without each annotator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from conal._arrays import FloatArray, IntArray
from conal.metrics.agreement import common_tasks
from conal.metrics.rates import Difference, paired_difference
from conal.report.evidence import Evidence, Plain, Refit, Report, plain
from conal.report.findings import Finding, Findings, register
from conal.report.wording import called, count, first_of, short

MIN_JUDGES, MAX_JUDGES = 3, 60
"""Of two annotators, no model tells who is right; of many, each changes little."""
MIN_SHARED = 20
"""Tasks that most pairs of annotators must both have labelled."""
MIN_SHARED_PART = 0.5
"""Share of the tasks of either that these must be."""
NOTHING = 0.005
"""Who changes no larger share of the labels adds nothing: the share of right labels changes by no more, either."""
MAX_NAMED = 6
DIGITS = 3


class Effect(NamedTuple):
    """What the labels would be without one annotator.

    Attributes
    ----------
    changed : int
        Labels that differ.
    right : Difference or None
        By how much the share of right labels changes, measured by true labels; None without these.
    """

    changed: int
    right: Difference | None


def leave_one_out(evidence: Evidence, judges: IntArray) -> list[Effect]:
    """What changes without each of these annotators.

    Where the labels can be aggregated again quickly, they are. Elsewhere the annotator's votes are taken out of one
    E-step (:attr:`Evidence.left_out`), and what the model learned from them stays.

    True labels can judge only labels that were inferred without them. So these are aggregated once more.
    """
    if evidence.refit is not None:
        return _by_refits(evidence, evidence.refit, judges)
    changed = evidence.left_out.changes(counted=None if evidence.known is None else evidence.known < 0)
    return [Effect(int(changed[r]), None) for r in judges]


def _by_refits(evidence: Evidence, refit: Refit, judges: IntArray) -> list[Effect]:
    crowd, known, judged = evidence.annotations, evidence.known, evidence.true_tasks
    labelled = crowd.labels_per_task() > 0
    before = evidence.posterior.argmax(1)
    unseen = refit(crowd, False).argmax(1) if len(judged) else before
    found = []
    for r in judges:
        without = crowd.select(crowd.annotators != r)
        changed = int((refit(without, True).argmax(1) != before)[labelled].sum())
        right = None
        if known is not None and len(judged):
            after, truth = refit(without, False).argmax(1), known[judged]
            right = paired_difference(after[judged] == truth, unseen[judged] == truth, int(labelled.sum()))
            right = right.at_most(float((after != unseen)[labelled].mean()))
        found.append(Effect(changed, right))
    return found


def is_jury(evidence: Evidence) -> bool:
    """Whether a few annotators labelled mostly the same tasks, so that each of them can be judged."""
    crowd = evidence.annotations
    given = np.flatnonzero(crowd.labels_per_annotator())
    if not MIN_JUDGES <= len(given) <= MAX_JUDGES or crowd.n_classes < 2:
        return False
    shared = common_tasks(crowd)[np.ix_(given, given)]
    own = shared.diagonal()
    pairs = np.triu_indices(len(given), 1)
    enough = np.median(shared[pairs]) >= MIN_SHARED
    return bool(enough and np.median((shared / np.minimum.outer(own, own))[pairs]) >= MIN_SHARED_PART)


@register("jury")
class Jury(Finding):
    """Who errs with whom in a small jury, and what each member adds.

    *JudgeRow*: What the labels would be without one annotator. ``changed`` labels differ. ``change`` is by how much
    the share of right labels changes then, ``low`` to ``high`` its interval, where true labels measure it.
    ``verdict`` is "nothing" (at most one label in 200 changes), "adds", "harms" or "open". Keys: ``worker``, ``name``
    (not always), ``group`` (not always), ``cost`` (not always), ``labels``, ``changed``, ``changed_share``,
    ``change`` (not always), ``low`` (not always), ``high`` (not always), ``verdict``.

    *ErrorMap*: Correlation of the errors of annotators, in an order that shows groups; None where it is unknown.
    Keys: ``workers``, ``correlation``, ``true_labels``.

    *JurySection*: Everything about the jury. ``n_tasks`` tasks have labels. ``how`` is "refit" if the labels were
    aggregated again, and "votes" if votes were taken out of the posterior. ``true_labels`` is the number of true
    labels that measured the changes. Keys: ``n_judges``, ``n_tasks``, ``how``, ``true_labels``, ``map``, ``judges``.
    """

    rank = 27

    def applies(self, evidence: Evidence) -> bool:
        """Where there is a jury."""
        return is_jury(evidence)

    def section(self, findings: Findings) -> Plain:
        """The map, and every judge."""
        evidence = findings.evidence
        crowd = evidence.annotations
        judges = np.flatnonzero(crowd.labels_per_annotator())
        n_tasks = int((crowd.labels_per_task() > 0).sum())
        effects = leave_one_out(evidence, judges)
        measured = any(effect.right is not None for effect in effects)
        return {
            "n_judges": len(judges),
            "n_tasks": n_tasks,
            "how": "votes" if evidence.refit is None else "refit",
            "true_labels": len(evidence.true_tasks) if measured else 0,
            "map": _map(evidence),
            "judges": _judges(evidence, judges, effects, n_tasks),
        }

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """Who adds nothing."""
        idle = [row for row in section["judges"] if row["verdict"] == "nothing"]
        if idle:
            yield Markup(
                "<b>{} of {}</b> judges add nothing: without any one of them ({}), at most one label in 200 changes."
            ).format(
                count(len(idle)),
                count(section["n_judges"]),
                first_of([short(called(row), 30) for row in idle], MAX_NAMED),
            )


def _map(evidence: Evidence) -> Plain:
    """Correlations of those who may be shown, by true labels where these tell."""
    found = evidence.errors_by_truth or evidence.errors_by_posterior
    names = found.annotators.tolist()
    order = [k for k in found.order.tolist() if names[k] in evidence.visible_names]
    return {
        "workers": [plain(names[k]) for k in order],
        "correlation": [[_correlation(found.correlation, r, s) for s in order] for r in order],
        "true_labels": 0 if evidence.errors_by_truth is None else len(evidence.true_tasks),
    }


def _correlation(matrix: FloatArray, r: int, s: int) -> float | None:
    return None if r == s or not np.isfinite(matrix[r, s]) else round(float(np.clip(matrix[r, s], -1, 1)), 2)


def _judges(evidence: Evidence, judges: IntArray, effects: list[Effect], n_tasks: int) -> list[Plain]:
    """A row per judge who may be listed, those who change most labels first."""
    crowd, names = evidence.annotations, evidence.annotator_names
    given = evidence.privacy.counts(crowd.labels_per_annotator())
    changed = evidence.privacy.counts(np.array([effect.changed for effect in effects]))
    groups = [None] * crowd.n_annotators if evidence.groups is None else evidence.groups.tolist()
    rows: list[Plain] = []
    for r, effect, shown in zip(judges.tolist(), effects, changed.tolist(), strict=True):
        if not evidence.visible_annotators[r]:
            continue
        row: Plain = {
            "worker": names[r],
            "labels": int(given[r]),
            "changed": shown,
            "changed_share": _rounded(evidence, effect.changed / n_tasks),
            "verdict": _verdict(effect, n_tasks),
        }
        if effect.right is not None:
            row["change"], row["low"], row["high"] = (_rounded(evidence, end) for end in effect.right[:3])
        if groups[r] is not None:
            row["group"] = plain(groups[r])
        if evidence.costs is not None and not evidence.privacy.hides_names:
            row["cost"] = float(evidence.costs[r])
        rows.append(row)
    return sorted(rows, key=lambda row: -row["changed_share"])


def _verdict(effect: Effect, n_tasks: int) -> str:
    if effect.changed <= NOTHING * n_tasks:
        return "nothing"
    if effect.right is not None and effect.right.high < 0:
        return "adds"
    return "harms" if effect.right is not None and effect.right.low > 0 else "open"


def _rounded(evidence: Evidence, value: float) -> float:
    """A share as it is shown: in tenths of a percent, or in whole ones where names are hidden."""
    return float(evidence.privacy.shares(value, DIGITS)) + 0.0  # no -0.0
