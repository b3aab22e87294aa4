"""Annotators or classes in clusters: worker clustering, community BCC and enhanced BCC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from conal._arrays import FloatArray
from conal.aggregation.base import register
from conal.aggregation.common_confusion import Backoff, Communities
from conal.aggregation.counts import (
    Votes,
    class_shares,
    divergence,
    expected_log,
    expected_skills,
    logarithm,
    mostly_right,
    normalised,
    ranks_of,
    softmax,
    vote_shares,
)
from conal.aggregation.em import EMAggregator, MatrixAggregator
from conal.aggregation.engines import Expectation
from conal.data.annotations import Annotations
from conal.parameters import Doc, number, parameters, whole

# Worker clustering: annotators belong to a few groups, and those of a group share a confusion matrix.

Drawn = tuple[np.random.Generator, npt.NDArray[np.int64]]
"""What draws annotators, and the annotators in an order that names do not change."""


class Clusters(NamedTuple):
    """Class prior (C,), group prior (K,), matrices ``theta[k, c, l]`` and ``membership[r, k]`` = q(h_r = k)."""

    rho: FloatArray
    tau: FloatArray
    theta: FloatArray
    membership: FloatArray


@register("worker-clustering")
@parameters
class WorkerClustering(MatrixAggregator[Clusters]):
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

    n_iter: int = 500
    n_restarts: int = 5

    n_groups: Annotated[int, whole(1), Doc("Maximum number of groups K; unneeded groups stay empty.")] = 5
    prior: Annotated[
        float,
        number(above=0),
        Doc(
            r"Number of pseudo-labels :math:`\alpha` in every cell of a group's matrix, and of pseudo-annotators in "
            r"every group: the mode under Dirichlet(:math:`1 + \alpha`) priors. An empty group is uniform."
        ),
    ] = 0.1

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

    def _log_parts(self, parameters: Clusters) -> tuple[FloatArray, FloatArray]:
        return logarithm(parameters.rho), np.tensordot(parameters.membership, np.log(parameters.theta), axes=1)

    def _log_prior(self, parameters: Clusters) -> float:
        """With the groups' part of the evidence lower bound, -KL(q(h) || tau)."""
        _, tau, theta, membership = parameters
        return float(
            self.prior * (np.log(theta).sum() + np.log(tau).sum()) - scipy.special.rel_entr(membership, tau).sum()
        )

    def _adopt(self, votes: Votes, parameters: Clusters) -> None:
        rho, tau, theta, membership = parameters
        order = by_size(tau, rho, theta)
        self.class_prior_, self.group_prior_ = rho, tau[order]
        self.group_confusion_, self.membership_ = theta[order], membership[:, order]
        self.groups_: npt.NDArray[np.int64] = self.membership_.argmax(1)
        self.confusion_ = np.tensordot(self.membership_, self.group_confusion_, axes=1)


def _log_likelihoods(counts: FloatArray, theta: FloatArray) -> FloatArray:
    """(R, K) log-probability of an annotator's expected labels as a member of each group."""
    return np.asarray(np.tensordot(counts, np.log(theta), axes=([1, 2], [1, 2])))


def _memberships(counts: FloatArray, tau: FloatArray, theta: FloatArray) -> FloatArray:
    """(R, K) q(h_r = k)."""
    return softmax(np.log(tau) + _log_likelihoods(counts, theta))


def by_size(sizes: npt.NDArray[Any], rho: FloatArray, matrices: FloatArray) -> npt.NDArray[np.int64]:
    """The order of groups from the largest, of equal ones from the most skilful, whatever the order of the start.

    Sizes (K,) and skills, by the class shares (C,) and matrices (K, C, C), are rounded, so that equal ones compare
    equal.
    """
    return np.lexsort((-expected_skills(rho, matrices).round(9), -sizes.round(9)))


def _pick(gain: FloatArray, drawn: Drawn | None) -> int | None:
    """The annotator who gains most from a separate group, or one drawn by gain; None if no one gains."""
    gain = np.where(gain > 1e-9, gain, 0.0)  # less is rounding: an annotator picked twice makes two equal groups
    if not gain.any():
        return None
    if drawn is None:
        return int(gain.argmax())
    rng, order = drawn
    return int(order[rng.choice(len(gain), p=gain[order] / gain.sum())])


# Community BCC: communities of annotators, around whose confusion matrices those of the members are spread.


