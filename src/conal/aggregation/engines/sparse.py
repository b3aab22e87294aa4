"""The E-step of any model, from its log-joint: the counts are a sparse product."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from conal.aggregation.counts import FloatArray, Votes, clamped
from conal.aggregation.engines.base import Engine, Expectation, Sums
from conal.data.encoding import MISSING

__all__ = ["SparseEngine"]

Parameters = TypeVar("Parameters", contravariant=True)


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

    def start(self, posterior: FloatArray) -> Expectation:
        """The expectation by a guess at the posterior."""
        return self._expectation(-math.inf, clamped(posterior, self.known))

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

    def _expectation(self, log_evidence: float, posterior: FloatArray) -> Expectation:
        def sums() -> Sums:
            return Sums(self.votes.counts(posterior), np.ones(len(posterior)) @ posterior, len(posterior))

        return Expectation(log_evidence, sums, lambda: posterior)
