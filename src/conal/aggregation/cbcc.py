"""Community BCC: communities of annotators, around whose confusion matrices those of the members are spread."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray, normalised
from conal.aggregation.backoff import Backoff, Communities
from conal.aggregation.base import register
from conal.aggregation.engines import Expectation
from conal.aggregation.votes import Votes
from conal.aggregation.worker_clustering import WorkerClustering
from conal.parameters import parameter, whole

__all__ = ["CommunityBCC", "first_communities"]


@register("cbcc")
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

    n_restarts = 3

    n_communities: int = parameter(
        default=4, must_be=whole(1), help="Maximum number of communities K; unneeded ones stay empty."
    )

    @property
    def _n_communities(self) -> int:
        return self.n_communities

    def _start_of_communities(
        self, votes: Votes, expectation: Expectation, rng: np.random.Generator | None
    ) -> tuple[FloatArray, FloatArray]:
        return first_communities(votes, expectation, self._modes(votes.shape[2]), self.n_communities, rng)

    def _adopt(self, votes: Votes, parameters: Communities) -> None:
        super()._adopt(votes, parameters)
        mean = normalised(parameters.alpha)
        # Numbered by size and skill, not by the order of the start; rounded, so that equal ones compare equal.
        skill = np.einsum("c,kcc->k", self.class_prior_, mean)
        order = np.lexsort((-skill.round(9), -parameters.tau.round(9)))
        self.community_shares_, self.community_confusion_ = parameters.tau[order], mean[order]
        self.membership_ = parameters.membership[:, order]
        self.communities_: npt.NDArray[np.int64] = self.membership_.argmax(1)


def first_communities(
    votes: Votes, expectation: Expectation, modes: FloatArray, n: int, rng: np.random.Generator | None
) -> tuple[FloatArray, FloatArray]:
    """Memberships (R, n) and alpha (n, C, C) to start from: those of ``worker-clustering``, as firm as ``modes``."""
    groups = WorkerClustering(n_groups=n)._first_parameters(votes, expectation, rng)
    return groups.membership, groups.theta * modes.sum(-1)[:, None]
