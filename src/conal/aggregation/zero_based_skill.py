"""Zero-based skill: votes weighted by skills that move towards the agreement with the vote, again and again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray
from conal.aggregation.base import register
from conal.aggregation.voting import VoteAggregator
from conal.data.annotations import Annotations
from conal.parameters import number, parameter, whole

__all__ = ["ZeroBasedSkill"]

FIXED = 1e-12
"""Skills that change by less than this are at a fixed point."""


@register("zero-based-skill")
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

    n_iter: int = parameter(default=100, must_be=whole(1), help="Maximum number of iterations.")
    lr_init: float = parameter(
        default=1.0, must_be=number(above=0, at_most=1), help="Learning rate of the first steps."
    )
    lr_steps_to_reduce: int = parameter(
        default=20, must_be=whole(1), help="The learning rate is reduced in every iteration that this number divides."
    )
    lr_reduce_factor: float = parameter(
        default=0.5, must_be=number(above=0, at_most=1), help="Factor by which the learning rate is reduced."
    )

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
