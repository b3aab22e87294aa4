"""Enhanced BCC: subtypes of classes, on which annotators err together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from conal.aggregation.arrays import FloatArray
from conal.aggregation.base import register
from conal.aggregation.dirichlet import divergence, expected_log
from conal.aggregation.em import EMAggregator
from conal.aggregation.engines import Expectation
from conal.aggregation.ranks import ranks_of
from conal.aggregation.votes import Votes, vote_shares
from conal.data.annotations import Annotations
from conal.parameters import number, one_of, parameter, whole

__all__ = ["EnhancedBCC"]

TINY = 1e-9
"""Tasks by votes of a class that nobody chose: a Dirichlet parameter must not be zero."""


@dataclass
class Subtypes:
    """Dirichlet parameters of class shares (C,), shares of subtypes (C, M) and confusion (R, C, M, C).

    ``classes`` (C,) are those of the prior of the class shares. ``within`` (N, C, M) is q(subtype | class) of every
    task; the E-step under these parameters sets it.
    """

    classes: FloatArray
    tau: FloatArray
    eta: FloatArray
    nu: FloatArray
    within: FloatArray | None = None


@register("ebcc")
class EnhancedBCC(EMAggregator[Subtypes]):
    r"""Classes with subtypes, so that annotators err together: enhanced Bayesian classifier combination.

    Dawid-Skene takes the annotators' mistakes on a task as independent. But some tasks are hard, or misleading, for
    everybody. Here every class has M subtypes, such as typical and misleading tasks, and an annotator has a confusion
    row for each of them. Given the class alone, annotators are then dependent:

    .. math::
        z_i \sim \tau, \qquad g_i \mid z_i = c \sim \eta^c, \qquad
        P(y_i^r = l \mid z_i = c, g_i = m) = \nu^r_{cml}

    .. math::
        \tau \sim \mathrm{Dirichlet}(\alpha_\tau), \qquad
        \eta^c \sim \mathrm{Dirichlet}(\alpha_\eta / M), \qquad
        \nu^r_{cm \cdot} \sim \mathrm{Dirichlet}(\alpha_{c \cdot}), \quad
        \alpha_{cl} = \alpha_\text{right} \text{ if } l = c \text{ else } \alpha_\text{wrong}

    Mean-field variational Bayes with the joint :math:`q_i(c, m)` of class and subtype; all distributions have closed
    forms, as in ``bayes-dawid-skene``, which is this model with M = 1. The objective is the evidence lower bound; it
    never falls. Every run starts with the vote shares for the classes and random subtypes, and the run with the
    highest bound is kept. Surplus subtypes stay empty.

    Use it where tasks have many labels each and some mislead several annotators, and compare with ``dawid-skene``. With
    few labels per task or weak annotators, subtypes take over wrong classes. Its result depends on the start more than
    that of other models: raise ``n_restarts`` if two seeds differ much.

    Attributes
    ----------
    subtype_shares_ : (C, M)
        Mean of :math:`\eta`: how frequent each subtype is in its class, from the most frequent to the least.
    subtype_confusion_ : (R, C, M, C)
        Mean of :math:`\nu`: ``subtype_confusion_[r, c, m, l]`` = P(annotator r says l | class c, subtype m).
    confusion_ : (R, C, C)
        Its mean over subtypes.
    class_prior_ : (C,)
    skills_ : (R,)
        Expected share of right labels, sum_c rho_c confusion_[r, c, c].

    References
    ----------
    Li, Rubinstein and Cohn (2019). Exploiting worker correlation for label aggregation in crowdsourcing. ICML.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]] * 3)
    >>> EnhancedBCC(n_subtypes=2).fit(crowd).labels_[:4].tolist()
    [0, 1, 0, 1]
    """

    n_iter = 500
    n_restarts = 3

    n_subtypes: int = parameter(
        default=10, must_be=whole(1), help="Maximum number of subtypes M of every class; unneeded ones stay empty."
    )
    class_prior: Literal["votes", "uniform"] = parameter(
        default="votes",
        must_be=one_of("votes", "uniform"),
        help=r"'votes': :math:`\alpha_\tau` is how many tasks each class has by the vote shares, an option of "
        "the authors' code, which holds the classes' shares near those of the votes. 'uniform': 1 for every class.",
    )
    prior_subtypes: float = parameter(
        default=0.1,
        must_be=number(above=0),
        help=r":math:`\alpha_\eta`, spread over the subtypes of a class; the smaller, the fewer of them are used.",
    )
    prior_right: float = parameter(
        default=4.0, must_be=number(above=0), help=r":math:`\alpha_\text{right}`, on the diagonal."
    )
    prior_wrong: float = parameter(
        default=1.0, must_be=number(above=0), help=r":math:`\alpha_\text{wrong}`, off the diagonal."
    )

    def _numbers(self, crowd: Annotations) -> float:
        N, R, C = crowd.n_tasks, crowd.n_annotators, crowd.n_classes
        return self.n_subtypes * (10.0 * N * C + 8.0 * R * C**2)

    # ---------------------------------------------------------------- the start

    def _initialize(self, votes: Votes, rng: np.random.Generator | None) -> FloatArray:
        return vote_shares(votes.annotations)  # starts differ in their subtypes

    def _first_parameters(self, votes: Votes, expectation: Expectation, rng: np.random.Generator | None) -> Subtypes:
        N, _, C = votes.shape
        # Equal subtypes would stay equal, so the first start is random as well.
        rng = np.random.default_rng(self.seed) if rng is None else rng
        places = ranks_of(votes.annotations)
        within = rng.dirichlet(np.ones(self.n_subtypes), size=(N, C))[np.ix_(places.tasks, places.classes)]
        return self._fitted(votes, expectation, within)

    # ---------------------------------------------------------------- the steps

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Subtypes | None) -> Subtypes:
        if previous is None or previous.within is None:
            return self._first_parameters(votes, expectation, None)
        return self._fitted(votes, expectation, previous.within)

    def _fitted(self, votes: Votes, expectation: Expectation, within: FloatArray) -> Subtypes:
        """The distributions that fit q(class) and q(subtype | class) best."""
        N, R, C = votes.shape
        q = expectation.posterior[:, :, None] * within
        counts = np.asarray(votes.by_annotator @ q.reshape(N, -1)).reshape(R, C, C, -1)  # observed before true
        nu = counts.transpose(0, 2, 3, 1) + self._prior(C)[:, None, :]
        shares = q.sum(0)
        classes = np.ones(C) if self.class_prior == "uniform" else vote_shares(votes.annotations).sum(0) + TINY
        return Subtypes(classes, classes + shares.sum(1), self.prior_subtypes / self.n_subtypes + shares, nu)

    def _log_joint(self, votes: Votes, parameters: Subtypes) -> FloatArray:
        N, R, C = votes.shape
        log_confusion = expected_log(parameters.nu).transpose(0, 3, 1, 2).reshape(R * C, -1)
        joint = np.asarray(votes.by_task @ log_confusion).reshape(N, C, -1)
        joint += expected_log(parameters.eta) + expected_log(parameters.tau)[:, None]
        log_joint = np.asarray(scipy.special.logsumexp(joint, axis=2))
        joint -= log_joint[:, :, None]
        parameters.within = np.exp(joint, out=joint)
        return log_joint

    def _log_prior(self, parameters: Subtypes) -> float:
        """The parameters' part of the evidence lower bound: -KL of their distributions from the priors."""
        C, M = parameters.eta.shape
        apart = divergence(parameters.tau, parameters.classes)
        apart = apart + divergence(parameters.eta, np.full(M, self.prior_subtypes / M)).sum()
        return -float(apart + divergence(parameters.nu, self._prior(C)[:, None, :]).sum())

    def _prior(self, C: int) -> FloatArray:
        return self.prior_wrong + (self.prior_right - self.prior_wrong) * np.eye(C)

    def _adopt(self, votes: Votes, parameters: Subtypes) -> None:
        parts = (parameters.tau, parameters.eta, parameters.nu)
        self.class_prior_, shares, confusion = (part / part.sum(-1, keepdims=True) for part in parts)
        order = np.argsort(-shares, axis=1, kind="stable")
        self.subtype_shares_ = np.take_along_axis(shares, order, axis=1)
        self.subtype_confusion_ = np.take_along_axis(confusion, order[None, :, :, None], axis=2)
        self.confusion_ = np.einsum("cm,rcml->rcl", shares, confusion)
        self.skills_ = np.einsum("c,rcc->r", self.class_prior_, self.confusion_)
