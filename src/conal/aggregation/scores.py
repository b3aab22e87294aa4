"""Labels by scores of the annotator and of the task: probabilities, and Newton steps on the scores of one kind."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from conal._support.compiled import kernel
from conal.aggregation.arrays import FloatArray
from conal.aggregation.climbing import climb

__all__ = ["Kind", "log_prob"]

COMPILED_FROM = 20_000
"""Number of annotations times squared classes from which compiled loops repay the time they take to load."""

Codes = npt.NDArray[np.integer]


def log_prob(scores: FloatArray, labels: Codes) -> FloatArray:
    """(A,) log-probability of the labels by scores (A, C): log softmax."""
    return np.asarray(scipy.special.log_softmax(scores, axis=1)[np.arange(len(labels)), labels])


class Kind(NamedTuple):
    """Scores of one kind, annotators or tasks, for one true class, and the labels that they explain together.

    Attributes
    ----------
    labels_of : (B, A) sparse
        Whose each label is.
    whose, others, labels : (A,)
        The same as codes, the codes of the other kind, and the labels.
    """

    labels_of: Any
    whose: Codes
    others: Codes
    labels: Codes

    def log_evidence(self, own: FloatArray, other: FloatArray, weights: FloatArray) -> FloatArray:
        """(B,) weighted sum of the log-probabilities of the labels, by scores (B, C) and those of the other kind."""
        if self._compiled(own):
            sums = np.zeros(len(own))
            _log_evidence(self.whose, self.others, self.labels, weights, own, other, sums)
            return sums
        return np.asarray(self.labels_of @ (weights * log_prob(own[self.whose] + other[self.others], self.labels)))

    def better(self, own: FloatArray, other: FloatArray, weights: FloatArray, penalty: float) -> FloatArray:
        """A Newton step on all scores (B, C), each halved where its penalised evidence would fall."""

        def objective(own: FloatArray) -> FloatArray:
            return np.asarray(self.log_evidence(own, other, weights) - 0.5 * penalty * (own**2).sum(1))

        gradient, curvature = self._slopes(own, other, weights)
        gradient -= penalty * own
        curvature += penalty * np.eye(own.shape[1])
        step = np.asarray(np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0], dtype=np.float64)
        return climb(objective, own, step)

    def _slopes(self, own: FloatArray, other: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(B, C) gradient and (B, C, C) curvature of the evidence: sums of weight (1[y] - p) and (diag p - p p^T)."""
        B, C = own.shape
        if self._compiled(own):
            gradient, curvature = np.zeros((B, C)), np.zeros((B, C, C))
            _slopes(self.whose, self.others, self.labels, weights, own, other, gradient, curvature)
            return gradient, curvature
        p = np.exp(scipy.special.log_softmax(own[self.whose] + other[self.others], axis=1))
        expected = weights[:, None] * p
        missing = -expected
        missing[np.arange(len(p)), self.labels] += weights
        columns = [self.labels_of @ (expected * p[:, [k]]) for k in range(C)]
        diagonal = np.asarray(self.labels_of @ expected)[:, :, None] * np.eye(C)
        return np.asarray(self.labels_of @ missing), np.asarray(diagonal - np.stack(columns, axis=2))

    def _compiled(self, own: FloatArray) -> bool:
        return len(self.labels) * own.shape[1] ** 2 >= COMPILED_FROM and _slopes.usable


@kernel
def _log_evidence(whose, others, labels, weights, own, other, sums):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add to ``sums`` (B,); see :meth:`Kind.log_evidence`."""
    C = own.shape[1]
    for a in range(len(labels)):
        if weights[a] == 0.0:
            continue
        b, o = whose[a], others[a]
        top = -math.inf
        for k in range(C):
            top = max(top, own[b, k] + other[o, k])
        total = 0.0
        for k in range(C):
            total += math.exp(own[b, k] + other[o, k] - top)
        sums[b] += weights[a] * (own[b, labels[a]] + other[o, labels[a]] - top - math.log(total))


@kernel
def _slopes(  # type: ignore[no-untyped-def]  # pragma: no cover
    whose, others, labels, weights, own, other, gradient, curvature
):
    """Add to ``gradient`` (B, C) and ``curvature`` (B, C, C); see :meth:`Kind._slopes`."""
    C = own.shape[1]
    p = np.empty(C)
    for a in range(len(labels)):
        weight = weights[a]
        if weight == 0.0:
            continue
        b, o = whose[a], others[a]
        top = -math.inf
        for k in range(C):
            top = max(top, own[b, k] + other[o, k])
        total = 0.0
        for k in range(C):
            p[k] = math.exp(own[b, k] + other[o, k] - top)
            total += p[k]
        for k in range(C):
            p[k] /= total
        gradient[b, labels[a]] += weight
        for k in range(C):
            gradient[b, k] -= weight * p[k]
            curvature[b, k, k] += weight * p[k]
            for m in range(C):
                curvature[b, k, m] -= weight * p[k] * p[m]
