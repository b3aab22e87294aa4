"""Rings: annotators who exchange the classes in the same way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from conal.metrics.suspicion.left_out import LeftOut

__all__ = ["Ring", "find_rings"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CLEAR = 3.0
"""Standard deviations by which the labels must follow the exchange rather than the classes."""
FEWEST_MEMBERS = 2


class Ring(NamedTuple):
    """Members of a ring, and what they call each class, ``exchange[c]``."""

    members: IntArray
    exchange: IntArray


def find_rings(found: LeftOut, suspects: IntArray) -> list[Ring]:
    """Groups among annotators who are known to answer otherwise than the typical one, the largest first.

    Everybody's own exchange is the assignment of labels to classes that fits best. Two belong together if the labels
    of each follow the exchange of the other (:func:`follows`).
    """
    exchanges = [_exchange(found, r) for r in suspects.tolist()]
    clear = np.array([[follows(found, r, each) > CLEAR for each in exchanges] for r in suspects.tolist()])
    if not len(suspects):
        return []
    _, group = connected_components(csr_array(clear & clear.T), directed=False)
    rings = []
    for k in range(group.max() + 1):
        members = suspects[group == k]
        if len(members) >= FEWEST_MEMBERS:
            rings.append(Ring(members, _best(sum(_excess(found, r) for r in members.tolist()))))
    return sorted(rings, key=lambda ring: -len(ring.members))


def follows(found: LeftOut, annotator: int, exchange: IntArray) -> float:
    r"""Standard deviations by which an annotator's labels follow an exchange of classes rather than the classes.

    With :math:`d_i(l) = q_i^{-r}(\sigma^{-1}(l)) - q_i^{-r}(l)`, the sum of :math:`d_i(y_i) - \sum_l h_l d_i(l)` over
    its standard deviation if labels were given by habit h alone.
    """
    rows = np.flatnonzero(found.crowd.annotators == annotator)
    q, habit = found.posterior[rows], found.habits[annotator]
    meant = np.empty(len(exchange), dtype=np.int64)
    meant[exchange] = np.arange(len(exchange))
    gain = q[:, meant] - q
    chance = gain @ habit
    spread = float(np.sqrt(np.sum((gain**2) @ habit - chance**2)))
    total = float(np.sum(gain[np.arange(len(rows)), found.crowd.labels[rows]] - chance))
    return total / spread if spread > 1e-9 else 0.0


def _excess(found: LeftOut, annotator: int) -> FloatArray:
    """(C, C) expected counts of labels by class, less what the annotator's habit gives by chance."""
    rows = np.flatnonzero(found.crowd.annotators == annotator)
    q, C = found.posterior[rows], found.crowd.n_classes
    counts = np.zeros((C, C))
    np.add.at(counts.T, found.crowd.labels[rows], q)
    return np.asarray(counts - q.sum(0)[:, None] * found.habits[annotator])


def _exchange(found: LeftOut, annotator: int) -> IntArray:
    return _best(_excess(found, annotator))


def _best(excess: FloatArray) -> IntArray:
    """What each class is called, if every class has another name; ties keep the name."""
    return np.asarray(linear_sum_assignment(excess + 1e-9 * np.eye(len(excess)), maximize=True)[1], dtype=np.int64)
