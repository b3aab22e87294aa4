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
DOUBTFUL = 0.5
"""Part of the labels that depend on the class, below which right ones are few enough to look for an exchange."""
MAX_PEOPLE = 300
"""Those who follow an exchange most clearly; groups are looked for among so many."""


class Ring(NamedTuple):
    """Members of a ring, and what they call each class, ``exchange[c]``."""

    members: IntArray
    exchange: IntArray


def find_rings(found: LeftOut, fewest: int) -> list[Ring]:
    """Groups of annotators whose labels follow an exchange of classes rather than the classes, the largest first.

    Everybody's own exchange is the assignment of labels to classes that fits best. Two belong together if the labels of
    each follow the exchange of the other (:func:`follows`). Somebody who only makes a common confusion often is right
    more often still, and follows none.
    """
    excess = _excess(found)
    most, right = excess.max(2).sum(1), np.einsum("rcc->r", excess)
    doubtful = (found.crowd.labels_per_annotator() >= fewest) & (right < DOUBTFUL * most)
    exchanges = {r: _best(excess[r]) for r in np.flatnonzero(doubtful).tolist()}
    clear = {r: follows(found, r, each) for r, each in exchanges.items()}
    people = np.array(sorted(r for r in sorted(clear, key=lambda r: -clear[r])[:MAX_PEOPLE] if clear[r] > CLEAR))
    if len(people) < FEWEST_MEMBERS:
        return []
    links = np.array([[follows(found, r, exchanges[s]) > CLEAR for s in people.tolist()] for r in people.tolist()])
    _, group = connected_components(csr_array(links & links.T), directed=False)
    groups = [people[group == k] for k in range(group.max() + 1)]
    rings = [Ring(some, _best(excess[some].sum(0))) for some in groups if len(some) >= FEWEST_MEMBERS]
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


def _excess(found: LeftOut) -> FloatArray:
    """(R, C, C) expected counts of labels by class, less what each annotator's habit gives by chance."""
    crowd, R, C = found.crowd, found.crowd.n_annotators, found.crowd.n_classes
    cells = crowd.annotators.astype(np.int64) * C + crowd.labels
    counts = np.stack(
        [np.bincount(cells, weights=found.posterior[:, c], minlength=R * C).reshape(R, C) for c in range(C)], axis=1
    )
    return np.asarray(counts - counts.sum(2, keepdims=True) * found.habits[:, None, :])


def _best(excess: FloatArray) -> IntArray:
    """What each class is called, if every class has another name; ties keep the name."""
    return np.asarray(linear_sum_assignment(excess + 1e-9 * np.eye(len(excess)), maximize=True)[1], dtype=np.int64)
