"""GLAD: an annotator's ability and a task's easiness decide together how often a label is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from conal._arrays import FloatArray, grouped_means, grouped_sums
from conal.aggregation.base import register
from conal.aggregation.counts import Votes, class_shares, logarithm, normalised, one_coin
from conal.aggregation.em import EMAggregator, climb
from conal.aggregation.engines import Expectation
from conal.parameters import Doc, parameters

PRIOR_MEAN = 1.0
"""Prior mean of every ability and every log-easiness; the variance is 1 too."""

HIGHEST = 50.0
"""Log-easiness above which a task gets no easier, so that e^b stays finite. The prior keeps b far below."""

LONGEST_STEP = 1.0
"""Longest step of a coordinate in one iteration: where the objective is nearly straight, Newton steps overshoot."""

Codes = npt.NDArray[np.integer]
Function = Callable[[FloatArray], FloatArray]


class Abilities(NamedTuple):
    """Class prior (C,), abilities (R,) and log-easiness (N,)."""

    rho: FloatArray
    alpha: FloatArray
    b: FloatArray


@register("glad")
@parameters
class GLAD(EMAggregator[Abilities]):
    r"""Annotators of graded ability on tasks of graded difficulty, by EM.

    A wrong label need not be its annotator's fault: some tasks are hard for everybody. Annotator r with ability
    :math:`\alpha_r` is right about task i of log-easiness :math:`b_i` with probability

    .. math::
        P(y_i^r = z_i) = \sigma(s_{ir}), \qquad s_{ir} = \alpha_r e^{b_i}, \qquad
        P(y_i^r = l) = \frac{1 - \sigma(s_{ir})}{C - 1} \text{ for each } l \ne z_i, \qquad
        \alpha_r, b_i \sim \mathcal N(1, 1)

    Ability 0 is right half of the time, whatever the number of classes; guessing among more than two is a negative one.

    The M-step has no closed form. It makes one damped Newton step on all :math:`\alpha`, then one on all :math:`b`.
    Given the others, each of them, say x, has an objective of its own over its labels,

    .. math::
        \sum_{(i, r)} \left[ q_i(y_i^r) \, s_{ir} - \log(1 + e^{s_{ir}}) \right] - \tfrac12 (x - 1)^2,

    and a step that would lower it is halved until it does not. So the log-posterior never falls. Cost per iteration
    scales with the number of labels.

    Use it where you want to know which tasks are hard, and annotators make no particular mistakes. Not where
    most annotators are weak or confuse classes: on juries of language models it is far behind ``dawid-skene``, and a
    task that misleads many counts as easy.

    Attributes
    ----------
    alpha_ : (R,)
        Abilities; the prior mean 1 for an annotator without labels.
    log_easiness_ : (N,)
        :math:`b`; the prior mean 1 for a task without labels.
    difficulty_ : (N,)
        :math:`e^{-b}`; nobody gets a task of difficulty 0 wrong.
    class_prior_ : (C,)
    skills_ : (R,)
        Mean of :math:`\sigma(s_{ir})` over the tasks that the annotator labelled; without labels,
        :math:`\sigma(e)`, its value at the prior means.
    confusion_ : (R, C, C)
        ``confusion_[r, c, l]`` = P(observed l | true c): the skill on the diagonal, the rest shared equally.

    References
    ----------
    Whitehill, Ruvolo, Wu, Bergsma and Movellan (2009). Whose vote should count more: optimal integration of labels
    from labelers of unknown expertise. Advances in Neural Information Processing Systems 22.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 0], [1, 1, 1], [0, 0, 1], [1, 1, 0]])
    >>> glad = GLAD().fit(crowd)
    >>> glad.labels_.tolist()
    [0, 1, 0, 1]
    >>> bool(glad.difficulty_[2] > glad.difficulty_[0])
    True
    """

    n_iter: int = 200
    tol: float = 1e-6  # an iteration makes one Newton step only, and so gains less than in other models

    class_prior: Annotated[
        Literal["uniform", "estimate"],
        Doc(
            r"'uniform' as in the original. 'estimate' takes :math:`\rho_c = \frac1N \sum_i q_i(c)`, for classes of "
            r"very different frequency. It can reinforce itself: a disputed task counts as hard and falls to the "
            r"frequent class, which thereby becomes more frequent."
        ),
    ] = "uniform"

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Abilities | None) -> Abilities:
        crowd, posterior, (N, R, C) = votes.annotations, expectation.posterior, votes.shape
        rho = class_shares(posterior) if self.class_prior == "estimate" else np.full(C, 1.0 / C)
        _, alpha, b = previous or Abilities(rho, np.full(R, PRIOR_MEAN), np.full(N, PRIOR_MEAN))
        right = posterior[crowd.tasks, crowd.labels]
        alpha = _better_alpha(votes, right, alpha, b)
        return Abilities(rho, alpha, _better_b(votes, right, alpha, b))

    def _log_joint(self, votes: Votes, parameters: Abilities) -> FloatArray:
        crowd, (N, _, C) = votes.annotations, votes.shape
        s = _log_odds(votes, parameters.alpha, parameters.b)
        # Every label first counts as wrong for every class; then the odds make it right for the class it names.
        log_others = np.log(max(C - 1, 1))
        wrong = grouped_sums(crowd.tasks, scipy.special.log_expit(-s) - log_others, N)
        cells = crowd.tasks.astype(np.int64) * C + crowd.labels
        odds = grouped_sums(cells, s + log_others, N * C).reshape(N, C)
        return logarithm(parameters.rho) + wrong[:, None] + odds

    def _log_prior(self, parameters: Abilities) -> float:
        return float(_log_normal(parameters.alpha).sum() + _log_normal(parameters.b).sum())

    def _adopt(self, votes: Votes, parameters: Abilities) -> None:
        self.class_prior_, self.alpha_, self.log_easiness_ = parameters
        self.difficulty_ = np.exp(-self.log_easiness_)
        C = votes.shape[2]
        # Normalised for crowds with a single class, where there is no other to be wrong with.
        self.confusion_ = normalised(one_coin(_mean_skill(votes, parameters), C))
        self.skills_ = self.confusion_[:, 0, 0].copy()


def _easiness(b: FloatArray) -> FloatArray:
    """e^b, finite."""
    return np.asarray(np.exp(np.minimum(b, HIGHEST)))


def _log_odds(votes: Votes, alpha: FloatArray, b: FloatArray) -> FloatArray:
    """(n_annotations,) s = alpha_r e^{b_i}, the log-odds of a right label."""
    return alpha[votes.annotations.annotators] * _easiness(b)[votes.annotations.tasks]


def _log_normal(x: FloatArray) -> FloatArray:
    """Log-density of N(1, 1), without its constant."""
    return -0.5 * (x - PRIOR_MEAN) ** 2


def _expected_log_likelihood(right: FloatArray, s: FloatArray) -> FloatArray:
    """right log sigma(s) + (1 - right) log(1 - sigma(s)), as log sigma(s) = s + log(1 - sigma(s))."""
    return np.asarray(right * s + scipy.special.log_expit(-s))


def _better_alpha(votes: Votes, right: FloatArray, alpha: FloatArray, b: FloatArray) -> FloatArray:
    """One Newton step on every ability; ``right`` (n_annotations,) = probability that the label is right."""
    who = votes.annotations.annotators
    easiness = _easiness(b)[votes.annotations.tasks]
    return _better(alpha, who, right, lambda alpha: alpha[who] * easiness, lambda s: easiness)


def _better_b(votes: Votes, right: FloatArray, alpha: FloatArray, b: FloatArray) -> FloatArray:
    """One step of Fisher scoring on every log-easiness."""
    task, ability = votes.annotations.tasks, alpha[votes.annotations.annotators]
    return _better(b, task, right, lambda b: ability * _easiness(b)[task], lambda s: s)


def _better(x: FloatArray, whose: Codes, right: FloatArray, log_odds: Function, slope: Function) -> FloatArray:
    """A step on all of x, each ``whose`` (n_annotations,) labels these are.

    ``log_odds`` gives s of every label by x, and ``slope`` its derivative by s. The objective is not concave in b. The
    expected curvature is always positive, so that every step goes up.
    """

    def objective(x: FloatArray) -> FloatArray:
        return grouped_sums(whose, _expected_log_likelihood(right, log_odds(x)), len(x)) + _log_normal(x)

    s = log_odds(x)
    sigma, along = scipy.special.expit(s), slope(s)
    gradient = grouped_sums(whose, (right - sigma) * along, len(x)) - (x - PRIOR_MEAN)
    curvature = grouped_sums(whose, sigma * (1 - sigma) * along**2, len(x)) + 1
    return climb(objective, x, np.clip(gradient / curvature, -LONGEST_STEP, LONGEST_STEP))


def _mean_skill(votes: Votes, parameters: Abilities) -> FloatArray:
    """(R,) mean probability of a right label over the annotator's tasks; without any, at the prior mean of easiness."""
    right = scipy.special.expit(_log_odds(votes, parameters.alpha, parameters.b))
    unseen = scipy.special.expit(parameters.alpha * np.exp(PRIOR_MEAN))
    return grouped_means(votes.annotations.annotators, right, len(unseen), empty=unseen)
