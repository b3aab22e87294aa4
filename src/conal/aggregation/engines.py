"""Products of every EM step: sparse matrices, or loops compiled by numba."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache, cached_property
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from conal._arrays import FloatArray
from conal._system import Kernel, kernel
from conal.aggregation.counts import Votes, clamped
from conal.data.encoding import MISSING

# Loops over the labels, compiled: the E-step of a confusion matrix per annotator, and expected counts.


@cache
def expectation_for(n_classes: int) -> Kernel:  # noqa: C901 - one pass, made of plain loops
    """The E-step for a number of classes: it takes half the time if the compiler knows that number."""
    C = n_classes

    @kernel
    def expectation(  # type: ignore[no-untyped-def]  # noqa: C901  # pragma: no cover - compiled
        indptr, cells, known, rho, pi, counts, shares, posterior
    ):
        """E-step of every task, added at once to the counts that the M-step needs; returns the log-likelihood.

        One pass over the tasks keeps no posterior, and reads a row of an annotator's matrix per label, so that cost
        scales with the number of labels. Probabilities are multiplied, which saves an exponential per task and class
        over adding their logarithms; only where the product becomes too small are logarithms added.

        Parameters
        ----------
        indptr : (N + 1,), cells : (A,)
            Task i's labels are ``cells[indptr[i]:indptr[i + 1]]``, each as annotator x classes + label.
        known : (N,)
            True class, or -1.
        rho : (C,), pi : (R C, C)
            ``pi[r C + l, c]`` = P(annotator r says l | class c).
        counts : (R C, C), shares : (C,)
            Changed: expected labels in the layout of pi, and expected tasks of each class, are added.
        posterior : (N, C)
            Filled; (0, C) if it is not wanted.
        """
        joint = np.empty(C)
        total_log = 0.0
        for i in range(len(indptr) - 1):
            start, end = indptr[i], indptr[i + 1]
            for c in range(C):
                joint[c] = rho[c]
            for a in range(start, end):
                cell = np.uint64(cells[a])
                for c in range(C):
                    joint[c] *= pi[cell, c]
            total = 0.0
            for c in range(C):
                total += joint[c]
            shift = 0.0
            if total < 1e-200:
                shift = -math.inf
                for c in range(C):
                    joint[c] = math.log(rho[c])
                    for a in range(start, end):
                        joint[c] += math.log(pi[cells[a], c])
                    shift = max(shift, joint[c])
                total = 0.0
                for c in range(C):
                    joint[c] = math.exp(joint[c] - shift)
                    total += joint[c]
            if known[i] >= 0:  # joint is indexed by loop variables only, so that the compiler keeps it in registers
                given = 0.0
                for c in range(C):
                    if c == known[i]:
                        given += joint[c]
                        joint[c] = 1.0
                    else:
                        joint[c] = 0.0
                total_log += math.log(given) + shift
            else:
                total_log += math.log(total) + shift
                inverse = 1.0 / total
                for c in range(C):
                    joint[c] *= inverse
            for c in range(C):
                shares[c] += joint[c]
            for a in range(start, end):
                cell = np.uint64(cells[a])
                for c in range(C):
                    counts[cell, c] += joint[c]
            if len(posterior):
                for c in range(C):
                    posterior[i, c] = joint[c]
        return total_log

    return expectation


@cache
def counting_for(n_classes: int) -> Kernel:
    """Expected labels by a posterior, for a number of classes."""
    C = n_classes

    @kernel
    def counting(indptr, cells, posterior, counts):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
        """Add every task's posterior (N, C) to the rows of ``counts`` (R C, C) that its labels select."""
        for i in range(len(indptr) - 1):
            for a in range(indptr[i], indptr[i + 1]):
                cell = np.uint64(cells[a])
                for c in range(C):
                    counts[cell, c] += posterior[i, c]

    return counting


# The result of an E-step, and the base of the engines that compute it.

Parameters = TypeVar("Parameters", contravariant=True)


class Sums(NamedTuple):
    """Expected counts, summed over tasks: those of several parts of the tasks add up to those of all.

    Attributes
    ----------
    counts : (R, C, C)
        ``counts[r, c, l]`` = how many labels l annotator r gave to tasks of class c.
    shares : (C,)
        How many tasks are of each class.
    n_tasks : int
    """

    counts: FloatArray
    shares: FloatArray
    n_tasks: int


class Expectation:
    """The result of an E-step, for every engine.

    Sums and posterior are computed when they are first asked for: some M-steps need the one, some the other, and an
    extrapolation that is rejected needs neither.

    Parameters
    ----------
    log_evidence : float
        sum_i log sum_c P(z_i = c, labels of task i), the objective without the prior of the parameters.
    sums : callable
        Gives the :class:`Sums`.
    posterior : callable
        Gives the posterior (N, C).
    """

    def __init__(self, log_evidence: float, sums: Callable[[], Sums], posterior: Callable[[], FloatArray]) -> None:
        self.log_evidence = log_evidence
        self._make_sums = sums
        self._make_posterior = posterior

    @cached_property
    def sums(self) -> Sums:
        """The expected counts."""
        return self._make_sums()

    @cached_property
    def posterior(self) -> FloatArray:
        """(N, C) P(true class | labels)."""
        return self._make_posterior()

    @property
    def counts(self) -> FloatArray:
        """(R, C, C) expected labels ``[annotator, true, observed]``."""
        return self.sums.counts

    @property
    def shares(self) -> FloatArray:
        """(C,) expected tasks of each class."""
        return self.sums.shares

    @property
    def n_tasks(self) -> int:
        """How many tasks the sums are over."""
        return self.sums.n_tasks


