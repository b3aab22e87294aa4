"""Copies: pairs of annotators who agree on their mistakes beyond what their own confusion explains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, softmax

from conal.metrics.suspicion.left_out import LeftOut

__all__ = ["Copies", "find_copies"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MIN_SHARED = 20
"""Common tasks of two annotators who are compared."""
MOST_PAIRS = 3_000_000
"""Pairs of labels of one task that are compared; of more, those of random tasks are."""
COPIED = 0.15
"""Share of the answers that must be copied, beyond what pairs of this crowd seem to copy in the mean."""
POOLING = 5.0
"""Labels per class that the typical annotator's matrix counts beside a pair's labels on common tasks."""
OUTLIER = 3.0


class Copies(NamedTuple):
    """Pairs of annotators with enough common tasks; all arrays have one entry for each.

    Attributes
    ----------
    first, second : annotators
    shared : number of common tasks
    agreed : on how many of them both gave the same label
    expected : on how many they would, by what confusion explains
    mistakes : on how many the first or second label is wrong, by the labels of all others
    agreed_mistakes : on how many of these both gave the same wrong label
    p_value : of the hypothesis that no more than a small share is copied
    """

    first: IntArray
    second: IntArray
    shared: IntArray
    agreed: IntArray
    expected: FloatArray
    mistakes: IntArray
    agreed_mistakes: IntArray
    p_value: FloatArray


class _Labels(NamedTuple):
    """Positions of two labels of one task, and the number of their pair of annotators."""

    left: IntArray
    right: IntArray
    pair: IntArray


def find_copies(found: LeftOut, excluded: npt.NDArray[np.bool_], seed: int = 0) -> Copies:
    r"""Which pairs of annotators agree more often than two people would who only see the same task.

    By the labels of all others, :math:`q_i^{-rs}`, and the matrices of both on their common tasks, two honest people
    agree on a task with probability

    .. math:: e_i = \sum_c q_i^{-rs}(c) \sum_l \pi^r_{cl} \pi^s_{cl}

    A common confusion is part of both matrices, and so of e: it explains why they make the same mistakes. If a share
    :math:`\kappa` is copied, they agree with :math:`e + \kappa (1 - e)`. Tasks that mislead many let all pairs agree
    too often, so the mean :math:`\bar\kappa` of the crowd's pairs is added to what is allowed:

    .. math::
        z = \frac{\sum_i [y_i^r = y_i^s] - \bar e_i}{\sqrt{\sum_i \bar e_i (1 - \bar e_i)}}, \qquad
        \bar e = e + (0.15 + \bar\kappa) (1 - e)

    Parameters
    ----------
    found : LeftOut
    excluded : (R,) bool
        Annotators who are not compared: of two who always say the same class, neither copies.
    """
    crowd, R = found.crowd, found.crowd.n_annotators
    labels, keys = _pairs(found, excluded, np.random.default_rng(seed))
    n = len(keys)
    same = crowd.labels[labels.left] == crowd.labels[labels.right]
    q = _without_both(found, labels)
    e = _agreement(found, labels, q, n)
    total = _counter(labels.pair, n)
    shared, agreed, expected, spread = total(np.ones(len(same))), total(same), total(e), total(e * (1 - e))
    usual = (agreed - expected) / np.sqrt(np.maximum(spread, 1e-9)) < OUTLIER
    excess, room = agreed - expected, shared - expected
    mean = max(0.0, float(excess[usual].sum() / max(room[usual].sum(), 1e-9)))
    allowed = e + min(COPIED + mean, 1.0) * (1 - e)
    z = (agreed - total(allowed)) / np.sqrt(np.maximum(total(allowed * (1 - allowed)), 1e-9))
    best = q.argmax(1)
    wrong = (crowd.labels[labels.left] != best) | (crowd.labels[labels.right] != best)
    kept = np.flatnonzero(shared >= MIN_SHARED)

    def whole(values: FloatArray) -> IntArray:
        return np.rint(values[kept]).astype(np.int64)

    return Copies(
        keys[kept] // R,
        keys[kept] % R,
        whole(shared),
        whole(agreed),
        expected[kept],
        whole(total(wrong)),
        whole(total(wrong & same)),
        np.asarray(ndtr(-z[kept])),
    )


def _counter(pair: IntArray, n: int) -> Callable[[npt.NDArray[Any]], FloatArray]:
    """Sums over the labels of each pair."""
    return lambda values: np.asarray(np.bincount(pair, weights=values, minlength=n), dtype=np.float64)


def _pairs(found: LeftOut, excluded: npt.NDArray[np.bool_], rng: np.random.Generator) -> tuple[_Labels, IntArray]:
    """Two labels of the same task, of every task or of random ones; and the key of each pair, first x R + second."""
    crowd = found.crowd
    kept = np.flatnonzero(~excluded[crowd.annotators])
    tasks = crowd.tasks[kept]
    per_task = np.bincount(tasks, minlength=crowd.n_tasks)
    order = rng.permutation(crowd.n_tasks)
    compared = np.zeros(crowd.n_tasks, dtype=bool)
    compared[order[np.cumsum(per_task[order] * (per_task[order] - 1) // 2) <= MOST_PAIRS]] = True
    kept, tasks = kept[compared[tasks]], tasks[compared[tasks]]
    per_task = np.where(compared, per_task, 0)
    place = np.arange(len(kept)) - (np.cumsum(per_task) - per_task)[tasks]
    left = [np.empty(0, dtype=np.int64)]
    right = left.copy()
    for ahead in range(1, int(per_task.max(initial=0))):
        first = np.flatnonzero(place + ahead < per_task[tasks])
        left.append(kept[first])
        right.append(kept[first + ahead])  # labels of a task stand together, sorted by annotator
    a, b = np.concatenate(left), np.concatenate(right)
    keys, pair = np.unique(
        crowd.annotators[a].astype(np.int64) * crowd.n_annotators + crowd.annotators[b], return_inverse=True
    )
    return _Labels(a, b, pair), keys


def _without_both(found: LeftOut, labels: _Labels) -> FloatArray:
    """(pairs of labels, C) posterior of the task without either label."""
    joint = found.log_joint[found.crowd.tasks[labels.left]]
    return np.asarray(softmax(joint - found.log_prob[labels.left] - found.log_prob[labels.right], axis=1))


def _agreement(found: LeftOut, labels: _Labels, q: FloatArray, n: int) -> FloatArray:
    """(pairs of labels,) how probably two people agree who only see the same task, by their labels on common tasks.

    Their matrices are by labels of others alone: by its posterior, a pair that outvotes the others would seem right.
    """
    crowd, C = found.crowd, found.crowd.n_classes
    typical = found.typical
    rows = []
    for side in (labels.left, labels.right):
        counts = np.bincount(
            ((labels.pair[:, None] * C + np.arange(C)) * C + crowd.labels[side][:, None]).ravel(),
            weights=q.ravel(),
            minlength=n * C * C,
        ).reshape(n, C, C)
        pooled = counts + POOLING * typical
        rows.append(pooled / pooled.sum(2, keepdims=True))
    by_class = np.einsum("pcl,pcl->pc", *rows)
    return np.asarray((q * by_class[labels.pair]).sum(1))
