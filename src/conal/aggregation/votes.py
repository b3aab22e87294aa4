"""The annotations as sparse matrices: the two products that every EM step is made of."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from conal.aggregation.fused import FUSED_ABOVE, counting_for, expectation_for
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING

__all__ = ["Expected", "FloatArray", "Votes", "clamped", "class_shares", "lost_classes", "normalised", "vote_shares"]

FloatArray = npt.NDArray[np.float64]

LOST_SHARE = 0.1
"""A class counts as lost if it is given to fewer than this share of the tasks whose votes it wins."""
MIN_WINS = 5
"""Classes that win fewer votes than this are too rare to be missed."""


class Expected(NamedTuple):
    """What an E-step leaves for the M-step, added up over tasks: the sums of parts are the sum of the whole.

    Attributes
    ----------
    counts : (R, C, C)
        Expected ``[r, c, l]``: how often annotator r labelled l what is c.
    shares : (C,)
        Expected tasks of each class.
    n_tasks : int
    """

    counts: FloatArray
    shares: FloatArray
    n_tasks: int


class Votes:
    """The annotations as a sparse one-hot matrix, in both orders that EM needs; each is made when it is asked for.

    Attributes
    ----------
    cells : (A,)
        Every label as annotator x classes + label, in the order of the tasks.
    by_task : (N, R C) sparse
        ``by_task[i, r C + l]`` = 1 where annotator r gave task i the label l.
    by_annotator : (R C, N) sparse
        Its transpose, stored by row.
    """

    def __init__(self, annotations: Annotations) -> None:
        self.annotations = annotations
        self.shape = annotations.n_tasks, annotations.n_annotators, annotations.n_classes

    @cached_property
    def cells(self) -> npt.NDArray[Any]:
        """Small indices are half the memory to go through in every product."""
        N, R, C = self.shape
        index = np.int32 if max(R * C, N, self.annotations.n_annotations) < 2**31 else np.int64
        return np.multiply(self.annotations.annotators, C, dtype=index) + self.annotations.labels

    @cached_property
    def by_task(self) -> Any:
        """The labels of each task."""
        N, R, C = self.shape
        indptr = self.annotations.indptr.astype(self.cells.dtype)
        return csr_array((np.ones(len(self.cells)), self.cells, indptr), shape=(N, R * C))

    @cached_property
    def by_annotator(self) -> Any:
        """The tasks of each label of each annotator."""
        return self.by_task.T.tocsr()

    def counts(self, posterior: FloatArray) -> FloatArray:
        """(R, C, C) expected ``[r, c, l]``: how often annotator r labelled l what is c, by the posterior (N, C)."""
        _, R, C = self.shape
        return np.asarray(self.by_annotator @ posterior).reshape(R, C, C).transpose(0, 2, 1)

    def expected(self, posterior: FloatArray) -> Expected:
        """What the posterior (N, C) leaves for the M-step."""
        return Expected(self.counts(posterior), np.ones(len(posterior)) @ posterior, len(posterior))

    def log_evidence(self, log_confusion: FloatArray) -> FloatArray:
        """(N, C) sum over a task's labels of log pi_r[c, y], for every class c."""
        _, R, C = self.shape
        return np.asarray(self.by_task @ np.ascontiguousarray(log_confusion.transpose(0, 2, 1)).reshape(R * C, C))

    @property
    def fused(self) -> bool:
        """Whether :meth:`fused_expectation` can be had, and pays."""
        large = self.annotations.n_annotations >= FUSED_ABOVE
        return large and expectation_for(self.shape[2]).usable

    def fused_expected(self, posterior: FloatArray) -> Expected:
        """The same as :meth:`expected` in a compiled pass, without making the matrices first."""
        N, R, C = self.shape
        counts = np.zeros((R * C, C))
        counting_for(C)(self.annotations.indptr, self.cells, posterior, counts)
        return Expected(counts.reshape(R, C, C).transpose(0, 2, 1), np.ones(N) @ posterior, N)

    def fused_expectation(
        self, rho: FloatArray, pi_r: FloatArray, known: npt.NDArray[np.int64], posterior: FloatArray | None = None
    ) -> tuple[Expected, float]:
        """E-step by confusion matrices (R, C, C) in one compiled pass, and the log-likelihood.

        ``posterior`` (N, C) is filled if it is given.
        """
        N, R, C = self.shape
        counts, shares = np.zeros((R * C, C)), np.zeros(C)
        pi = np.ascontiguousarray(pi_r.transpose(0, 2, 1)).reshape(R * C, C)
        kept = np.empty((0, C)) if posterior is None else posterior
        log_likelihood = expectation_for(C)(self.annotations.indptr, self.cells, known, rho, pi, counts, shares, kept)
        return Expected(counts.reshape(R, C, C).transpose(0, 2, 1), shares, N), float(log_likelihood)


def vote_shares(annotations: Annotations, rng: np.random.Generator | None = None) -> FloatArray:
    """(N, C) share of a task's votes for each class, uniform without votes; perturbed where ``rng`` is given."""
    counts = annotations.votes().astype(np.float64)
    if rng is not None:
        counts = counts + rng.exponential(size=counts.shape)
    return normalised(counts)


def normalised(counts: FloatArray) -> FloatArray:
    """Non-negative counts as distributions over the last axis; uniform where there is nothing to go by."""
    total = counts.sum(-1, keepdims=True)
    if (total > 0).all():
        return np.asarray(counts / total)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / counts.shape[-1])


def class_shares(posterior: FloatArray) -> FloatArray:
    """(C,) mean of the posterior over tasks, as a product, which is faster than a mean over many short rows."""
    return np.asarray(np.full(len(posterior), 1.0 / max(len(posterior), 1)) @ posterior)


def lost_classes(annotations: Annotations, given: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Codes of the classes that win votes but are hardly ``given`` (C,), as counts, to any labelled task."""
    labels = np.bincount(annotations.labels, minlength=annotations.n_classes)
    if (given >= LOST_SHARE * labels).all():  # no class wins more votes than it has, and counting these is quick
        return np.empty(0, dtype=np.int64)
    winners = annotations.votes().argmax(1)[annotations.labels_per_task() > 0]
    wins = np.bincount(winners, minlength=annotations.n_classes)
    return np.flatnonzero((wins >= MIN_WINS) & (given < LOST_SHARE * wins))


def clamped(posterior: FloatArray, known: npt.NDArray[np.int64]) -> FloatArray:
    """The posterior with certainty where the truth is known."""
    given = np.flatnonzero(known != MISSING)
    if len(given):
        posterior[given] = np.eye(posterior.shape[1])[known[given]]
    return posterior
