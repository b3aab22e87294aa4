"""Worker clustering: annotators belong to a few groups, and those of a group share a confusion matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from conal.aggregation.arrays import FloatArray, normalised, softmax
from conal.aggregation.base import register
from conal.aggregation.em import EMAggregator
from conal.aggregation.engines import Expectation
from conal.aggregation.ranks import ranks_of
from conal.aggregation.votes import Votes, class_shares, vote_shares
from conal.parameters import number, parameter, whole

__all__ = ["WorkerClustering"]

Drawn = tuple[np.random.Generator, npt.NDArray[np.int64]]
"""What draws annotators, and the annotators in an order that names do not change."""


class Clusters(NamedTuple):
    """Class prior (C,), group prior (K,), matrices ``theta[k, c, l]`` and ``membership[r, k]`` = q(h_r = k)."""

    rho: FloatArray
    tau: FloatArray
    theta: FloatArray
    membership: FloatArray


@register("worker-clustering")
class WorkerClustering(EMAggregator[Clusters]):
    r"""Annotators in groups with one confusion matrix each, by mean-field variational inference.

    Annotator r belongs to a group :math:`h_r` drawn from :math:`\tau`. A member of group k labels class c as l with
    probability :math:`\theta^k_{cl}`. So an annotator who gave few labels borrows from the whole group, and people who
    all make the same mistake form a group. Truth and groups are taken as independent, :math:`q(z) q(h)`, and updated
    in turn (:math:`n^r_{cl} = \sum_{i : y_i^r = l} q_i(c)`):

    .. math::
        q_r(k) \propto \tau_k \prod_{c, l} (\theta^k_{cl})^{n^r_{cl}}, \qquad
        \theta^k_{cl} \propto \sum_r q_r(k)\, n^r_{cl} + \alpha, \qquad
        \tau_k \propto \sum_r q_r(k) + \alpha, \qquad
        q_i(c) \propto \rho_c \prod_r \prod_k (\theta^k_{c, y_i^r})^{q_r(k)}

    The objective is the evidence lower bound; it never falls. Every run starts with the vote shares for the truth. Its
    groups start at the pooled confusion matrix and at matrices of annotators that it explains badly: in the first run
    the worst explained one after the other, in further runs random ones of them.

    Use it where annotators are of a few kinds. Not where every annotator errs in an own way and has labels enough for
    a matrix of its own.

    Attributes
    ----------
    groups_ : (R,)
        The most probable group of every annotator. Groups are numbered from the largest to the smallest.
    membership_ : (R, K)
        ``membership_[r, k]`` = q(annotator r is in group k); the group prior for an annotator without labels.
    group_confusion_ : (K, C, C)
        ``group_confusion_[k, c, l]`` = P(a member of group k says l | true c).
    group_prior_, class_prior_ : (K,), (C,)
    confusion_ : (R, C, C)
        The matrices of the groups, averaged by membership.
    skills_ : (R,)
        Expected share of right labels, sum_c rho_c confusion_[r, c, c].

    References
    ----------
    Imamura, Sato, Sugiyama (2018). Analysis of minimax error rate for crowdsourcing and its application to worker
    clustering model. ICML.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 0, 1], [1, 1, 1, 0]] * 10)
    >>> fitted = WorkerClustering(n_groups=2).fit(crowd)
    >>> fitted.groups_.tolist(), fitted.labels_[:2].tolist()
    ([0, 0, 0, 1], [0, 1])
    """

    n_iter = 500
    n_restarts = 5

    n_groups: int = parameter(
        default=5, must_be=whole(1), help="Maximum number of groups K; unneeded groups stay empty."
    )
    prior: float = parameter(
        default=0.1,
        must_be=number(above=0),  # a group may be empty
        help=r"Number of pseudo-labels :math:`\alpha` in every cell of a group's matrix, and of pseudo-annotators in "
        r"every group: the mode under Dirichlet(:math:`1 + \alpha`) priors. An empty group is uniform.",
    )

    # ---------------------------------------------------------------- the start

    def _initialize(self, votes: Votes, rng: np.random.Generator | None) -> FloatArray:
        return vote_shares(votes.annotations)  # starts differ in their groups

    def _first_parameters(self, votes: Votes, expectation: Expectation, rng: np.random.Generator | None) -> Clusters:
        drawn = None if rng is None else (rng, np.argsort(ranks_of(votes.annotations).annotators))
        theta = self._seeds(expectation.counts, drawn)
        tau = np.full(self.n_groups, 1 / self.n_groups)
        return self._fitted(expectation, _memberships(expectation.counts, tau, theta))

    def _seeds(self, counts: FloatArray, drawn: Drawn | None) -> FloatArray:
        """(K, C, C) matrices to start from: the pooled one, then those of the worst explained annotators."""
        pooled = normalised(counts.sum(0) + self.prior)
        # The pooled matrix is the prior, so that an annotator with few labels does not look like another group.
        own = normalised(counts + self.prior + pooled)
        seeds = np.full((self.n_groups, *pooled.shape), 1 / len(pooled))
        seeds[0] = pooled
        best = np.einsum("rcl,rcl->r", counts, np.log(own))
        explained = _log_likelihoods(counts, seeds[:1])[:, 0]
        for k in range(1, self.n_groups):
            r = _pick(best - explained, drawn)
            if r is None:
                break
            seeds[k] = own[r]
            explained = np.maximum(explained, _log_likelihoods(counts, seeds[k : k + 1])[:, 0])
        return seeds

    # ---------------------------------------------------------------- the steps

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Clusters | None) -> Clusters:
        if previous is None:
            return self._first_parameters(votes, expectation, None)
        return self._fitted(expectation, _memberships(expectation.counts, previous.tau, previous.theta))

    def _fitted(self, expectation: Expectation, membership: FloatArray) -> Clusters:
        """The parameters that fit the posterior of truth and groups best."""
        theta = normalised(np.einsum("rk,rcl->kcl", membership, expectation.counts, optimize=True) + self.prior)
        tau = normalised(membership.sum(0) + self.prior)
        return Clusters(class_shares(expectation.posterior), tau, theta, membership)

    def _log_joint(self, votes: Votes, parameters: Clusters) -> FloatArray:
        with np.errstate(divide="ignore"):  # a class that nobody votes for is ruled out
            log_rho = np.log(parameters.rho)
        log_confusion = np.tensordot(parameters.membership, np.log(parameters.theta), axes=1)
        return np.asarray(log_rho + votes.log_evidence(log_confusion))

    def _log_prior(self, parameters: Clusters) -> float:
        """With the groups' part of the evidence lower bound, -KL(q(h) || tau)."""
        _, tau, theta, membership = parameters
        return float(
            self.prior * (np.log(theta).sum() + np.log(tau).sum()) - scipy.special.rel_entr(membership, tau).sum()
        )

    def _adopt(self, votes: Votes, parameters: Clusters) -> None:
        rho, tau, theta, membership = parameters
        # Numbered by size and skill, not by the order of the start; rounded, so that equal ones compare equal.
        skill = np.einsum("c,kcc->k", rho, theta)
        order = np.lexsort((-skill.round(9), -tau.round(9)))
        self.class_prior_, self.group_prior_ = rho, tau[order]
        self.group_confusion_, self.membership_ = theta[order], membership[:, order]
        self.groups_: npt.NDArray[np.int64] = self.membership_.argmax(1)
        self.confusion_ = np.tensordot(self.membership_, self.group_confusion_, axes=1)
        self.skills_ = np.einsum("c,rcc->r", rho, self.confusion_)


def _log_likelihoods(counts: FloatArray, theta: FloatArray) -> FloatArray:
    """(R, K) log-probability of an annotator's expected labels as a member of each group."""
    return np.asarray(np.tensordot(counts, np.log(theta), axes=([1, 2], [1, 2])))


def _memberships(counts: FloatArray, tau: FloatArray, theta: FloatArray) -> FloatArray:
    """(R, K) q(h_r = k)."""
    return softmax(np.log(tau) + _log_likelihoods(counts, theta))


def _pick(gain: FloatArray, drawn: Drawn | None) -> int | None:
    """The annotator who gains most from a separate group, or one drawn by gain; None if no one gains."""
    gain = np.where(gain > 1e-9, gain, 0.0)  # less is rounding: an annotator picked twice makes two equal groups
    if not gain.any():
        return None
    if drawn is None:
        return int(gain.argmax())
    rng, order = drawn
    return int(order[rng.choice(len(gain), p=gain[order] / gain.sum())])
