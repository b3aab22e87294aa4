"""MACE: annotators who know the answer, and otherwise give a label of their habit."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
import scipy

from conal._arrays import FloatArray
from conal.aggregation.base import register
from conal.aggregation.counts import Votes, divergence, expected_log, normalised
from conal.aggregation.em import MatrixAggregator
from conal.aggregation.engines import Expectation
from conal.parameters import Doc, number, parameters

START = 0.5
"""Share of the labels that agree with the first guess at the truth which first counts as knowing, not as luck."""


class Habits(NamedTuple):
    """Pseudo-counts ``knowing`` (R, 2), of not knowing and knowing, and ``spam`` (R, C), of the labels by habit."""

    knowing: FloatArray
    spam: FloatArray


@register("mace")
@parameters
class MACE(MatrixAggregator[Habits]):
    r"""Annotators who know the answer with a probability of their own, and otherwise label by habit.

    For every label, annotator r knows the true class with probability :math:`\theta_r` and gives it. Otherwise the
    label is drawn from the annotator's habit :math:`\xi^r`, which does not depend on the truth. Classes are equally
    likely beforehand:

    .. math::
        P(y_i^r = l \mid z_i = c) = m^r_{cl} = \theta_r [l = c] + (1 - \theta_r)\, \xi^r_l, \qquad
        q_i(c) \propto \prod_r m^r_{c, y_i^r}

    Given the truth, a right label is known with probability :math:`k^r_l = \theta_r / m^r_{ll}`. With
    :math:`n^r_{cl} = \sum_{i : y_i^r = l} q_i(c)`, the expected labels by knowledge and by habit are
    :math:`K_r = \sum_l n^r_{ll} k^r_l` and :math:`S^r_l = \sum_c n^r_{cl} - n^r_{ll} k^r_l`.

    ``method="vb"``: :math:`\theta_r \sim \mathrm{Beta}`, :math:`\xi^r \sim \mathrm{Dirichlet}`, and
    :math:`\log \theta_r`, :math:`\log \xi^r_l` above are replaced by their expectations under Beta and Dirichlet
    distributions with K and S added to the prior; the objective is the evidence lower bound. ``method="em"``: the
    mode, where a ``smoothing`` is added to K and S; the objective is the log-posterior. Neither ever falls.

    It has C parameters per annotator where Dawid-Skene has C (C - 1). Use it to find spammers, who click one label or
    any. It cannot tell which classes an annotator confuses; where confusions have a pattern, ``dawid-skene`` is more
    accurate. Classes count as equally frequent, which does harm where one is far more frequent.

    Attributes
    ----------
    theta_ : (R,)
        Probability of knowing the answer, a mean under ``"vb"``. The original calls it competence.
    spam_ : (R, C)
        ``spam_[r, l]`` = probability of label l where the annotator does not know.
    confusion_ : (R, C, C)
        The matrices m at these.
    skills_ : (R,)
        Probability of a right label for classes of equal frequency, the mean diagonal of m.

    References
    ----------
    Hovy, Berg-Kirkpatrick, Vaswani and Hovy (2013). Learning whom to trust with MACE. NAACL-HLT.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 0, 1], [1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]] * 5)
    >>> fitted = MACE().fit(crowd)
    >>> fitted.labels_[:4].tolist(), (fitted.theta_ > 0.5).tolist()
    ([0, 1, 0, 1], [True, True, False, False])
    """

    n_iter: int = 1000
    tol: float = 1e-7  # it converges slowly where many annotators know most answers

    method: Annotated[
        Literal["vb", "em"], Doc("'vb': distributions over the parameters, as the authors advise. 'em': their mode.")
    ] = "vb"
    prior_knowing: Annotated[
        float,
        number(above=0),
        Doc(
            r"Both parameters of the Beta distribution of :math:`\theta_r`, for ``method='vb'``; below 1, annotators "
            "tend to know either most answers or few."
        ),
    ] = 0.5
    prior_spam: Annotated[
        float,
        number(above=0),
        Doc(
            r"Parameters of the Dirichlet distribution of :math:`\xi^r`, for ``method='vb'``; above 1, habits are "
            "rather even."
        ),
    ] = 10.0
    smoothing: Annotated[
        float,
        number(above=0),
        Doc("Number of pseudo-labels of every annotator, for ``method='em'``: 1 / C of it is added to every count."),
    ] = 0.01

    # ---------------------------------------------------------------- the steps

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Habits | None) -> Habits:
        counts = expectation.counts
        right = np.einsum("rcc->rc", counts)
        known = right * (START if previous is None else _share_known(*self._rates(previous)))
        by_habit = counts.sum(1) - known
        knowing = np.stack([by_habit.sum(1), known.sum(1)], axis=1)
        first, second = self._pseudo_counts(votes.shape[2])
        return Habits(first + knowing, second + by_habit)

    def _log_parts(self, parameters: Habits) -> tuple[FloatArray, FloatArray]:
        C = parameters.spam.shape[1]
        return np.full(C, -np.log(C)), np.log(_mixture(*self._rates(parameters)))

    def _log_prior(self, parameters: Habits) -> float:
        """-KL of the distributions from their priors, or the log-density at the mode."""
        first, second = self._pseudo_counts(parameters.spam.shape[1])
        if self.method == "vb":
            priors = np.full(2, first), np.full(parameters.spam.shape[1], second)
            return -float(sum(divergence(*pair).sum() for pair in zip(parameters, priors, strict=True)))
        theta, xi = (normalised(part) for part in parameters)
        return float(scipy.special.xlogy(first, theta).sum() + scipy.special.xlogy(second, xi).sum())

    def _adopt(self, votes: Votes, parameters: Habits) -> None:
        knowing, self.spam_ = (normalised(part) for part in parameters)
        self.theta_ = knowing[:, 1]
        self.confusion_ = _mixture(knowing, self.spam_)
        self.skills_ = np.einsum("rcc->r", self.confusion_) / max(votes.shape[2], 1)

    # ---------------------------------------------------------------- both kinds of M-step

    def _pseudo_counts(self, C: int) -> tuple[float, float]:
        """What is added to the counts of knowing and of habits."""
        if self.method == "vb":
            return self.prior_knowing, self.prior_spam
        return self.smoothing / C, self.smoothing / C

    def _rates(self, parameters: Habits) -> tuple[FloatArray, FloatArray]:
        """The parameters as the E-step uses them: exp E log, or the mode."""
        if self.method == "vb":
            knowing, spam = (np.exp(expected_log(part)) for part in parameters)
            return knowing, spam
        return normalised(parameters.knowing), normalised(parameters.spam)


def _mixture(knowing: FloatArray, spam: FloatArray) -> FloatArray:
    """(R, C, C) P(label l | class c), from P(not knowing, knowing) (R, 2) and habits (R, C)."""
    by_habit = (knowing[:, :1] * spam)[:, None, :]
    return np.asarray(by_habit + knowing[:, 1, None, None] * np.eye(spam.shape[1]))


def _share_known(knowing: FloatArray, spam: FloatArray) -> FloatArray:
    """(R, C) probability that a right label was known."""
    return np.asarray(knowing[:, 1:] / (knowing[:, 1:] + knowing[:, :1] * spam))
