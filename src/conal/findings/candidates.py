"""Who comes into question for which task: for every two classes, those who tell them apart best."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.findings.asking import Asking, Pairs

__all__ = ["candidates", "tells_apart"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

WIDTH = 8
"""Annotators who are considered for a task."""
MOST_ALLOWED = 24
"""The same where the pairs that may be chosen are listed."""


def tells_apart(confusion: FloatArray, a: int, b: int) -> FloatArray:
    """(R,) how different the answers to tasks of two classes are: 0 for guesses, 1 for people who never confuse them.

    >>> tells_apart(np.array([[[0.9, 0.1], [0.3, 0.7]]]), 0, 1).round(3).tolist()
    [0.6]
    """
    return np.asarray(np.abs(confusion[:, a] - confusion[:, b]).sum(1) / 2)


def candidates(asking: Asking, tasks: IntArray, room: FloatArray, width: int = WIDTH) -> IntArray:
    """(n, width) annotators who may be asked about each task, -1 where there are fewer.

    Cost goes with the number of tasks, and with that of annotators once per pair of classes.

    Parameters
    ----------
    room : (R,)
        How many more labels each annotator can give; those with none are left out.
    """
    free = room >= 1
    if asking.allowed is not None:
        return _of_pairs(asking.allowed, tasks, free, max(width, MOST_ALLOWED))
    found = np.full((len(tasks), width), -1)
    keys, group = np.unique(asking.pair_key[tasks], return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(keys) + 1))
    n_classes = asking.posterior.shape[1]
    for k, key in enumerate(keys):
        rows = order[starts[k] : starts[k + 1]]
        a, b = divmod(int(key), n_classes)
        ranking = _ranking(asking, a, b, free)
        found[rows] = _not_asked(asking, tasks[rows], ranking, width)
    return found


def _ranking(asking: Asking, a: int, b: int, free: BoolArray) -> IntArray:
    """Annotators who tell two classes apart: the best for their cost and the best at any cost, in turns."""
    apart = tells_apart(asking.confusion, a, b)
    who = np.flatnonzero(free & (apart > 0))
    by_cost = who[np.argsort(-apart[who] / np.maximum(asking.price[who], 1e-9), kind="stable")]
    by_skill = who[np.argsort(-apart[who], kind="stable")]
    turns = np.column_stack([by_cost, by_skill]).ravel()
    _, first = np.unique(turns, return_index=True)
    return turns[np.sort(first)]


def _not_asked(asking: Asking, tasks: IntArray, ranking: IntArray, width: int) -> IntArray:
    """(n, width) the first of the ranking who have not labelled each task."""
    begin, end = asking.asked.indptr[tasks], asking.asked.indptr[tasks + 1]
    most = int((end - begin).max(initial=0))
    ranking = ranking[: width + most]  # so many remain in any case
    place = np.full(len(asking.confusion), -1)
    place[ranking] = np.arange(len(ranking))
    taken = np.zeros((len(tasks), len(ranking)), bool)
    for step in range(most):
        rows = np.flatnonzero(begin + step < end)
        at = place[asking.asked.annotators[begin[rows] + step]]
        taken[rows[at >= 0], at[at >= 0]] = True
    first = np.argsort(taken, axis=1, kind="stable")[:, :width]
    found = np.full((len(tasks), width), -1)
    if len(ranking):
        found[:, : first.shape[1]] = np.where(np.take_along_axis(taken, first, 1), -1, ranking[first])
    return found


def _of_pairs(pairs: Pairs, tasks: IntArray, free: BoolArray, width: int) -> IntArray:
    """(n, width) the first annotators of each task's pairs."""
    begin, end = pairs.indptr[tasks], pairs.indptr[tasks + 1]
    found = np.full((len(tasks), min(width, max(int((end - begin).max(initial=0)), 1))), -1)
    width = found.shape[1]
    filled = np.zeros(len(tasks), np.int64)
    for step in range(int((end - begin).max(initial=0))):
        rows = np.flatnonzero((begin + step < end) & (filled < width))
        who = pairs.annotators[begin[rows] + step]
        rows, who = rows[free[who]], who[free[who]]
        found[rows, filled[rows]] = who
        filled[rows] += 1
    return found
