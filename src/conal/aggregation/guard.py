"""The guard against collapse: posteriors that no longer have to do with the votes are noticed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal._arrays import FloatArray
from conal.aggregation.counts import lost_classes
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import examples

MIN_TASKS = 20
"""In a crowd with fewer tasks, shares mean little."""
CLEAR = 0.05
"""Exchanged classes must fit the labels better under their new names, by so much of their labels in the mean."""
MOST_NAMES = 1000
"""With more classes, nobody looks for exchanged ones: the time grows with their cube."""

SWOLLEN = 2.0
"""The most frequent class may have up to this many times its share of the votes."""
SQUEEZED = 1 / 3
"""All other classes together must keep at least this part of their share of the votes."""
INFLATED = 3.0
"""Any class may have up to this many times its share: up to 2.8 on fifteen real crowds, 4 to 120 where rare classes
take hard tasks in simulations."""
MIN_INFLATED = 5
"""Tasks that an inflated class has at least."""
UNVOICED = 1 / 3
"""An inflated class is wrong if more than this share of its tasks have no such label: 0 in simulations where annotators
overlook a class, mostly 0.5 to 0.95 where a rare class takes hard tasks."""


class Collapse(NamedTuple):
    """What is wrong with a posterior: a sentence, whether it is certain, and whether it is no more than some growth.

    A class that has grown may be right: shared mistakes can hide a class behind others. A class is hardly ever right
    that is lost, that has another's name, or that is given to tasks to which nobody gave it. The last happens to rare
    classes: a model with a matrix per class uses them for tasks that are hard.
    """

    sentence: str
    certain: bool
    moderate: bool = False


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
    per_task = crowd.labels_per_task()
    labelled = per_task > 0
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
    swapped = _exchanged(crowd, codes) if crowd.n_classes <= MOST_NAMES else codes[:0]
    if len(swapped):
        return Collapse(f"the labels of classes {_listed(crowd.classes[swapped])} look exchanged", certain=True)
    # Every task counts the same, whatever the number of its labels.
    votes: FloatArray = np.bincount(crowd.labels, 1 / per_task[crowd.tasks], crowd.n_classes).astype(np.float64)
    return _inflated(crowd, codes, given, votes) or _grown(crowd, given, votes)


def _exchanged(crowd: Annotations, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Codes of classes whose tasks would fit the labels better under each other's names."""
    C = crowd.n_classes
    pairs = codes[crowd.tasks] * C + crowd.labels
    counts = np.bincount(pairs, minlength=C * C).reshape(C, C)
    agreement = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    if (agreement.argmax(1) == np.arange(C)).all():  # every class fits its own name best
        return np.empty(0, dtype=np.int64)
    from scipy.optimize import linear_sum_assignment  # loading it takes a quarter of a second

    inferred, names = linear_sum_assignment(agreement, maximize=True)
    gain = agreement[inferred, names] - np.diag(agreement)
    moved = inferred[inferred != names]
    clear = len(moved) > 0 and gain[moved].mean() > CLEAR
    return np.asarray(moved if clear else moved[:0], dtype=np.int64)


def _inflated(
    crowd: Annotations, codes: npt.NDArray[np.int64], given: npt.NDArray[np.int64], votes: FloatArray
) -> Collapse | None:
    """The class with most tasks beyond what its votes allow, if there is one."""
    excess = np.where(given >= MIN_INFLATED, given - INFLATED * votes, 0.0)
    worst = int(excess.argmax())
    if excess[worst] <= 0:
        return None
    voiced = np.bincount(crowd.tasks, weights=crowd.labels == codes[crowd.tasks], minlength=crowd.n_tasks) > 0
    unvoiced = int((~voiced[codes == worst] & (crowd.labels_per_task()[codes == worst] > 0)).sum())
    sentence = _shares(crowd, worst, given, votes)
    if unvoiced > UNVOICED * given[worst]:
        return Collapse(f"{sentence}; nobody gave it to {unvoiced} of these {given[worst]} tasks", certain=True)
    return Collapse(sentence, certain=False)


def _grown(crowd: Annotations, given: npt.NDArray[np.int64], votes: FloatArray) -> Collapse | None:
    """The most frequent class, if it has far more tasks than votes."""
    top = int(given.argmax())
    inferred, voted = given[top] / given.sum(), votes[top] / given.sum()
    if inferred <= SWOLLEN * voted and 1 - inferred >= SQUEEZED * (1 - voted):
        return None
    return Collapse(_shares(crowd, top, given, votes), certain=False, moderate=True)


def _shares(crowd: Annotations, c: int, given: npt.NDArray[np.int64], votes: FloatArray) -> str:
    inferred, voted = (_percent(counts[c] / given.sum()) for counts in (given, votes))
    return f"class {examples(crowd.classes[[c]])} gets {inferred} of the tasks, with {voted} of the votes"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{100 * share:.2g}%"


def _listed(names: npt.NDArray[np.generic]) -> str:
    shown = examples(names)
    return " and ".join(shown.rsplit(", ", 1)) if len(names) <= 3 else shown
