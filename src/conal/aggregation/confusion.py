"""Base of EM aggregators with a class prior and a confusion matrix per annotator."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, TypeVar

from conal._arrays import FloatArray
from conal.aggregation.counts import Votes
from conal.aggregation.em import EMAggregator

Parameters = TypeVar("Parameters", bound=Any)


class LogParts(NamedTuple):
    """Logarithms by which an E-step goes: of the class prior (C,) and of the annotators' matrices (R, C, C)."""

    rho: FloatArray
    pi_r: FloatArray


class MatrixAggregator(EMAggregator[Parameters]):
    r"""Base of EM aggregators whose E-step is by a class prior and a confusion matrix per annotator.

    .. math:: q_i(c) \propto \rho_c \prod_r \pi^r_{c, y_i^r}

    A subclass supplies :meth:`_log_parts` in place of ``_log_joint``.
    """

    @abstractmethod
    def _log_parts(self, parameters: Parameters) -> LogParts:
        """Logarithms of class prior and matrices, or their expectations."""

    def _log_joint(self, votes: Votes, parameters: Parameters) -> FloatArray:
        rho, pi_r = self._log_parts(parameters)
        log_joint = votes.log_evidence(pi_r)
        log_joint += rho
        return log_joint