@register("cbcc")
@parameters
class CommunityBCC(Backoff):
    r"""Annotators in communities, with matrices of their own that are spread around their community's.

    Annotator r belongs to community :math:`h_r`, drawn from :math:`\tau`. The rows of the annotator's matrix are drawn
    around those of the community, more or less closely as the labels say
    (:math:`n^r_{cl} = \sum_{i : y_i^r = l} q_i(c)`; B is the multivariate beta function):

    .. math::
        \pi^r_{c \cdot} \mid h_r = k \sim \mathrm{Dirichlet}(\alpha^k_{c \cdot}), \qquad
        q_r(k) \propto \tau_k \prod_c
        \frac{\mathrm B(\alpha^k_{c \cdot} + n^r_{c \cdot})}{\mathrm B(\alpha^k_{c \cdot})}, \qquad
        q(\pi^r_{c \cdot} \mid k) = \mathrm{Dirichlet}(\alpha^k_{c \cdot} + n^r_{c \cdot})

    :math:`\alpha^k` is learned as in ``backoff``, which is this model with one community. ``worker-clustering`` is
    its limit where all members of a community have the same matrix. The objective is the evidence lower bound, with the
    priors of :math:`\alpha` and :math:`\tau`; it never falls. Runs start as those of ``worker-clustering``.

    The original has normal distributions of log-probabilities and expectation propagation; Dirichlet distributions
    give closed forms.

    Use it for many annotators with few labels each who err in a few typical ways: on face it is a point above
    ``dawid-skene``, on twelve simulated crowds with shared mistakes more than 7. Not in a hurry: ``backoff``, with one
    community, is as accurate on most crowds and several times faster.

    Attributes
    ----------
    communities_ : (R,)
        The most probable community of every annotator. They are numbered from the largest to the smallest.
    membership_ : (R, K)
        ``membership_[r, k]`` = q(annotator r is in community k).
    community_confusion_ : (K, C, C)
        Mean matrix of a community: ``community_confusion_[k, c, l]`` = P(observed l | true c).
    community_shares_ : (K,)
    confusion_ : (R, C, C)
        Mean of :math:`\pi`: ``confusion_[r, c, l]`` = P(observed l | true c).
    class_prior_ : (C,)
    skills_ : (R,)
        Expected share of right labels, sum_c rho_c confusion_[r, c, c].

    References
    ----------
    Venanzi, Guiver, Kazai, Kohli and Shokouhi (2014). Community-based Bayesian aggregation models for crowdsourcing.
    WWW.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 0, 1], [1, 1, 1, 0]] * 10)
    >>> fitted = CommunityBCC(n_communities=2).fit(crowd)
    >>> fitted.communities_.tolist(), fitted.labels_[:2].tolist()
    ([0, 0, 0, 1], [0, 1])
    """

    n_restarts: int = 3

    n_communities: Annotated[int, whole(1), Doc("Maximum number of communities K; unneeded ones stay empty.")] = 4

    def _initialize(self, votes: Votes, rng: np.random.Generator | None) -> FloatArray:
        return vote_shares(
            votes.annotations, None if self.n_communities > 1 else rng
        )  # or starts differ in these groups

    def _start_of_communities(
        self, votes: Votes, expectation: Expectation, rng: np.random.Generator | None
    ) -> tuple[FloatArray, FloatArray]:
        return first_communities(votes, expectation, self._modes(votes.shape[2]), self.n_communities, rng)

    def _adopt(self, votes: Votes, parameters: Communities) -> None:
        super()._adopt(votes, parameters)
        mean = normalised(parameters.alpha)
        order = by_size(parameters.tau, self.class_prior_, mean)
        self.community_shares_, self.community_confusion_ = parameters.tau[order], mean[order]
        self.membership_ = parameters.membership[:, order]
        self.communities_: npt.NDArray[np.int64] = self.membership_.argmax(1)


def first_communities(
    votes: Votes, expectation: Expectation, modes: FloatArray, n: int, rng: np.random.Generator | None
) -> tuple[FloatArray, FloatArray]:
    """Memberships (R, n) and alpha (n, C, C) to start from: those of ``worker-clustering``, as firm as ``modes``."""
    groups = WorkerClustering(n_groups=n)._first_parameters(votes, expectation, rng)
    return groups.membership, groups.theta * modes.sum(-1)[:, None]


# Enhanced BCC: subtypes of classes, on which annotators err together.

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
@parameters
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

    n_iter: int = 500
    n_restarts: int = 3

    n_subtypes: Annotated[
        int, whole(1), Doc("Maximum number of subtypes M of every class; unneeded ones stay empty.")
    ] = 10
    class_prior: Annotated[
        Literal["votes", "uniform"],
        Doc(
            r"'votes': :math:`\alpha_\tau` is how many tasks each class has by the vote shares, an option of "
            "the authors' code, which holds the classes' shares near those of the votes. 'uniform': 1 for every class."
        ),
    ] = "votes"
    prior_subtypes: Annotated[
        float,
        number(above=0),
        Doc(r":math:`\alpha_\eta`, spread over the subtypes of a class; the smaller, the fewer of them are used."),
    ] = 0.1
    prior_right: Annotated[float, number(above=0), Doc(r":math:`\alpha_\text{right}`, on the diagonal.")] = 4.0
    prior_wrong: Annotated[float, number(above=0), Doc(r":math:`\alpha_\text{wrong}`, off the diagonal.")] = 1.0

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
        nu = counts.transpose(0, 2, 3, 1) + self._prior(C)
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
        return -float(apart + divergence(parameters.nu, self._prior(C)).sum())

    def _prior(self, C: int) -> FloatArray:
        return mostly_right(C, self.prior_right, self.prior_wrong)[:, None, :]

    def _adopt(self, votes: Votes, parameters: Subtypes) -> None:
        parts = (parameters.tau, parameters.eta, parameters.nu)
        self.class_prior_, shares, confusion = (part / part.sum(-1, keepdims=True) for part in parts)
        order = np.argsort(-shares, axis=1, kind="stable")
        self.subtype_shares_ = np.take_along_axis(shares, order, axis=1)
        self.subtype_confusion_ = np.take_along_axis(confusion, order[None, :, :, None], axis=2)
        self.confusion_ = np.einsum("cm,rcml->rcl", shares, confusion)
