"""Whom there is to ask, and what is known: all that a plan of further labels is made from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from conal.errors import InputError
from conal.findings.evidence import Evidence
from conal.metrics.difference_estimator import Rate

__all__ = ["CAUTION", "Asking", "Pairs", "cautious", "checked_by_others", "measured_accuracy"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

CAUTION = 5.0
"""Pseudo-labels by which each row of a candidate's matrix is shrunk to the common confusion: three right labels of
three prove little, and the best of many candidates would be chosen by luck."""

MOST_GROUPS = 50
"""Groups that can be asked instead of annotators."""


def cautious(confusion: FloatArray, met: FloatArray, common: FloatArray) -> FloatArray:
    """(n, C, C) learned matrices, each row shrunk to the common confusion.

    This is the mean of a Dirichlet distribution, and thus the probability of the next answer. So what is not known
    about an annotator is in the value of one more answer.
    """
    weight = met[:, :, None]
    return np.asarray((weight * confusion + CAUTION * common) / (weight + CAUTION))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of a task and an annotator, sorted by task.

    Parameters
    ----------
    indptr : (N + 1,)
        Where each task's pairs begin.
    annotators : (P,)
    """

    indptr: IntArray
    annotators: IntArray

    @classmethod
    def of(cls, tasks: npt.ArrayLike, annotators: npt.ArrayLike, n_tasks: int) -> Pairs:
        """From pairs in any order.

        >>> Pairs.of([1, 0, 1], [5, 6, 4], 3).indptr.tolist()
        [0, 1, 3, 3]
        """
        at, who = np.asarray(tasks, np.int64), np.asarray(annotators, np.int64)
        order = np.lexsort((who, at))
        return cls(np.searchsorted(at[order], np.arange(n_tasks + 1)), who[order])

    @cached_property
    def tasks(self) -> IntArray:
        """(P,) the task of every pair."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


def checked_by_others(
    asked: Pairs, posterior: FloatArray, n_annotators: int, known: BoolArray | None = None
) -> FloatArray:
    """(R, C) expected number of an annotator's labels on tasks of each class, as far as others can judge them.

    A label is part of the posterior that judges it. So it counts as (n - 1) / n where a task has n labels, and as 1
    where the truth is known: without this, plans prefer people who agree with themselves.

    >>> pairs = Pairs.of([0, 1, 1], [0, 0, 1], 2)
    >>> checked_by_others(pairs, np.array([[1.0, 0.0], [0.5, 0.5]]), 2).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    given = np.diff(asked.indptr)
    weight = (given - 1) / np.maximum(given, 1)
    if known is not None:
        weight = np.where(known, 1.0, weight)
    met = np.empty((n_annotators, posterior.shape[1]))
    for c in range(posterior.shape[1]):
        each = (weight * posterior[:, c])[asked.tasks]
        met[:, c] = np.bincount(asked.annotators, weights=each, minlength=n_annotators)
    return met


