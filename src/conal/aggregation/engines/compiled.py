"""The E-step of models with a confusion matrix per annotator, in one compiled pass over the labels."""

from __future__ import annotations

import math

import numpy as np

from conal.aggregation.counts import FloatArray, Votes, clamped
from conal.aggregation.engines.base import Engine, Expectation, Sums
from conal.aggregation.engines.kernels import counting_for, expectation_for

__all__ = ["CompiledEngine"]

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

    def start(self, posterior: FloatArray) -> Expectation:
        """The expectation by a guess at the posterior."""
        guess = clamped(posterior, self.known)
        return Expectation(-math.inf, lambda: self._counted(guess), lambda: guess)

    def expect(self, parameters: tuple[FloatArray, FloatArray]) -> Expectation:
        """The E-step under class prior and confusion matrices."""
        C = self.votes.shape[2]
        sums, log_evidence = self._pass(parameters, np.empty((0, C)))
        return Expectation(log_evidence, sums, lambda: self._posterior(parameters))

    def _posterior(self, parameters: tuple[FloatArray, FloatArray]) -> FloatArray:
        N, _, C = self.votes.shape
        posterior = np.empty((N, C))
        self._pass(parameters, posterior)
        return posterior

    def _pass(self, parameters: tuple[FloatArray, FloatArray], posterior: FloatArray) -> tuple[Sums, float]:
        """Expected counts and evidence; a ``posterior`` that has rows is filled."""
        rho, pi_r = parameters
        N, R, C = self.votes.shape
        counts, shares = np.zeros((R * C, C)), np.zeros(C)
        pi = np.ascontiguousarray(pi_r.transpose(0, 2, 1)).reshape(R * C, C)
        indptr, cells = self.votes.annotations.indptr, self.votes.cells
        log_evidence = expectation_for(C)(indptr, cells, self.known, rho, pi, counts, shares, posterior)
        return Sums(_true_before_observed(counts, R), shares, N), float(log_evidence)

    def _counted(self, posterior: FloatArray) -> Sums:
        N, R, C = self.votes.shape
        counts = np.zeros((R * C, C))
        counting_for(C)(self.votes.annotations.indptr, self.votes.cells, posterior, counts)
        return Sums(_true_before_observed(counts, R), np.ones(N) @ posterior, N)


def _true_before_observed(counts: FloatArray, R: int) -> FloatArray:
    """(R, C, C) ``[annotator, true, observed]`` from (R C, C) ``[annotator observed, true]``."""
    C = counts.shape[1]
    return counts.reshape(R, C, C).transpose(0, 2, 1)
