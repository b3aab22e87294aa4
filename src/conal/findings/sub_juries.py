"""Labels by parts of a jury: without single annotators, and by ever fewer of them."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from conal.aggregation.counts import Votes, clamped
from conal.data.encoding import MISSING
from conal.findings.evidence import Evidence
from conal.metrics.label_change import LabelChange, joined, label_changes, relabelling

__all__ = ["SMALLEST", "PartialLabels", "SubJury", "order_of_removal", "sub_juries", "without_each"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
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
