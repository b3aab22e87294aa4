"""Weighted votes: what all aggregators share whose labels are the winners of a vote."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray, normalised
from conal.aggregation.base import Aggregator
from conal.aggregation.votes import Votes, clamped
from conal.data.annotations import Annotations

__all__ = ["ROUNDING", "VoteAggregator", "agreement", "weighted_votes"]

ROUNDING = 1e-9
"""Shares of the votes that differ by less are a tie: sums of weights depend on their order in the last digits."""


class VoteAggregator(Aggregator):
    """The class with most votes wins; on a tie, the first of the classes with most votes.

    A subclass supplies :meth:`_aggregate`. It may set ``skills_``; otherwise these are shares of labels that agree with
    the winners.
    """

    def _store(self, crowd: Annotations, probas: FloatArray, codes: npt.NDArray[np.int64]) -> None:
        """Keep the shares (N, C) of the votes, and compare every annotator with the winners."""
        super()._store(crowd, probas, codes)
        self.confusion_ = normalised(Votes(crowd).counts(np.eye(crowd.n_classes)[codes]))

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
