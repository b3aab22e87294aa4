"""Majority vote: the label that most annotators gave."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from conal.aggregation.base import Aggregator, clamped
from conal.annotations import Annotations
from conal.errors import InputError

__all__ = ["MajorityVote"]


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

    Example
    -------
    >>> ann = Annotations.from_matrix([[0, 0, 1], [1, 1, -1]])
    >>> MajorityVote().fit(ann).labels_.tolist()
    [0, 1]
    """

    def __init__(self, ties: Literal["first", "random"] = "first", seed: int = 0) -> None:
        self.ties = ties
        self.seed = seed

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        if self.ties not in ("first", "random"):
            raise InputError(f"ties must be 'first' or 'random', not {self.ties!r}")
        votes = crowd.votes().astype(np.float64)
        total = votes.sum(1, keepdims=True)
        shares = np.where(total > 0, votes / np.maximum(total, 1), 1.0 / crowd.n_classes)
        return clamped(shares, known)

    def _winners(self, probas: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        if self.ties == "first":
            return super()._winners(probas)
        # Among the classes with the highest share, up to rounding, the one with the highest random number.
        best = probas >= probas.max(1, keepdims=True) - 1e-9
        return super()._winners(np.where(best, np.random.default_rng(self.seed).random(probas.shape), -1.0))
