"""Error correlations, leave-one-out effects, and smaller panels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from scipy.sparse import csr_array

from conal._arrays import FloatArray, IntArray
from conal.aggregation.counts import Votes, clamped
from conal.data.encoding import MISSING
from conal.metrics.rates import LabelChange, joined, label_changes, relabelling
from conal.report.evidence import Evidence, plain, plain_names
from conal.report.section import Finding, called, count, percent, register, short

if TYPE_CHECKING:
    from conal.report.findings import Findings, Report

__all__ = [
    "SMALLEST",
    "Jury",
    "JurySection",
    "PartialLabels",
    "SubJury",
    "is_jury",
    "order_of_removal",
    "sub_juries",
    "without_each",
]


# Labels by parts of a jury: without single annotators, and by ever fewer of them.

Mask = npt.NDArray[np.bool_]

SMALLEST = 3
"""Annotators below which no model tells who of them is right."""
MAX_TASKS = 2_000
"""Tasks by which it is decided who leaves next."""
LEAST = 1e-12
UNSURE = 1e-9
"""The weight of votes shows where the posterior of no class is smaller."""
MIN_UNSURE = 20
JUDGED_SHARE = 0.6
"""What labels inferred without true labels count, beside those inferred with them."""


class SubJury(NamedTuple):
    """The jury after one more annotator left: who, who is left, and what that does to the labels."""

    removed: int
    members: Mask
    cost_share: float
    change: LabelChange


class PartialLabels:
    r"""Posteriors of all tasks by some of the annotators.

    Where the evidence can be fitted again quickly, it is. Elsewhere the votes of the others are taken out of the
    posterior, and everything that was learned from them stays:

    .. math::
        \log q_i^S(c) = \log q_i(c) - \beta \sum_{r \notin S} \log \pi^r_{c, y_i^r} + \text{const}

    :math:`\beta` is the weight that votes have in the posterior: 1 for Bayes' rule, less for methods that hold votes
    back. It is estimated by least squares from the posterior itself.

    Attributes
    ----------
    tasks : (n,)
        The tasks that are looked at: all, or a sample of a large crowd.
    crowd : Annotations
        Their annotations.
    before : (n, C)
        By all annotators, as the labels were inferred.
    unseen : (n, C) or None
        The same without true labels, if there are any, and it can be computed.
    judged : (n,) or None
        True classes of random tasks, -1 elsewhere, to judge labels by that were inferred without them.
    how : str
        "refit" or "votes".
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.how: Literal["refit", "votes"] = "votes" if evidence.refit is None else "refit"
        self.tasks = evidence.some_tasks
        self.crowd = evidence.annotations[self.tasks]
        self.before = evidence.posterior[self.tasks]
        self.known = None if evidence.known is None else evidence.known[self.tasks]
        unseen = _unseen(evidence)
        self.unseen = None if unseen is None else unseen[self.tasks]
        self.judged = None if unseen is None else _judged(evidence)

    @cached_property
    def labelled(self) -> Mask:
        """(n,) the tasks that have labels."""
        return np.asarray(self.crowd.labels_per_task() > 0)

    def by(self, members: Mask) -> FloatArray:
        """(n, C) by the members (R,) alone, with true labels if there are any."""
        if self.evidence.refit is not None:
            return self._refitted(members, with_truth=True)
        after = self._taken_out(self.before, members)
        return after if self.known is None else clamped(after, self.known)

    def unseen_by(self, members: Mask) -> FloatArray:
        """(n, C) by the members (R,) alone, without true labels."""
        if self.evidence.refit is not None:
            return self._refitted(members, with_truth=False)
        return self._taken_out(self.before if self.unseen is None else self.unseen, members)

    def _refitted(self, members: Mask, *, with_truth: bool) -> FloatArray:
        crowd, refit = self.evidence.annotations, self.evidence.refit
        assert refit is not None  # noqa: S101 - asked before
        return refit(crowd.select(members[crowd.annotators]), with_truth)[self.tasks]

    def _taken_out(self, before: FloatArray, members: Mask) -> FloatArray:
        log_joint = np.log(np.maximum(before, LEAST)) - self.evidence_of(~members)
        joint = np.exp(log_joint - log_joint.max(1, keepdims=True))
        return np.asarray(joint / joint.sum(1, keepdims=True))

    def evidence_of(self, members: Mask) -> FloatArray:
        """(n, C) what the votes of these annotators add to the logarithm of the posterior."""
        return self.weight * self._log_votes(members)

    @cached_property
    def weight(self) -> float:
        r""":math:`\beta`: the slope of the log-posterior on the votes, beside the classifier and the class prior."""
        every = np.full(self.crowd.n_annotators, True)
        unsure = (self.before.min(1) > UNSURE) & self.labelled  # tasks whose truth is known are sure
        if unsure.sum() < MIN_UNSURE:
            return 1.0
        regressors = [self._log_votes(every)[unsure]]
        if self.evidence.classifier is not None:
            regressors.append(np.log(np.maximum(self.evidence.classifier[self.tasks][unsure], LEAST)))
        centred = [_centred(each, axis=1) for each in (np.log(self.before[unsure]), *regressors)]
        target, *columns = (_centred(each, axis=0).ravel() for each in centred)  # the class prior is gone
        slopes, *_ = np.linalg.lstsq(np.column_stack(columns), target, rcond=None)
        return float(np.clip(slopes[0], 0.0, 1.0))

    def _log_votes(self, members: Mask) -> FloatArray:
        some = self.crowd.select(members[self.crowd.annotators])
        confusion = self.evidence.confusion_of(np.arange(some.n_annotators))
        return Votes(some).log_evidence(np.log(np.maximum(confusion, LEAST)))


