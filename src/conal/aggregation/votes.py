"""The annotations as sparse matrices: the two products that every EM step is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from conal.annotations import Annotations
from conal.encoding import MISSING

__all__ = ["FloatArray", "Votes", "clamped", "class_shares", "lost_classes", "normalised", "vote_shares"]

FloatArray = npt.NDArray[np.float64]

LOST_SHARE = 0.1
"""A class counts as lost if it is given to fewer than this share of the tasks whose votes it wins."""
MIN_WINS = 5
"""Classes that win fewer votes than this are too rare to be missed."""


class Votes:
    """The annotations as a sparse one-hot matrix, in both orders that EM needs.

    Attributes
    ----------
    by_task : (N, R C) sparse
        ``by_task[i, r C + l]`` = 1 where annotator r gave task i the label l.
    by_annotator : (R C, N) sparse
        Its transpose, stored by row.
    """

    def __init__(self, annotations: Annotations) -> None:
        self.annotations = annotations
        self.shape = annotations.n_tasks, annotations.n_annotators, annotations.n_classes
        N, R, C = self.shape
        # Small indices are half the memory to go through in every product.
        index = np.int32 if max(R * C, N, annotations.n_annotations) < 2**31 else np.int64
        column = np.multiply(annotations.annotators, C, dtype=index) + annotations.labels
        ones = np.ones(annotations.n_annotations)
        self.by_task = csr_array((ones, column, annotations.indptr.astype(index)), shape=(N, R * C))
        self.by_annotator = self.by_task.T.tocsr()

    def counts(self, posterior: FloatArray) -> FloatArray:
        """(R, C, C) expected ``[r, c, l]``: how often annotator r labelled l what is c, by the posterior (N, C)."""
        _, R, C = self.shape
        return np.asarray(self.by_annotator @ posterior).reshape(R, C, C).transpose(0, 2, 1)

    def log_evidence(self, log_confusion: FloatArray) -> FloatArray:
        """(N, C) sum over a task's labels of log pi_r[c, y], for every class c."""
        _, R, C = self.shape
        return np.asarray(self.by_task @ np.ascontiguousarray(log_confusion.transpose(0, 2, 1)).reshape(R * C, C))


def vote_shares(annotations: Annotations, rng: np.random.Generator | None = None) -> FloatArray:
    """(N, C) share of a task's votes for each class, uniform without votes; perturbed where ``rng`` is given."""
    counts = annotations.votes().astype(np.float64)
    if rng is not None:
        counts = counts + rng.exponential(size=counts.shape)
    return normalised(counts)


def normalised(counts: FloatArray) -> FloatArray:
    """Non-negative counts as distributions over the last axis; uniform where there is nothing to go by."""
    total = counts.sum(-1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / counts.shape[-1])


def class_shares(posterior: FloatArray) -> FloatArray:
    """(C,) mean of the posterior over tasks, as a product, which is faster than a mean over many short rows."""
    return np.asarray(np.full(len(posterior), 1.0 / max(len(posterior), 1)) @ posterior)


def lost_classes(annotations: Annotations, given: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Codes of the classes that win votes but are hardly ``given`` (C,), as counts, to any labelled task."""
    winners = annotations.votes().argmax(1)[annotations.labels_per_task() > 0]
    wins = np.bincount(winners, minlength=annotations.n_classes)
    return np.flatnonzero((wins >= MIN_WINS) & (given < LOST_SHARE * wins))


def clamped(posterior: FloatArray, known: npt.NDArray[np.int64]) -> FloatArray:
    """The posterior with certainty where the truth is known."""
    given = np.flatnonzero(known != MISSING)
    if len(given):
        posterior[given] = np.eye(posterior.shape[1])[known[given]]
    return posterior
