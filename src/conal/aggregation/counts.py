"""What aggregators count with: distributions, votes as sparse matrices, and an order that names do not change."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy

from conal._arrays import BoolArray, FloatArray, IntArray, grouped_means, grouped_sums
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING

if TYPE_CHECKING:
    from torch import Tensor


# Distributions from counts, also of torch tensors, and from logarithms; neither torch nor scipy is imported.

Array = TypeVar("Array", FloatArray, "Tensor")
Part = TypeVar("Part", FloatArray, BoolArray, "Tensor")


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


def beside(part: Part, whole: Any) -> Part:
    """(B, ...) with further axes, to multiply what is (B, ..., ...).

    >>> beside(np.zeros(2), np.zeros((2, 3, 3))).shape
    (2, 1, 1)
    """
    return part.reshape(tuple(part.shape) + (1,) * (whole.ndim - part.ndim))


def logarithm(probabilities: FloatArray) -> FloatArray:
    """Logarithms, without a warning about a probability of zero, which rules a class out."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


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


# Confusion matrices: how often an annotator is right, and matrices of few numbers.


def expected_skills(shares: FloatArray, confusion: FloatArray) -> FloatArray:
    """(R,) probability of a right label, by class shares (C,) and matrices (R, C, C)."""
    return np.asarray(np.einsum("c,rcc->r", shares, confusion))


def one_coin(skills: FloatArray, n_classes: int) -> FloatArray:
    """(R, C, C) matrices of annotators who are right with probabilities (R,), and otherwise err evenly."""
    skill, identity = skills[:, None, None], np.eye(n_classes)
    return np.asarray(identity * skill + (1 - identity) * (1 - skill) / max(n_classes - 1, 1))


def mostly_right(n_classes: int, right: float, wrong: float) -> FloatArray:
    """(C, C) pseudo-labels of a prior: ``right`` on the diagonal, ``wrong`` elsewhere."""
    return wrong + (right - wrong) * np.eye(n_classes)


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


def lost_classes(annotations: Annotations, given: npt.NDArray[Any]) -> IntArray:
    """Codes of the classes that win votes but are hardly ``given`` (C,), as counts, to any labelled task."""
    labels = np.bincount(annotations.labels, minlength=annotations.n_classes)
    if (given >= LOST_SHARE * labels).all():  # no class wins more votes than it has, and counting these is quick
        return np.empty(0, dtype=np.int64)
    winners = annotations.votes().argmax(1)[annotations.labels_per_task() > 0]
    wins = np.bincount(winners, minlength=annotations.n_classes)
    return np.flatnonzero((wins >= MIN_WINS) & (given < LOST_SHARE * wins))


def clamped(posterior: FloatArray, known: IntArray) -> FloatArray:
    """The posterior, with probability 1 for known true labels."""
    given = np.flatnonzero(known != MISSING)
    if len(given):
        posterior[given] = np.eye(posterior.shape[1])[known[given]]
    return posterior


def agreement(crowd: Annotations, codes: IntArray, among: BoolArray | None = None) -> FloatArray:
    """(R,) share of an annotator's labels that equal the tasks' ``codes`` (N,); 1 / C without labels.

    ``among`` (N,) says which tasks count; all by default.
    """
    counts = slice(None) if among is None else among[crowd.tasks]
    right = (crowd.labels == codes[crowd.tasks])[counts]
    return grouped_means(crowd.annotators[counts], right, crowd.n_annotators, empty=1.0 / max(crowd.n_classes, 1))


# An order of tasks, annotators, classes and labels that does not depend on their names, for random draws.

Hashes = npt.NDArray[np.uint64]

MIXING_ROUNDS = 4
"""After so many, who labelled what with whom, and how, has gone through the whole crowd."""


class Ranks(NamedTuple):
    """Places of all tasks (N,), annotators (R,) and classes (C,).

    Of those that cannot be told apart by the labels, the first comes first; they are interchangeable.
    """

    tasks: IntArray
    annotators: IntArray
    classes: IntArray


def ranks_of(crowd: Annotations) -> Ranks:
    """Places by who gave which labels to the same tasks: other names, or another order of the rows, change nothing.

    Every task, annotator and class has a number that is mixed from those of its labels, again and again
    (Weisfeiler-Lehman).

    >>> crowd = Annotations.from_triples([1, 1, 2], ["a", "b", "a"], ["x", "y", "x"])
    >>> renamed = Annotations.from_triples([7, 7, 2], ["a", "b", "a"], ["x", "y", "x"])
    >>> ranks_of(crowd).tasks.tolist(), ranks_of(renamed).tasks.tolist()
    ([0, 1], [1, 0])
    """
    sides = [(crowd.tasks, crowd.n_tasks), (crowd.annotators, crowd.n_annotators), (crowd.labels, crowd.n_classes)]
    hashes: list[Hashes] = [np.full(n, k, dtype=np.uint64) for k, (_, n) in enumerate(sides)]
    for _ in range(MIXING_ROUNDS):
        each: Hashes = np.zeros(crowd.n_annotations, dtype=np.uint64)
        for (codes, _), own in zip(sides, hashes, strict=True):
            each = _mixed(each + own[codes])
        hashes = [_mixed(own + _wrapping_sums(codes, each, n)) for (codes, n), own in zip(sides, hashes, strict=True)]
    tasks, annotators, classes = (_places(np.argsort(own, kind="stable")) for own in hashes)
    return Ranks(tasks, annotators, classes)


def label_ranks(crowd: Annotations) -> IntArray:
    """(A,) places of the labels: by the rank of the task, then of the annotator."""
    ranks = ranks_of(crowd)
    return _places(np.lexsort((ranks.annotators[crowd.annotators], ranks.tasks[crowd.tasks])))


def _wrapping_sums(codes: npt.NDArray[Any], values: Hashes, n: int) -> Hashes:
    """(n,) sums by code, modulo 2^64; in parts of 22 bits, whose sums are exact in double precision."""
    total = np.zeros(n, dtype=np.uint64)
    for shift in map(np.uint64, (0, 22, 44)):
        part = (values >> shift) & np.uint64(2**22 - 1)
        total += np.bincount(codes, weights=part, minlength=n).astype(np.uint64) << shift
    return total


def _mixed(x: Hashes) -> Hashes:
    """The finaliser of SplitMix64: one to one, and every bit depends on all."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), dtype=np.uint64)


def _places(order: npt.NDArray[Any]) -> IntArray:
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return places
