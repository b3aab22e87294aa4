"""Distributions from counts and logarithms, and annotations as sparse matrices: the products of every EM step."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy

from conal._arrays import FloatArray, grouped_sums
from conal.aggregation.ranks import ranks_of
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING

if TYPE_CHECKING:
    from torch import Tensor


# Distributions from counts, also of torch tensors, and from logarithms; neither torch nor scipy is imported.

Array = TypeVar("Array", FloatArray, "Tensor")


def normalised(counts: Array) -> Array:
    """Non-negative counts as distributions over the last axis; uniform where all counts are zero.

    >>> normalised(np.array([[3.0, 1.0], [0.0, 0.0]])).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """
    total: Array = counts.sum(-1)[..., None]
    if bool((total > 0).all()):
        return counts / total
    empty = total <= 0
    filled: Array = counts + empty * (1.0 / counts.shape[-1])
    return filled / (total + empty)


def softmax(logarithms: FloatArray) -> FloatArray:
    """Distributions over the last axis from their logarithms up to a constant, as ``scipy.special.softmax``.

    Loading scipy takes longer than an update of a large crowd.

    >>> softmax(np.log([[3.0, 1.0]])).round(2).tolist()
    [[0.75, 0.25]]
    """
    odds = np.exp(logarithms - logarithms.max(-1, keepdims=True))
    proba: FloatArray = odds / odds.sum(-1, keepdims=True)
    return proba


# Dirichlet distributions over the last axis: what variational aggregators need of them.


def expected_log(alpha: FloatArray) -> FloatArray:
    """E log p under Dirichlet(alpha) over the last axis."""
    return np.asarray(scipy.special.digamma(alpha) - scipy.special.digamma(alpha.sum(-1, keepdims=True)))


def log_normaliser(alpha: FloatArray) -> FloatArray:
    """Logarithm of the multivariate beta function over the last axis."""
    return np.asarray(scipy.special.gammaln(alpha).sum(-1) - scipy.special.gammaln(alpha.sum(-1)))


def divergence(alpha: FloatArray, prior: FloatArray) -> FloatArray:
    """KL of Dirichlet(alpha) from Dirichlet(prior) over the last axis."""
    change = ((alpha - prior) * expected_log(alpha)).sum(-1)
    return np.asarray(log_normaliser(prior) - log_normaliser(alpha) + change)


# The annotations as sparse matrices: the two products of every EM step.

LOST_SHARE = 0.1
"""A class is lost if it is given to a smaller share than this of the tasks whose votes it wins."""
MIN_WINS = 5
"""A class that wins fewer votes than this is too rare to count as lost."""
FEW_CELLS = 30_000
"""Labels times classes up to which all products of a fit take less time than loading scipy.sparse."""


class Votes:
    """The annotations as a sparse one-hot matrix, by task and by annotator; each is made when it is first used.

    Where there are few labels, and scipy.sparse is not loaded, products are made by counting. Sums are made in the same
    order, so that every bit is the same.

    Attributes
    ----------
    shape : (N, R, C)
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
        """(A,) annotator x classes + label; 32 bits if possible, because every product reads all of it."""
        N, R, C = self.shape
        index = np.int32 if max(R * C, N, self.annotations.n_annotations) < 2**31 else np.int64
        return np.multiply(self.annotations.annotators, C, dtype=index) + self.annotations.labels

    @cached_property
    def by_task(self) -> Any:
        """The labels of each task."""
        N, R, C = self.shape
        indptr = self.annotations.indptr.astype(self.cells.dtype)
        return scipy.sparse.csr_array((np.ones(len(self.cells)), self.cells, indptr), shape=(N, R * C))

    @cached_property
    def by_annotator(self) -> Any:
        """The tasks of each label of each annotator."""
        return self.by_task.T.tocsr()

    @cached_property
    def of_tasks(self) -> Any:
        """(N, A) sparse: 1 where a label is the task's. A product with it sums values of labels by task."""
        A = len(self.cells)
        indptr = self.annotations.indptr.astype(self.cells.dtype)
        return scipy.sparse.csr_array(
            (np.ones(A), np.arange(A, dtype=self.cells.dtype), indptr), shape=(self.shape[0], A)
        )

    @cached_property
    def of_annotators(self) -> Any:
        """(R, A) sparse: 1 where a label is the annotator's."""
        A, who = len(self.cells), self.annotations.annotators
        order = np.argsort(who, kind="stable").astype(self.cells.dtype)
        indptr = np.concatenate([[0], np.cumsum(self.annotations.labels_per_annotator())]).astype(self.cells.dtype)
        return scipy.sparse.csr_array((np.ones(A), order, indptr), shape=(self.shape[1], A))

    def counts(self, posterior: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """(R, C, C) expected ``[r, c, l]``: how many labels l annotator r gave to tasks of class c.

        Parameters
        ----------
        posterior : (N, C)
            Probability of every class for every task.
        weights : (P,), optional
            How much every label counts, in the order of the tasks; 1 by default.
        """
        _, R, C = self.shape
        if weights is None and self._by_counting():
            return self.annotations.expected_counts(posterior[self.annotations.tasks])
        by_annotator = self.by_annotator if weights is None else self._weighted(weights).T
        return np.asarray(by_annotator @ posterior).reshape(R, C, C).transpose(0, 2, 1)

    def log_evidence(self, log_confusion: FloatArray) -> FloatArray:
        """(N, C) sum over a task's labels of log pi_r[c, y], for every class c."""
        N, R, C = self.shape
        if self._by_counting():
            crowd = self.annotations
            return grouped_sums(crowd.tasks, log_confusion[crowd.annotators, :, crowd.labels], N)
        return np.asarray(self.by_task @ np.ascontiguousarray(log_confusion.transpose(0, 2, 1)).reshape(R * C, C))

    def _by_counting(self) -> bool:
        return self.annotations.n_annotations * self.shape[2] <= FEW_CELLS and "scipy.sparse" not in sys.modules

    def _weighted(self, weights: FloatArray) -> Any:
        ones = self.by_task
        return scipy.sparse.csr_array((weights, ones.indices, ones.indptr), shape=ones.shape)


def vote_shares(annotations: Annotations, rng: np.random.Generator | None = None) -> FloatArray:
    """(N, C) share of a task's votes for each class, uniform without votes; perturbed where ``rng`` is given."""
    counts = annotations.votes().astype(np.float64)
    if rng is not None:
        places = ranks_of(annotations)
        counts = counts + rng.exponential(size=counts.shape)[np.ix_(places.tasks, places.classes)]
    return normalised(counts)


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
    """The posterior, with probability 1 for known true labels."""
    given = np.flatnonzero(known != MISSING)
    if len(given):
        posterior[given] = np.eye(posterior.shape[1])[known[given]]
    return posterior


def agreement(
    crowd: Annotations, codes: npt.NDArray[np.int64], among: npt.NDArray[np.bool_] | None = None
) -> FloatArray:
    """(R,) share of an annotator's labels that equal the tasks' ``codes`` (N,); 1 / C without labels.

    ``among`` (N,) says which tasks count; all by default.
    """
    right: npt.NDArray[Any] = crowd.labels == codes[crowd.tasks]
    counts = np.ones(len(right)) if among is None else among[crowd.tasks].astype(np.float64)
    given = np.bincount(crowd.annotators, weights=counts, minlength=crowd.n_annotators)
    agreed = np.bincount(crowd.annotators, weights=counts * right, minlength=crowd.n_annotators)
    return np.where(given > 0, agreed / np.maximum(given, 1), 1.0 / max(crowd.n_classes, 1))
