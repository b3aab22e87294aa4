"""Majority vote: the label that most annotators gave."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from conal.aggregation.base import Aggregator, register
from conal.aggregation.votes import FloatArray, Votes, clamped, normalised, vote_shares
from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.parameters import is_whole

__all__ = ["MajorityVote"]


@register("majority-vote")
class MajorityVote(Aggregator):
    r"""One vote per annotator, the class with most votes wins: :math:`\hat z_i = \arg\max_c \sum_r [y_i^r = c]`.

    Parameters
    ----------
    ties : {"first", "random"}
        "first" gives a tie to the class that comes first in ``annotations.classes``, whatever the order of rows in
        the file. "random" draws among the tied classes.
    seed : int
        For ``ties="random"``.

    Attributes
    ----------
    probas_ : (n_tasks, n_classes) float
        ``probas_[i, c]`` = share of the votes of task i for class c; uniform for a task without votes.
    codes_, labels_ : (n_tasks,) arrays
        Winning class, as a position in ``classes_`` and in the user's names.
    confusion_ : (n_annotators, n_classes, n_classes)
        ``confusion_[r, c, l]`` = share of l among the labels that annotator r gave where c won.
    skills_ : (n_annotators,)
        Share of the annotator's labels that agree with the winner.

    Example
    -------
    >>> ann = Annotations.from_matrix([[0, 0, 1], [1, 1, -1]])
    >>> MajorityVote().fit(ann).labels_.tolist()
    [0, 1]
    """

    def __init__(self, ties: Literal["first", "random"] = "first", seed: int = 0) -> None:
        self.ties = ties
        self.seed = seed

    def fit(self, data: Any, *, true_labels: Any = None) -> Self:
        """Count the votes; see :meth:`conal.aggregation.base.Aggregator.fit`."""
        crowd = Annotations.of(data)
        super().fit(crowd, true_labels=true_labels)
        counts = Votes(crowd).counts(np.eye(crowd.n_classes)[self.codes_])
        self.confusion_ = normalised(counts)
        right, given = np.einsum("rcc->r", counts), counts.sum((1, 2))
        self.skills_ = np.where(given > 0, right / np.maximum(given, 1), 1.0 / crowd.n_classes)
        return self

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        if self.ties not in ("first", "random"):
            raise InputError(f"ties must be 'first' or 'random', not {self.ties!r}")
        if not (is_whole(self.seed) and self.seed >= 0):
            raise InputError(f"seed must be a whole number of at least 0, not {self.seed!r}")
        return clamped(vote_shares(crowd), known)

    def _winners(self, probas: FloatArray) -> npt.NDArray[np.int64]:
        if self.ties == "first":
            return super()._winners(probas)
        # Among the classes with the highest share, up to rounding, the one with the highest random number.
        best = probas >= probas.max(1, keepdims=True) - 1e-9
        return super()._winners(np.where(best, np.random.default_rng(self.seed).random(probas.shape), -1.0))
