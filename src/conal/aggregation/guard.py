"""The guard against collapse: posteriors that no longer have to do with the votes are noticed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray
from conal.aggregation.votes import lost_classes
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import examples

__all__ = ["Collapse", "collapse_of"]

MIN_TASKS = 20
"""In a crowd with fewer tasks, shares mean little."""
CLEAR = 0.05
"""Exchanged classes must fit the labels better under their new names, by so much of their labels in the mean."""

SWOLLEN = 2.0
"""The most frequent class may have up to this many times its share of the labels."""
SQUEEZED = 1 / 3
"""All other classes together must keep at least this part of their share of the labels."""


class Collapse(NamedTuple):
    """What is wrong with a posterior: a sentence, and whether it is certain.

    A class that has grown may be right: shared mistakes can hide a frequent class behind others. A class that is lost,
    or that has another's name, is hardly ever right.
    """

    sentence: str
    certain: bool


def collapse_of(
    crowd: Annotations, posterior: FloatArray, known: npt.NDArray[np.int64] | None = None
) -> Collapse | None:
    """What is wrong with the posterior (N, C) of a crowd; None if nothing is.

    Tasks whose true class is ``known`` (N,), not -1, do not count: their labels are given, and not inferred.

    >>> crowd = Annotations.from_matrix([[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0]] * 5)
    >>> collapse_of(crowd, np.eye(2)[[0, 0, 1, 1] * 5]) is None
    True
    >>> collapse_of(crowd, np.eye(2)[[1, 1, 0, 0] * 5]).sentence
    'the labels of classes 0 and 1 look exchanged'
    >>> collapse_of(crowd, np.eye(2)[[0, 0, 0, 0] * 5]).sentence
    'class 1 wins votes, but hardly any task gets it'
    """
    if known is not None and (known != MISSING).any():
        inferred = np.flatnonzero(known == MISSING)
        crowd, posterior = crowd[inferred], posterior[inferred]
    labelled = crowd.labels_per_task() > 0
    codes = posterior.argmax(1)
    given = np.bincount(codes if labelled.all() else codes[labelled], minlength=crowd.n_classes)
    if not given.any():
        return None
    lost = lost_classes(crowd, given)
    if len(lost):
        names, one = examples(crowd.classes[lost]), len(lost) == 1
        wins, it = ("wins", "it") if one else ("win", "them")
        return Collapse(f"class{'' if one else 'es'} {names} {wins} votes, but hardly any task gets {it}", certain=True)
    if given.sum() < MIN_TASKS:
        return None
    swapped = _exchanged(crowd, codes)
    if len(swapped):
        return Collapse(f"the labels of classes {_listed(crowd.classes[swapped])} look exchanged", certain=True)
    return _grown(crowd, given)


def _exchanged(crowd: Annotations, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Codes of classes whose tasks would fit the labels better under each other's names."""
    from scipy.optimize import linear_sum_assignment  # loading it takes a quarter of a second

    C = crowd.n_classes
    pairs = codes[crowd.tasks] * C + crowd.labels
    counts = np.bincount(pairs, minlength=C * C).reshape(C, C)
    agreement = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    inferred, names = linear_sum_assignment(agreement, maximize=True)
    gain = agreement[inferred, names] - np.diag(agreement)
    moved = inferred[inferred != names]
    clear = len(moved) > 0 and gain[moved].mean() > CLEAR
    return np.asarray(moved if clear else moved[:0], dtype=np.int64)


def _grown(crowd: Annotations, given: npt.NDArray[np.int64]) -> Collapse | None:
    """The most frequent class, if it has far more tasks than labels."""
    top = int(given.argmax())
    inferred = given[top] / given.sum()
    labels = np.mean(crowd.labels == top)
    if inferred <= SWOLLEN * labels and 1 - inferred >= SQUEEZED * (1 - labels):
        return None
    name = examples(crowd.classes[[top]])
    return Collapse(f"class {name} gets {inferred:.0%} of the tasks, with {labels:.0%} of the labels", certain=False)


def _listed(names: npt.NDArray[np.generic]) -> str:
    shown = examples(names)
    return " and ".join(shown.rsplit(", ", 1)) if len(names) <= 3 else shown
