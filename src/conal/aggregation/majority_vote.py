"""Majority vote: the label that most annotators gave."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from conal.annotations import Annotations
from conal.encoding import Names
from conal.errors import InputError

__all__ = ["MajorityVote"]


class MajorityVote:
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
    codes_ : (n_tasks,) int64
        Winning class, as a position in ``annotations.classes``.
    labels_ : (n_tasks,) array
        Winning class, in the user's names.

    Example
    -------
    >>> ann = Annotations.from_matrix([[0, 0, 1], [1, 1, -1]])
    >>> MajorityVote().fit(ann).labels_.tolist()
    [0, 1]
    """

    probas_: npt.NDArray[np.float64]
    codes_: npt.NDArray[np.int64]
    labels_: Names

    def __init__(self, ties: Literal["first", "random"] = "first", seed: int = 0) -> None:
        self.ties = ties
        self.seed = seed

    def fit(self, annotations: Annotations) -> MajorityVote:
        """Count the votes."""
        if self.ties not in ("first", "random"):
            raise InputError(f"ties must be 'first' or 'random', not {self.ties!r}")
        votes = annotations.votes().astype(np.float64)
        total = votes.sum(1, keepdims=True)
        self.probas_ = np.where(total > 0, votes / np.maximum(total, 1), 1.0 / annotations.n_classes)
        ranked = votes
        if self.ties == "random":  # less than one vote: decides ties and nothing else
            ranked = votes + np.random.default_rng(self.seed).random(votes.shape) / 2
        self.codes_ = ranked.argmax(1)
        self.labels_ = annotations.classes[self.codes_]
        return self