def _centred(values: FloatArray, axis: int) -> FloatArray:
    return np.asarray(values - values.mean(axis, keepdims=True))


def _unseen(evidence: Evidence) -> FloatArray | None:
    """(N, C) the posterior by all annotators without true labels; None if there are none, or it is unknown."""
    if evidence.known is None or not (evidence.known != MISSING).any():
        return None
    return evidence.unseen_posterior if evidence.refit is None else evidence.refit(evidence.annotations, False)


def _judged(evidence: Evidence) -> IntArray | None:
    if evidence.known is None or not len(evidence.true_tasks):
        return None
    known = np.full(evidence.annotations.n_tasks, MISSING, dtype=np.int64)
    known[evidence.true_tasks] = evidence.known[evidence.true_tasks]
    return known[evidence.some_tasks]


def without_each(labels: PartialLabels, judges: IntArray) -> list[LabelChange]:
    """What changes without each of these annotators."""
    n = labels.crowd.n_annotators
    return _changes(labels, [np.arange(n) != r for r in judges])


def sub_juries(labels: PartialLabels, judges: IntArray, costs: FloatArray) -> list[SubJury]:
    """Ever smaller juries, and what each of them changes.

    Parameters
    ----------
    labels : PartialLabels
    judges : (J,)
        The annotators of the whole jury.
    costs : (J,)
        What all labels of each of them cost.
    """
    members = np.isin(np.arange(labels.crowd.n_annotators), judges)
    removed, kept = order_of_removal(labels, judges, costs), []
    for place in removed:
        members = members.copy()
        members[judges[place]] = False
        kept.append(members)
    spent = costs.sum() - np.cumsum(costs[removed])
    shares = spent / max(float(costs.sum()), LEAST)
    found = zip(removed, kept, shares.tolist(), _changes(labels, kept), strict=True)
    return [SubJury(int(judges[place]), who, share, change) for place, who, share, change in found]


def order_of_removal(labels: PartialLabels, judges: IntArray, costs: FloatArray) -> list[int]:
    r"""Who leaves first: positions in ``judges``, down to the smallest jury.

    The next to leave is whose votes lower the expected share of right labels least per cost saved. Right is what the
    posterior of the whole jury says, and a true label where it is known. Votes are taken out of the posterior here:
    fitting again for every pair would take too long.
    """
    tasks = _some_tasks(labels)
    before = (labels.before if labels.unseen is None else labels.unseen)[tasks]
    target = before if labels.judged is None else clamped(before.copy(), labels.judged[tasks])
    n = labels.crowd.n_annotators
    votes = [labels.evidence_of(np.arange(n) == r)[tasks] for r in judges]
    log_joint = np.log(np.maximum(before, LEAST))
    worth = np.maximum(costs, LEAST * max(float(costs.max(initial=0.0)), 1.0))
    left, order = list(range(len(judges))), []
    while len(left) > SMALLEST:
        now = _expected(log_joint, target)
        gains = [_per_cost(_expected(log_joint - votes[k], target) - now, float(worth[k])) for k in left]
        out = left.pop(max(range(len(left)), key=gains.__getitem__))
        log_joint = log_joint - votes[out]
        order.append(out)
    return order


def _per_cost(gain: float, cost: float) -> tuple[float, float]:
    """What speaks for leaving: little loss per cost saved; of those without whom nothing is lost, the costly first.

    >>> _per_cost(-0.2, 4.0) > _per_cost(-0.1, 1.0), _per_cost(0.0, 4.0) > _per_cost(0.0, 1.0)
    (True, True)
    """
    return gain * cost if gain >= 0 else gain / cost, cost


def _expected(log_joint: FloatArray, target: FloatArray) -> float:
    """Expected share of right labels."""
    return float(target[np.arange(len(target)), log_joint.argmax(1)].mean())


def _some_tasks(labels: PartialLabels) -> IntArray:
    labelled = np.flatnonzero(labels.labelled)
    if len(labelled) <= MAX_TASKS:
        return labelled
    return np.sort(np.random.default_rng(0).choice(labelled, MAX_TASKS, replace=False))


def _changes(labels: PartialLabels, juries: list[Mask]) -> list[LabelChange]:
    """What each jury changes.

    With true labels, labels are inferred both with and without them. Users get the former. True labels can judge only
    the latter, which therefore count a little more.
    """
    here, n_tasks = labels.labelled, int(labels.labelled.sum())
    made = [relabelling(labels.before, labels.by(members), counted=here) for members in juries]
    if labels.unseen is None:
        return label_changes(made, n_tasks)
    unseen = [
        relabelling(labels.unseen, labels.unseen_by(members), known=labels.judged, counted=here) for members in juries
    ]
    alone = label_changes(unseen, n_tasks)
    taught = label_changes(made, n_tasks, evidence=[each.seen for each in unseen])
    return [joined(one, other, JUDGED_SHARE) for one, other in zip(alone, taught, strict=True)]


# The jury: who errs with whom, what each annotator adds, and which of them would do.

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
