"""Weighted votes: what all aggregators share whose labels are the winners of a vote."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray, normalised
from conal.aggregation.base import Aggregator
from conal.aggregation.votes import agreement, clamped
from conal.data.annotations import Annotations
from conal.data.memory import check_memory

__all__ = ["ROUNDING", "VoteAggregator", "agreement", "weighted_votes"]

ROUNDING = 1e-9
"""Shares of the votes that differ by less are a tie: sums of weights depend on their order in the last digits."""


class VoteAggregator(Aggregator):
    """The class with most votes wins; on a tie, the first of the classes with most votes.

    A subclass supplies :meth:`_aggregate`. It may set ``skills_``; otherwise these are shares of labels that agree with
    the winners. No matrix is made unless ``confusion_`` is asked for.
    """

    def _check_memory(self, crowd: Annotations) -> None:
        check_memory(crowd, self._numbers(crowd), self.name, matrices=False)

    def _numbers(self, crowd: Annotations) -> float:
        return 5 * crowd.n_tasks * crowd.n_classes

    def _winners(self, probas: FloatArray) -> npt.NDArray[np.int64]:
        return super()._winners(probas >= probas.max(1, keepdims=True) - ROUNDING)

    def _elect(
        self, crowd: Annotations, weights: FloatArray | None, known: npt.NDArray[np.int64]
    ) -> tuple[FloatArray, FloatArray]:
        """(N, C) shares of the weighted votes, and (R,) the annotators' agreement with the winners."""
        shares = clamped(normalised(weighted_votes(crowd, weights)), known)
        return shares, agreement(crowd, self._winners(shares))


def weighted_votes(crowd: Annotations, weights: FloatArray | None = None) -> FloatArray:
    """(N, C) sum of the weights (R,) of the annotators who gave a task each label; by default every weight is 1."""
    if weights is None:
        return crowd.votes().astype(np.float64)
    N, C = crowd.n_tasks, crowd.n_classes
    cells = crowd.tasks.astype(np.int64) * C + crowd.labels
    sums = np.bincount(cells, weights=weights[crowd.annotators], minlength=N * C)
    return np.asarray(sums, dtype=np.float64).reshape(N, C)
