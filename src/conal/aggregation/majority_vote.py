"""Majority vote: the label that most annotators gave."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray
from conal.aggregation.base import register
from conal.aggregation.votes import clamped, vote_shares
from conal.aggregation.voting import ROUNDING, VoteAggregator
from conal.data.annotations import Annotations
from conal.data.growing import Growth
from conal.parameters import one_of, parameter, whole

__all__ = ["MajorityVote"]


@register("majority-vote")
class MajorityVote(VoteAggregator):
    r"""One vote per annotator: the class with most votes wins, and ties go to the first class or are drawn.

    .. math:: \hat z_i = \arg\max_c \sum_r [y_i^r = c]

    Use it as a figure to compare with, or where annotators are good and equally so. It cannot tell good annotators from
    bad ones, as ``dawid-skene`` can.

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

    Examples
    --------
    >>> ann = Annotations.from_matrix([[0, 0, 1], [1, 1, -1]])
    >>> MajorityVote().fit(ann).labels_.tolist()
    [0, 1]
    """

    updatable = True
    guard = "off"  # votes cannot contradict themselves

    ties: Literal["first", "random"] = parameter(
        default="first",
        must_be=one_of("first", "random"),
        help="'first': a tie goes to the class that is first in ``annotations.classes``, for any order of rows in the "
        "file. 'random': draw one of the tied classes.",
    )
    seed: int = parameter(default=0, must_be=whole(0), help="Seed for ``ties='random'``.")

    def _absorb(self, growth: Growth) -> FloatArray:
        """The votes of tasks that have new labels; those of others stay."""
        self._forget_defaults()
        crowd, touched = growth.annotations, growth.touched
        probas = np.concatenate([self.probas_, np.zeros((crowd.n_tasks - len(self.probas_), crowd.n_classes))])
        probas[touched] = clamped(vote_shares(crowd[touched]), self.known_codes_[touched])
        self.stale_share_ = 0.0
        return probas

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        return clamped(vote_shares(crowd), known)

    def _why_no_update(self) -> str | None:
        return None if self.ties == "first" else "ties='random' draws for all tasks at once"

    def _winners(self, probas: FloatArray) -> npt.NDArray[np.int64]:
        if self.ties == "first":
            return super()._winners(probas)
        # Among the classes with the highest share, up to rounding, the one with the highest random number.
        best = probas >= probas.max(1, keepdims=True) - ROUNDING
        return super()._winners(np.where(best, np.random.default_rng(self.seed).random(probas.shape), -1.0))
