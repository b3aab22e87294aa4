"""Worker clustering: annotators come in a few kinds, and those of a kind share a confusion matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import rel_entr, softmax

from conal.aggregation.base import register
from conal.aggregation.em import EMAggregator
from conal.aggregation.votes import FloatArray, Votes, class_shares, normalised, vote_shares
from conal.errors import InputError
from conal.parameters import is_number, is_whole

__all__ = ["WorkerClustering"]


class Clusters(NamedTuple):
    """Class prior (C,), group prior (K,), matrices ``theta[k, c, l]`` and ``membership[r, k]`` = q(h_r = k)."""

    rho: FloatArray
    tau: FloatArray
    theta: FloatArray
    membership: FloatArray


@register("worker-clustering")
class WorkerClustering(EMAggregator[Clusters]):
    r"""Annotators in groups with one confusion matrix each, by mean-field variational inference.

    Annotator r belongs to a group :math:`h_r` drawn from :math:`\tau`; a member of group k labels class c as l with
    probability :math:`\theta^k_{cl}`. An annotator who gave few labels borrows from the whole group, and a group of
    people who all make the same mistake is found as such. Truth and groups are taken as independent,
    :math:`q(z) q(h)`, and everything is updated in turn (:math:`n^r_{cl} = \sum_{i : y_i^r = l} q_i(c)`):

    .. math::
        q_r(k) \propto \tau_k \prod_{c, l} (\theta^k_{cl})^{n^r_{cl}}, \qquad
        \theta^k_{cl} \propto \sum_r q_r(k)\, n^r_{cl} + \alpha, \qquad
        \tau_k \propto \sum_r q_r(k) + \alpha, \qquad
        q_i(c) \propto \rho_c \prod_r \prod_k (\theta^k_{c, y_i^r})^{q_r(k)}

    The objective is the evidence lower bound; it never falls. Every start has the vote shares for the truth; the
    groups start at the pooled confusion matrix and those of annotators it explains worst: the very worst one after
    the other in the first start, random ones of them in the others.

    Parameters
    ----------
    n_groups : int
        K, groups at most: one that nobody needs stays empty.
    prior : float
        :math:`\alpha > 0`, pseudo-labels in every cell of a group's matrix and pseudo-annotators in every group: the
        mode under Dirichlet(:math:`1 + \alpha`) priors. An empty group is uniform.
    n_iter, tol, n_restarts, seed, verbose
        See :class:`conal.aggregation.em.EMAggregator`.

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

    Example
    -------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 0, 1], [1, 1, 1, 0]] * 10)
    >>> fitted = WorkerClustering(n_groups=2).fit(crowd)
    >>> fitted.groups_.tolist(), fitted.labels_[:2].tolist()
    ([0, 0, 0, 1], [0, 1])
    """

    groups_: npt.NDArray[np.int64]
    membership_: FloatArray
    group_confusion_: FloatArray
    group_prior_: FloatArray
    class_prior_: FloatArray

    def __init__(
        self,
        *,
        n_groups: int = 5,
        prior: float = 0.1,
        n_iter: int = 500,
        tol: float = 1e-5,
        n_restarts: int = 5,
        seed: int = 0,
        verbose: bool = True,
    ) -> None:
        super().__init__(n_iter=n_iter, tol=tol, n_restarts=n_restarts, seed=seed, verbose=verbose)
        self.n_groups = n_groups
        self.prior = prior

    def _check(self) -> None:
        super()._check()
        if not (is_whole(self.n_groups) and self.n_groups >= 1):
            raise InputError(f"n_groups must be a whole number of at least 1, not {self.n_groups!r}")
        if not (is_number(self.prior) and self.prior > 0):
            raise InputError(f"prior must be a number above 0, not {self.prior!r}: a group may be empty")

    # ---------------------------------------------------------------- the start

    def _initialize(self, votes: Votes, rng: np.random.Generator | None) -> FloatArray:
        return vote_shares(votes.annotations)  # starts differ in their groups

    def _first_parameters(self, votes: Votes, posterior: FloatArray, rng: np.random.Generator | None) -> Clusters:
        counts = votes.counts(posterior)
        theta = self._seeds(counts, rng)
        tau = np.full(self.n_groups, 1 / self.n_groups)
        return self._fitted(posterior, counts, _memberships(counts, tau, theta))

    def _seeds(self, counts: FloatArray, rng: np.random.Generator | None) -> FloatArray:
        """(K, C, C) matrices to start from: the pooled one, then of annotators whom those before explain worst."""
        pooled = normalised(counts.sum(0) + self.prior)
        # With the pooled one for a prior, so that few labels do not look like a kind of their own.
        own = normalised(counts + self.prior + pooled)
        seeds = np.full((self.n_groups, *pooled.shape), 1 / len(pooled))
        seeds[0] = pooled
        best = np.einsum("rcl,rcl->r", counts, np.log(own))
        explained = _log_likelihoods(counts, seeds[:1])[:, 0]
        for k in range(1, self.n_groups):
            r = _pick(best - explained, rng)
            if r is None:
                break
            seeds[k] = own[r]
            explained = np.maximum(explained, _log_likelihoods(counts, seeds[k : k + 1])[:, 0])
        return seeds

    # ---------------------------------------------------------------- the steps

    def _m_step(self, votes: Votes, posterior: FloatArray, previous: Clusters | None) -> Clusters:
        if previous is None:
            return self._first_parameters(votes, posterior, None)
        counts = votes.counts(posterior)
        return self._fitted(posterior, counts, _memberships(counts, previous.tau, previous.theta))

    def _fitted(self, posterior: FloatArray, counts: FloatArray, membership: FloatArray) -> Clusters:
        """The parameters that go best with the posterior of truth and groups."""
        theta = normalised(np.einsum("rk,rcl->kcl", membership, counts, optimize=True) + self.prior)
        return Clusters(class_shares(posterior), normalised(membership.sum(0) + self.prior), theta, membership)

    def _log_joint(self, votes: Votes, parameters: Clusters) -> FloatArray:
        with np.errstate(divide="ignore"):  # a class that nobody votes for is ruled out
            log_rho = np.log(parameters.rho)
        log_confusion = np.tensordot(parameters.membership, np.log(parameters.theta), axes=1)
        return np.asarray(log_rho + votes.log_evidence(log_confusion))

    def _log_prior(self, parameters: Clusters) -> float:
        """With the groups' part of the evidence lower bound, -KL(q(h) || tau)."""
        _, tau, theta, membership = parameters
        return float(self.prior * (np.log(theta).sum() + np.log(tau).sum()) - rel_entr(membership, tau).sum())

    def _adopt(self, votes: Votes, parameters: Clusters) -> None:
        rho, tau, theta, membership = parameters
        # Numbered by what they are, not by how the start came upon them; rounded, so that equals are equal.
        skill = np.einsum("c,kcc->k", rho, theta)
        order = np.lexsort((-skill.round(9), -tau.round(9)))
        self.class_prior_, self.group_prior_ = rho, tau[order]
        self.group_confusion_, self.membership_ = theta[order], membership[:, order]
        self.groups_ = self.membership_.argmax(1)
        self.confusion_ = np.tensordot(self.membership_, self.group_confusion_, axes=1)
        self.skills_ = np.einsum("c,rcc->r", rho, self.confusion_)


def _log_likelihoods(counts: FloatArray, theta: FloatArray) -> FloatArray:
    """(R, K) log-probability of an annotator's expected labels as a member of each group."""
    return np.asarray(np.tensordot(counts, np.log(theta), axes=([1, 2], [1, 2])))


def _memberships(counts: FloatArray, tau: FloatArray, theta: FloatArray) -> FloatArray:
    """(R, K) q(h_r = k)."""
    return np.asarray(softmax(np.log(tau) + _log_likelihoods(counts, theta), axis=1))


def _pick(gain: FloatArray, rng: np.random.Generator | None) -> int | None:
    """The annotator with the most to gain from a group of one's own, or one drawn by it; None if nobody gains."""
    gain = np.where(gain > 1e-9, gain, 0.0)  # not rounding: the same one twice would make groups that never part
    if not gain.any():
        return None
    return int(gain.argmax() if rng is None else rng.choice(len(gain), p=gain / gain.sum()))
