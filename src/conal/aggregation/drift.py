"""Drift: how many labels may differ from those of a full E-step, after matrices have been updated."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal._support.compiled import kernel
from conal.aggregation.arrays import FloatArray
from conal.aggregation.votes import Votes

__all__ = ["REFIT_SHARE", "Drift", "LogParts", "first_drift", "in_doubt"]

REFIT_SHARE = 0.005
"""Share of labels that may differ from which on a refit is due."""
LARGEST = 600.0
"""Margins above this are taken as this: smaller probabilities are not exact."""


class LogParts(NamedTuple):
    """Logarithms by which an E-step goes: of the class prior (C,) and of the annotators' matrices (R, C, C)."""

    rho: FloatArray
    pi_r: FloatArray


class Drift(NamedTuple):
    """Where matrices were at the last fit, and by how much every task's label led there.

    Attributes
    ----------
    anchor : LogParts
        Of an annotator who came later, the matrix after the first update with labels of theirs.
    margin : (N,)
        Log-odds of the present label against the next best class, by the anchor; below 0 if that class is better.
    """

    anchor: LogParts
    margin: FloatArray

    def extended(self, present: LogParts, n_tasks: int) -> Drift:
        """With the new annotators' present matrices, and with room for new tasks."""
        known, new = len(self.anchor.pi_r), len(self.margin)
        pi_r = np.concatenate([self.anchor.pi_r, present.pi_r[known:]])
        return Drift(LogParts(self.anchor.rho, pi_r), np.append(self.margin, np.full(n_tasks - new, -np.inf)))

    def moved(self, tasks: npt.NDArray[np.int64], votes: Votes, codes: npt.NDArray[np.int64]) -> None:
        """Note the margins of tasks whose labels were inferred anew, by the anchor."""
        log_joint = self.anchor.rho + votes.log_evidence(self.anchor.pi_r)
        self.margin[tasks] = _margins(log_joint, codes)


def first_drift(anchor: LogParts, probas: FloatArray) -> Drift:
    """Right after a fit, whose posterior (N, C) is that of an E-step by the anchor."""
    best, second = probas[:, 0].copy(), np.zeros(len(probas))
    for column in probas.T[1:]:  # faster than to sort many short rows
        np.maximum(second, np.minimum(best, column), out=second)
        np.maximum(best, column, out=best)
    with np.errstate(divide="ignore"):
        margin = np.log(best / second)
    return Drift(anchor, np.minimum(margin, LARGEST))


def in_doubt(drift: Drift, present: LogParts, votes: Votes) -> npt.NDArray[np.int64]:
    r"""Tasks of which the label may differ from that of an E-step by the present matrices.

    With :math:`\Delta` the change since the anchor, a label y of annotator r moves the log-odds of any two classes by
    at most :math:`D_{ry}`. For a task whose margin is larger than all that together, the label is the same:

    .. math::
        D_{ry} = \max_c \Delta \log \pi^r_{cy} - \min_c \Delta \log \pi^r_{cy}, \qquad
        m_i > \sum_r D_{r, y_i^r} + \max_c \Delta \log \rho_c - \min_c \Delta \log \rho_c

    The cost is one addition per label.
    """
    moved = _spread(present.pi_r, drift.anchor.pi_r, axis=1).ravel()  # a number for every annotator and label
    prior = float(_spread(present.rho, drift.anchor.rho, axis=0))
    crowd = votes.annotations
    if bounding.usable and "numba" in sys.modules:  # loading it takes longer than all this
        doubtful = np.empty(crowd.n_tasks, dtype=np.bool_)
        codes = crowd.indptr, crowd.annotators, crowd.labels
        bounding(*codes, moved, crowd.n_classes, prior, drift.margin, doubtful)
        return np.flatnonzero(doubtful)
    bound = np.full(crowd.n_tasks, prior)
    given = np.flatnonzero(crowd.labels_per_task())
    if len(given):
        bound[given] += np.add.reduceat(moved[votes.cells], crowd.indptr[given])
    return np.flatnonzero(~(drift.margin > bound))  # also where either is not a number


@kernel
def bounding(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    indptr, annotators, labels, moved, C, prior, margin, doubtful
):
    """Whether the sum of ``moved`` over a task's labels reaches its margin, for every task."""
    for i in range(len(margin)):
        left = margin[i] - prior
        for a in range(indptr[i], indptr[i + 1]):
            left -= moved[annotators[a] * C + labels[a]]
        doubtful[i] = not left > 0.0


def _spread(present: FloatArray, anchor: FloatArray, axis: int) -> Any:
    """By how much more a class has moved than another at most; infinite where a probability was or is zero alone."""
    with np.errstate(invalid="ignore"):
        change = present - anchor
    change[np.isneginf(present) & np.isneginf(anchor)] = 0.0
    with np.errstate(invalid="ignore"):
        spread = np.asarray(change.max(axis) - change.min(axis))
    return np.where(np.isnan(spread), np.inf, spread)


def _margins(log_joint: FloatArray, codes: npt.NDArray[np.int64]) -> FloatArray:
    """(n,) log-odds of the given classes against the best others; -inf where they are not defined."""
    own = np.take_along_axis(log_joint, codes[:, None], axis=1)[:, 0]
    others = log_joint.copy()
    np.put_along_axis(others, codes[:, None], -np.inf, axis=1)
    best = others.max(1, initial=-np.inf)
    with np.errstate(invalid="ignore"):
        margin = own - best
    return np.minimum(np.where(np.isnan(margin), -np.inf, margin), LARGEST)