class Engine(ABC, Generic[Parameters]):
    """Computes the E-step of a model on the labels of a crowd.

    Parameters
    ----------
    votes : Votes
    known : (N,)
        True class where it is known, -1 elsewhere.

    Attributes
    ----------
    n_annotations : int
        How many labels the evidence is of.
    """

    def __init__(self, votes: Votes, known: npt.NDArray[np.int64]) -> None:
        self.votes = votes
        self.known = known
        self.n_annotations = votes.annotations.n_annotations

    @abstractmethod
    def expect(self, parameters: Parameters) -> Expectation:
        """The E-step under the parameters."""

    def start(self, posterior: FloatArray) -> Expectation:
        """The expectation by a guess at the posterior (N, C), which may be changed in place; it has no evidence."""
        return self._expectation(-math.inf, clamped(posterior, self.known))

    def _expectation(self, log_evidence: float, posterior: FloatArray) -> Expectation:
        def sums() -> Sums:
            return Sums(self._counts(posterior), np.ones(len(posterior)) @ posterior, len(posterior))

        return Expectation(log_evidence, sums, lambda: posterior)

    def _counts(self, posterior: FloatArray) -> FloatArray:
        """(R, C, C) expected labels by a posterior."""
        return self.votes.counts(posterior)


# The E-step of any model, from its log-joint: the counts are a sparse product.


class SparseEngine(Engine[Parameters]):
    r"""Posterior and evidence from log P(z = c, labels of the task).

    .. math::
        q_i(c) = P(c, y_i) / \sum_{c'} P(c', y_i), \qquad \text{evidence} = \sum_i \log \sum_c P(c, y_i)

    A task whose class is known contributes its joint with that class.

    Parameters
    ----------
    votes, known
        See :class:`Engine`.
    log_joint : callable
        From parameters to (N, C), in a new array, which the engine may change.
    """

    def __init__(
        self, votes: Votes, known: npt.NDArray[np.int64], log_joint: Callable[[Parameters], FloatArray]
    ) -> None:
        super().__init__(votes, known)
        self.log_joint = log_joint

    def expect(self, parameters: Parameters) -> Expectation:
        """The E-step under the parameters."""
        weights = self.log_joint(parameters)  # changed in place from here: it is large, and ours alone
        given = np.flatnonzero(self.known != MISSING)
        known_joint = weights[given, self.known[given]]
        top = weights.max(1)  # taken off first, so that nothing underflows
        weights -= top[:, None]
        np.exp(weights, out=weights)
        total = weights @ np.ones(weights.shape[1])  # faster than a sum over short rows
        weights /= total[:, None]
        evidence = top + np.log(total)
        evidence[given] = known_joint
        return self._expectation(float(evidence.sum()), clamped(weights, self.known))


# The E-step of models with a confusion matrix per annotator, in one compiled pass over the labels.

COMPILED_FROM = 20_000
"""Number of annotations from which a compiled pass repays the time it takes to load."""


class CompiledEngine(Engine[tuple[FloatArray, FloatArray]]):
    """Evidence and expected counts in one pass, without sparse matrices and without keeping posteriors.

    Parameters of the model are the class prior (C,) and the matrices (R, C, C), ``[annotator, true, observed]``. The
    posterior takes a second pass, if anybody asks for it.
    """

    @staticmethod
    def pays(votes: Votes) -> bool:
        """Whether there is a compiler, and enough labels to make it worthwhile."""
        return votes.annotations.n_annotations >= COMPILED_FROM and expectation_for(votes.shape[2]).usable

    def expect(self, parameters: tuple[FloatArray, FloatArray]) -> Expectation:
        """The E-step under class prior and confusion matrices."""
        sums, log_evidence, _ = self._pass(parameters, 0)
        return Expectation(log_evidence, lambda: sums, lambda: self._pass(parameters, sums.n_tasks)[2])

    def _pass(self, parameters: tuple[FloatArray, FloatArray], n_kept: int) -> tuple[Sums, float, FloatArray]:
        """Expected counts, evidence, and the posterior of all tasks, or of none."""
        rho, pi_r = parameters
        N, R, C = self.votes.shape
        counts, shares, posterior = np.zeros((R, C, C)), np.zeros(C), np.empty((n_kept, C))  # observed before true
        pi = np.ascontiguousarray(pi_r.transpose(0, 2, 1)).reshape(R * C, C)
        labels = self.votes.annotations.indptr, self.votes.cells
        added = counts.reshape(R * C, C), shares, posterior
        log_evidence = expectation_for(C)(*labels, self.known, rho, pi, *added)
        return Sums(counts.transpose(0, 2, 1), shares, N), float(log_evidence), posterior

    def _counts(self, posterior: FloatArray) -> FloatArray:
        _, R, C = self.votes.shape
        counts = np.zeros((R, C, C))  # observed before true
        labels = self.votes.annotations.indptr, self.votes.cells
        counting_for(C)(*labels, posterior, counts.reshape(R * C, C))
        return counts.transpose(0, 2, 1)
