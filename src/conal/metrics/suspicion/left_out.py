"""What the others say about a task: posteriors without an annotator's own label, and the typical annotator's matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from conal.data.annotations import Annotations

__all__ = ["LeftOut", "left_out", "typical_confusion"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

POOLING = 3.0
"""Pseudo-labels per row that draw an annotator's matrix to that of all labels."""
MAX_WEIGHT = 20.0
"""Tasks of a class from which on an annotator counts fully in the median."""
TYPICAL = 0.8
"""Part of the typical matrix that is the median of the annotators; the rest is that of all labels."""
LEAST = 1e-9
LEAST_PRIOR = 1e-3
"""A classifier that has seen the labels may be too sure of them."""


@dataclass(frozen=True, eq=False)
class LeftOut:
    r"""The labels of a crowd, judged by what is known without them.

    .. math::
        q_i^{-r}(c) \propto f_i(c) \prod_{s \ne r} \pi^s_{c, y_i^s}, \qquad
        m_i^r(l) = \sum_c q_i^{-r}(c) \, \bar\pi_{cl}

    Parameters
    ----------
    crowd : Annotations
    counts : (R, C, C)
        Expected counts ``[r, true, observed]``.
    log_prob : (P, C)
        Log P(label | true class c) by the annotator's matrix.
    log_joint : (N, C)
        Log of the prior and of all labels of a task, not normalised.
    posterior : (P, C)
        ``posterior[k, c]`` = P(true class c | all labels of the task but label k).
    """

    crowd: Annotations
    counts: FloatArray
    log_prob: FloatArray
    log_joint: FloatArray
    posterior: FloatArray

    @cached_property
    def typical(self) -> FloatArray:
        """(C, C) the typical annotator's matrix."""
        return typical_confusion(self.counts)

    @cached_property
    def expected(self) -> FloatArray:
        """(P, C) how probably the typical annotator gives each label to the task of each label, by the others."""
        return np.asarray(self.posterior @ self.typical)

    @cached_property
    def habits(self) -> FloatArray:
        """(R, C) how often each annotator gives each label, with one pseudo-label."""
        R, C = self.crowd.n_annotators, self.crowd.n_classes
        cells = self.crowd.annotators.astype(np.int64) * C + self.crowd.labels
        given = np.bincount(cells, minlength=R * C).reshape(R, C) + 1 / C
        return np.asarray(given / given.sum(1, keepdims=True))

    def changes(self) -> IntArray:
        """(R,) how many tasks get another label, by one E-step, without the labels of each annotator."""
        label = self.log_joint.argmax(1)[self.crowd.tasks]
        changed = self.posterior.argmax(1) != label
        return np.bincount(self.crowd.annotators[changed], minlength=self.crowd.n_annotators).astype(np.int64)

    def sums(self, values: FloatArray) -> FloatArray:
        """(R,) sums over the labels of each annotator."""
        total = np.bincount(self.crowd.annotators, weights=values, minlength=self.crowd.n_annotators)
        return np.asarray(total, dtype=np.float64)


def left_out(crowd: Annotations, posterior: FloatArray, classifier: FloatArray | None = None) -> LeftOut:
    """Posteriors without each label, by one E-step with matrices that follow from a posterior (N, C).

    The matrices are drawn to that of all labels by a few pseudo-labels. The prior is that of a classifier (N, C), if
    there is one, and otherwise the shares of the classes.
    """
    R, C = crowd.n_annotators, crowd.n_classes
    cells = crowd.annotators.astype(np.int64) * C + crowd.labels
    counts = np.empty((R, C, C))
    for c in range(C):
        counts[:, c] = np.bincount(cells, weights=posterior[crowd.tasks, c], minlength=R * C).reshape(R, C)
    pooled = counts.sum(0) + 0.5
    matrices = counts + POOLING * pooled / pooled.sum(1, keepdims=True)
    matrices /= matrices.sum(2, keepdims=True)
    log_prob = np.log(matrices[crowd.annotators, :, crowd.labels])
    prior = posterior.mean(0) + LEAST if classifier is None else np.maximum(classifier, LEAST_PRIOR)
    log_joint = np.broadcast_to(np.log(prior), (crowd.n_tasks, C)).copy()
    for c in range(C):
        log_joint[:, c] += np.bincount(crowd.tasks, weights=log_prob[:, c], minlength=crowd.n_tasks)
    without = np.asarray(softmax(log_joint[crowd.tasks] - log_prob, axis=1))
    return LeftOut(crowd, counts, log_prob, log_joint, without)


def typical_confusion(counts: FloatArray) -> FloatArray:
    """(C, C) the weighted median of the annotators' matrices, from expected counts (R, C, C).

    A group that exchanges classes moves the matrix of all labels, but hardly the median. What one annotator in two
    does, such as a common confusion, stays in it.

    >>> honest, ring = [[9.0, 1.0], [1.0, 9.0]], [[0.0, 10.0], [10.0, 0.0]]
    >>> typical_confusion(np.array([honest, honest, honest, ring, ring])).round(2).tolist()
    [[0.83, 0.17], [0.17, 0.83]]
    """
    if not len(counts):
        return np.full(counts.shape[1:], 1 / counts.shape[1])
    met = counts.sum(2)
    rates = counts / np.maximum(met, LEAST)[:, :, None]
    order = np.argsort(rates, axis=0, kind="stable")
    weights = np.broadcast_to(np.minimum(met, MAX_WEIGHT)[:, :, None], rates.shape)
    reached = np.cumsum(np.take_along_axis(weights, order, axis=0), axis=0)
    middle = (reached >= reached[-1] / 2).argmax(0)
    median = np.take_along_axis(np.take_along_axis(rates, order, axis=0), middle[None], axis=0)[0]
    total = median.sum(1, keepdims=True)
    median = np.where(total > LEAST, median / np.maximum(total, LEAST), 1 / len(median))
    pooled = counts.sum(0) + 0.5
    return np.asarray(TYPICAL * median + (1 - TYPICAL) * pooled / pooled.sum(1, keepdims=True))
