"""Votes, plain and weighted: aggregators whose labels are the winners of a vote."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from conal._arrays import FloatArray, grouped_means
from conal.aggregation.base import Aggregator, register
from conal.aggregation.counts import agreement, clamped, normalised, vote_shares
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.data.problems import check_memory
from conal.errors import DataWarning, warn
from conal.parameters import Doc, number, parameters, whole

# Weighted votes: what all aggregators share whose labels are the winners of a vote.

ROUNDING = 1e-9
"""Shares of the votes that differ by less are a tie: sums of weights depend on their order in the last digits."""


@parameters
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


# Majority vote: the label that most annotators gave.


@register("majority-vote")
@parameters
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

    guard: Literal["repair", "warn", "off"] = "off"  # votes cannot contradict themselves

    ties: Annotated[
        Literal["first", "random"],
        Doc(
            "'first': a tie goes to the class that is first in ``annotations.classes``, for any order of rows in the "
            "file. 'random': draw one of the tied classes."
        ),
    ] = "first"
    seed: Annotated[int, whole(0), Doc("Seed for ``ties='random'``.")] = 0

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        return clamped(vote_shares(crowd), known)

    def _winners(self, probas: FloatArray) -> npt.NDArray[np.int64]:
        if self.ties == "first":
            return super()._winners(probas)
        # Among the classes with the highest share, up to rounding, the one with the highest random number.
        best = probas >= probas.max(1, keepdims=True) - ROUNDING
        return super()._winners(np.where(best, np.random.default_rng(self.seed).random(probas.shape), -1.0))


# Gold majority vote: votes weighted by how often an annotator is right where the truth is known.


@register("gold-majority-vote")
@parameters
class GoldMajorityVote(VoteAggregator):
    r"""A vote weighted by accuracy on tasks of known truth, which ``true_labels`` supplies.

    With :math:`G_r` the tasks of known truth that annotator r labelled:

    .. math::
        w_r = \frac{1}{|G_r|} \sum_{i \in G_r} [y_i^r = z_i], \qquad \hat z_i = \arg\max_c \sum_r w_r [y_i^r = c]

    An annotator who labelled none of them counts as the average one, the share of right labels of all annotators.
    Without true labels all weights are equal: a majority vote, with a warning.

    Use it where most annotators answered several control questions, and mistakes have no pattern. Where control
    questions are few per annotator, ``dawid-skene`` with the same ``true_labels`` also learns from all other tasks.

    Attributes
    ----------
    probas_ : (n_tasks, n_classes)
        Shares of the weighted votes; they are no posterior probabilities. Tasks of known truth have it.
    skills_ : (n_annotators,)
        The weights w.
    confusion_ : (n_annotators, n_classes, n_classes)
        ``confusion_[r, c, l]`` = share of l among the labels that annotator r gave where c won.

    References
    ----------
    Ustalov, Pavlichenko and Tseitlin (2024). Learning from crowds with Crowd-Kit. Journal of Open Source Software 9.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([[0, 0, 1], [1, 0, 1], [1, 0, 0], [0, 1, 1]])
    >>> fitted = GoldMajorityVote().fit(labels, true_labels={0: 0, 1: 1})
    >>> fitted.skills_.tolist(), fitted.labels_.tolist()
    ([1.0, 0.5, 0.5], [0, 1, 0, 0])
    """

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        certain = known != MISSING
        if not certain.any() and crowd.n_classes > 1:
            warn(
                "gold-majority-vote: no true labels, so all annotators count the same; pass true_labels "
                "(--true-labels), or use 'wawa'",
                DataWarning,
            )
        self.skills_ = _accuracy(crowd, known, certain)
        return self._elect(crowd, self.skills_, known)[0]


def _accuracy(crowd: Annotations, known: npt.NDArray[np.int64], certain: npt.NDArray[np.bool_]) -> FloatArray:
    """(R,) share of right labels on tasks of known truth; of those of all annotators where there are none."""
    tested = certain[crowd.tasks]
    right = crowd.labels[tested] == known[crowd.tasks[tested]]
    overall = float(right.mean()) if len(right) else 1.0
    return grouped_means(crowd.annotators[tested], right, crowd.n_annotators, empty=overall)


# Wawa: votes weighted by how often an annotator agrees with the majority.


@register("wawa")
@parameters
class Wawa(VoteAggregator):
    r"""Worker agreement with aggregate: a majority vote, then a vote weighted by agreement with it.

    .. math::
        \hat z_i^{(0)} = \arg\max_c \sum_r [y_i^r = c], \qquad
        w_r = \frac{1}{n_r} \sum_i [y_i^r = \hat z_i^{(0)}], \qquad
        \hat z_i = \arg\max_c \sum_r w_r [y_i^r = c]

    Two passes over the labels, no randomness and nothing to tune. Use it as a better majority vote. Annotators at
    chance still count: with two classes a coin has weight one half. Where many annotators are bad, or are bad in the
    same way, a model of their mistakes (``dawid-skene``) is more accurate.

    Attributes
    ----------
    probas_ : (n_tasks, n_classes)
        Shares of the weighted votes; they are no posterior probabilities.
    skills_ : (n_annotators,)
        The weights w; 1 / C for an annotator without labels.
    confusion_ : (n_annotators, n_classes, n_classes)
        ``confusion_[r, c, l]`` = share of l among the labels that annotator r gave where c won.

    References
    ----------
    Appen. Calculating worker agreement with aggregate (Wawa). Success Center.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([[0, 0, 1, 1, -1], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0], [-1, -1, -1, 1, 0]])
    >>> fitted = Wawa().fit(labels)
    >>> fitted.skills_.tolist(), fitted.labels_.tolist()
    ([1.0, 1.0, 0.6666666666666666, 0.0, 0.3333333333333333], [0, 0, 1, 0])
    """

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        _, self.skills_ = self._elect(crowd, None, known)
        shares, _ = self._elect(crowd, self.skills_, known)
        return shares


# Zero-based skill: votes weighted by skills that move towards the agreement with the vote, again and again.

FIXED = 1e-12
"""Skills that change by less than this are at a fixed point."""


@register("zero-based-skill")
@parameters
class ZeroBasedSkill(VoteAggregator):
    r"""Weighted votes whose weights move towards the agreement with the vote, step by step.

    All skills start equal, so the first vote is a majority vote. Then, for t = 1, 2, …:

    .. math::
        \hat z_i = \arg\max_c \sum_r s_r [y_i^r = c], \qquad
        s_r \leftarrow s_r + \eta_t \Bigl( \frac{1}{n_r} \sum_i [y_i^r = \hat z_i] - s_r \Bigr)

    The learning rate :math:`\eta_t` is cut at regular intervals, which ends cycles between two sets of labels. It
    stops as soon as nothing changes any more. This is :class:`Wawa` carried on; it corrects majority vote a little
    further, and shares its limits. Use it as you would use ``wawa``, which is as accurate.

    Attributes
    ----------
    probas_ : (n_tasks, n_classes)
        Shares of the weighted votes; they are no posterior probabilities.
    skills_ : (n_annotators,)
        The skills s, which are the weights; 1 / C for an annotator without labels.
    confusion_ : (n_annotators, n_classes, n_classes)
        ``confusion_[r, c, l]`` = share of l among the labels that annotator r gave where c won.
    n_iter_ : int
    converged_ : bool
        Whether it stopped at a fixed point.

    References
    ----------
    Ustalov, Pavlichenko and Tseitlin (2024). Learning from crowds with Crowd-Kit. Journal of Open Source Software 9.

    Examples
    --------
    >>> import numpy as np
    >>> fitted = ZeroBasedSkill().fit(np.array([[0, 0, 1], [1, 1, 0], [0, 0, 0]]))
    >>> fitted.labels_.tolist(), fitted.converged_
    ([0, 1, 0], True)
    """

    n_iter: Annotated[int, whole(1), Doc("Maximum number of iterations.")] = 100
    lr_init: Annotated[float, number(above=0, at_most=1), Doc("Learning rate of the first steps.")] = 1.0
    lr_steps_to_reduce: Annotated[
        int, whole(1), Doc("The learning rate is reduced in every iteration that this number divides.")
    ] = 20
    lr_reduce_factor: Annotated[
        float, number(above=0, at_most=1), Doc("Factor by which the learning rate is reduced.")
    ] = 0.5

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        skills = np.full(crowd.n_annotators, 1.0 / max(crowd.n_classes, 1))
        rate, self.converged_ = self.lr_init, False
        for iteration in range(1, self.n_iter + 1):
            self.n_iter_ = iteration
            if iteration % self.lr_steps_to_reduce == 0:
                rate *= self.lr_reduce_factor
            _, agreed = self._elect(crowd, skills, known)
            step = rate * (agreed - skills)
            skills = skills + step
            self.converged_ = bool(np.abs(step).max(initial=0.0) < FIXED)
            if self.converged_:
                break
        self.skills_ = skills
        return self._elect(crowd, skills, known)[0]
