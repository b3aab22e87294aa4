"""The result of an E-step, and the base of the engines that compute it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from conal.aggregation.counts import FloatArray, Votes

__all__ = ["Engine", "Expectation", "Sums"]

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
    sums : Sums or callable
        The :class:`Sums`, or what gives them.
    posterior : callable
        Gives the posterior (N, C).
    """

    def __init__(
        self, log_evidence: float, sums: Sums | Callable[[], Sums], posterior: Callable[[], FloatArray]
    ) -> None:
        self.log_evidence = log_evidence
        self._make_sums = sums
        self._make_posterior = posterior

    @cached_property
    def sums(self) -> Sums:
        """The expected counts."""
        return self._make_sums if isinstance(self._make_sums, Sums) else self._make_sums()

    @property
    def known_sums(self) -> Sums | None:
        """The expected counts, if they are there already."""
        return self.sums if isinstance(self._make_sums, Sums) or "sums" in vars(self) else None

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
    def start(self, posterior: FloatArray) -> Expectation:
        """The expectation by a guess at the posterior (N, C), which may be changed in place; it has no evidence."""

    @abstractmethod
    def expect(self, parameters: Parameters) -> Expectation:
        """The E-step under the parameters."""