@dataclass(frozen=True, eq=False)
class Asking:
    """Tasks, their posterior, and the people who can be asked about them.

    Parameters
    ----------
    posterior : (N, C)
        P(true class) of every task; as sure as it is right, or the plan promises too much.
    confusion : (R, C, C)
        ``confusion[r, c, l]`` = P(the next answer of r is l | true c); see :func:`cautious`.
    asked : Pairs
        Who has labelled what; nobody is asked twice.
    met : (R, C)
        Expected number of labels behind each row of the matrices; see :func:`checked_by_others`.
    costs : (R,), optional
        Cost of a label; 1 by default.
    limits : (R,), optional
        How many more labels each can give; any number by default. 0 for those who are not to be asked.
    closed : (N,) bool, optional
        Tasks that nobody is asked about, such as those whose true label is known.
    allowed : Pairs, optional
        The only pairs that may be chosen; all by default.
    now : Rate, optional
        The share of right labels of all tasks, where it was measured; by default it is the posterior's.
    """

    posterior: FloatArray
    confusion: FloatArray
    asked: Pairs
    met: FloatArray
    costs: FloatArray | None = None
    limits: FloatArray | None = None
    closed: BoolArray | None = None
    allowed: Pairs | None = None
    now: Rate | None = None

    def __post_init__(self) -> None:
        (n, c), r = self.posterior.shape, len(self.confusion)
        shapes = {"confusion": (r, c, c), "met": (r, c), "costs": (r,), "limits": (r,), "closed": (n,)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array is not None and array.shape != shape:
                raise InputError(f"{name}: has shape {array.shape}, expected {shape} for these tasks and annotators")
        if len(self.asked.indptr) != n + 1:
            raise InputError(f"asked: is about {len(self.asked.indptr) - 1:,} tasks, the posterior about {n:,}")

    @cached_property
    def price(self) -> FloatArray:
        """(R,) cost of a label of each annotator."""
        return np.ones(len(self.confusion)) if self.costs is None else np.asarray(self.costs, float)

    @cached_property
    def accuracy(self) -> float:
        """The share of right labels now."""
        if self.now is not None:
            return self.now.value
        return float(self.posterior.max(1).sum() / max(len(self.posterior), 1))

    @cached_property
    def room(self) -> FloatArray:
        """(R,) how many more labels each annotator can give."""
        return np.full(len(self.confusion), np.inf) if self.limits is None else np.asarray(self.limits, float)

    @cached_property
    def top_two(self) -> IntArray:
        """(N, 2) the two most probable classes of every task, the smaller code first."""
        if self.posterior.shape[1] < 2:
            return np.zeros((len(self.posterior), 2), np.int64)
        return np.sort(np.argsort(-self.posterior, axis=1, kind="stable")[:, :2], axis=1)

    @cached_property
    def pair_key(self) -> IntArray:
        """(N,) one number for the two most probable classes."""
        return np.asarray(self.top_two[:, 0] * self.posterior.shape[1] + self.top_two[:, 1])

    @classmethod
    def by_evidence(
        cls, evidence: Evidence, limits: FloatArray | None = None, costs: FloatArray | None = None
    ) -> Asking:
        """What a fitted model knows of its crowd; annotators who may not be listed are not asked."""
        crowd = evidence.annotations
        everyone = np.arange(crowd.n_annotators)
        asked = Pairs(crowd.indptr, crowd.annotators.astype(np.int64))
        known = None if evidence.known is None else evidence.known >= 0
        met = checked_by_others(asked, evidence.posterior, crowd.n_annotators, known)
        room = np.full(crowd.n_annotators, np.inf) if limits is None else limits
        return cls(
            evidence.posterior,
            cautious(evidence.confusion_of(everyone), met, evidence.common),
            asked,
            met,
            evidence.costs if costs is None else costs,
            np.where(evidence.told, room, 0.0),
            known,
            now=measured_accuracy(evidence),
        )

    def in_groups(self, codes: IntArray, n_groups: int, per_task: int) -> Asking:
        """The same tasks with a group in the place of each annotator: any member answers, who has not yet.

        A group's matrix is the mean of its members', weighted by their labels; its cost is their mean cost.

        Parameters
        ----------
        codes : (R,)
            The group of every annotator.
        n_groups : int
        per_task : int
            A group is asked at most so often about a task, and at most once for every member.
        """
        if n_groups > MOST_GROUPS:
            raise InputError(f"by group: there are {n_groups:,} groups, at most {MOST_GROUPS} can be planned for")
        size = np.bincount(codes, minlength=n_groups)
        weight = self.met.sum(1) + CAUTION
        total = np.bincount(codes, weights=weight, minlength=n_groups)
        confusion = np.zeros((n_groups, *self.confusion.shape[1:]))
        np.add.at(confusion, codes, weight[:, None, None] * self.confusion)
        met, price, room = (np.zeros((n_groups, *values.shape[1:])) for values in (self.met, self.price, self.room))
        for sums, values in ((met, self.met), (price, self.price), (room, self.room)):
            np.add.at(sums, codes, values)
        shape = len(self.posterior), n_groups
        done = np.zeros(shape, np.int64)  # groups are few
        np.add.at(done, (self.asked.tasks, codes[self.asked.annotators]), 1)
        turn = np.arange(per_task)[None, :, None]
        tasks, _, groups = np.nonzero(np.broadcast_to(turn < (size - done)[:, None, :], (shape[0], per_task, n_groups)))
        allowed = Pairs(np.searchsorted(tasks, np.arange(shape[0] + 1)), groups)
        nobody = Pairs(np.zeros(shape[0] + 1, np.int64), np.empty(0, np.int64))
        means = confusion / np.maximum(total, 1e-12)[:, None, None]
        return Asking(
            self.posterior, means, nobody, met, price / np.maximum(size, 1), room, self.closed, allowed, self.now
        )


def measured_accuracy(evidence: Evidence) -> Rate | None:
    """The share of right labels, as measured on the tasks that have labels, and as believed of the others."""
    rate = evidence.inferred_rate
    if rate is None:
        return None
    labelled = evidence.annotations.labels_per_task() > 0
    rest, share = evidence.posterior[~labelled].max(1).sum() / len(labelled), labelled.mean()
    value, low, high = (float(rest + share * end) for end in rate[:3])
    return rate._replace(value=value, low=low, high=high)
