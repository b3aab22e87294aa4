"""Confusion that all annotators share: the paper's noise model from labels alone, and back-off."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import scipy

from conal._arrays import FloatArray, grouped_means, grouped_sums
from conal.aggregation.base import register
from conal.aggregation.counts import (
    Array,
    Votes,
    beside,
    divergence,
    expected_log,
    log_normaliser,
    logarithm,
    mostly_right,
    normalised,
    softmax,
)
from conal.aggregation.dawid_skene import posterior_by_dawid_skene
from conal.aggregation.em import MatrixAggregator, Start
from conal.aggregation.engines import Engine, Expectation
from conal.data.annotations import Annotations
from conal.parameters import Constraint, Doc, number, parameters

# The paper's noise model in closed form: a label comes from the common confusion or from the annotator's own.
#
# With probability :math:`\omega_r` annotator r errs like the crowd, by :math:`\pi^g`, otherwise individually, by
# :math:`\pi^r`:
#
# .. math::
#     m^r_{cl} = \omega_r \pi^g_{cl} + (1 - \omega_r) \pi^r_{cl}, \qquad
#     g^r_{cl} = P(\text{common} \mid c, l) = \omega_r \pi^g_{cl} / m^r_{cl}
#
# The expected counts :math:`n^r_{cl}` (annotator r said l where the truth is c) split into :math:`n^r_{cl} g^r_{cl}`
# and the rest. Each part gives the rows of its matrix, and their sizes give :math:`\omega`.
#
# Every function takes NumPy arrays or torch tensors, and returns the same kind.
#
# References
# ----------
# Chu, Ma and Wang (2021). Learning from crowds by modeling common confusions. AAAI. Appendix B.


def mixture(omega: Array, pi_g: Array, pi_r: Array) -> Array:
    """Omega pi_g + (1 - omega) pi_r: P(observed | true), under either confusion.

    The axes of omega are the first ones of ``pi_r``: annotators (R,) of matrices (R, C, C), or labels (P,) of the
    columns (P, C) that the labels select.
    """
    omega = beside(omega, pi_r)
    return omega * pi_g + (1 - omega) * pi_r


def share_of_common(omega: Array, pi_g: Array, pi_r: Array) -> Array:
    """P(the label came from the common confusion), shaped like ``pi_r``; one half where both rule the label out.

    At most 1, whatever the rounding.
    """
    mixed = mixture(omega, pi_g, pi_r)
    impossible = mixed <= 0
    return (beside(omega, pi_r) * pi_g + 0.5 * impossible) / (mixed + impossible)


def updated_omega(common: Array, counts: Array, a: float, b: float) -> Array:
    """(R,) share of ``common`` in ``counts``, both (R, C, C); one half for an annotator without any.

    ``a`` and ``b`` are pseudo-labels from the common and from the own confusion: the mode under a
    Beta(1 + a, 1 + b) prior.
    """
    n_common: Array = common.sum((1, 2))
    total: Array = counts.sum((1, 2)) + (a + b)
    empty = total <= 0
    return (n_common + a + 0.5 * empty) / (total + empty)


# Common and individual confusion from labels alone: the paper's noise model, fitted by EM.

START = 0.9
"""Share of every label that is first assigned to the common confusion."""
PRIORS = (0.1, 0.3, 1.0)
"""Values of ``prior_individual`` that "auto" chooses from."""


def _pair() -> Constraint:
    def holds(value: Any) -> bool:
        return isinstance(value, tuple | list) and len(value) == 2 and all(number(at_least=0).holds(n) for n in value)

    return Constraint("two numbers of at least 0", holds)


class Mixture(NamedTuple):
    """Class prior (C,), common (C, C) and individual (R, C, C) confusion, omega per annotator (R,) or label (P,)."""

    rho: FloatArray
    pi_g: FloatArray
    pi_r: FloatArray
    omega: FloatArray


class Split(NamedTuple):
    """Expected labels (R, C, C) from the common and from the own confusion, and the omega that follows."""

    common: FloatArray
    own: FloatArray
    omega: FloatArray


@register("common-confusion")
@parameters
class CommonConfusion(MatrixAggregator[Mixture]):
    r"""One confusion matrix that all annotators share and one for each of them, by EM: the paper's Appendix B.

    For every label a coin :math:`s_i^r` with probability :math:`\omega^r` decides whether annotator r errs like
    everybody (:math:`\pi^g`) or individually (:math:`\pi^r`). Given the true class c, the source of label l
    depends on r, c and l alone. So EM has the exact joint posterior of truth and coin, and never lowers its objective
    (:math:`n^r_{cl} = \sum_{i : y_i^r = l} q_i(c)`):

    .. math::
        q_i(c) \propto \rho_c \prod_r m^r_{c, y_i^r}, \quad
        m^r_{cl} = \omega^r \pi^g_{cl} + (1 - \omega^r) \pi^r_{cl}, \quad
        g^r_{cl} = P(s = 1 \mid c, l) = \omega^r \pi^g_{cl} / m^r_{cl}

    .. math::
        \pi^g_{cl} \propto \sum_r n^r_{cl} g^r_{cl} + \alpha_g, \quad
        \pi^r_{cl} \propto n^r_{cl} (1 - g^r_{cl}) + \alpha_r, \quad
        \omega^r = \frac{\sum_{c, l} n^r_{cl} g^r_{cl} + a}{n^r + a + b}, \quad
        \rho_c = \tfrac1N \sum_i q_i(c)

    The labels determine the mixture m. As long as omega is constant for an annotator, the likelihood alone does **not
    identify** how m divides into common and individual confusion: any part of :math:`\pi^g` may as well be moved into
    every :math:`\pi^r`. Priors and start decide. The prior of :math:`\pi^r` holds it near uniform, so that the common
    matrix explains what it can. How strong it must be depends on how many labels an annotator gave, so it is chosen by
    held-out labels. EM starts from the solution of Dawid and Skene, with nine tenths of every label assigned to the
    common matrix. (From one half it more often ends at a lower objective, where :math:`\pi^g` contains the right
    answers and every :math:`\pi^r` the same mistakes. From the votes, crowds whose members err alike, such as juries of
    language models, can end where a shared mistake counts as the right answer.) Read the split as the most economical
    one, not as a measurement; ``prior_individual=1`` makes it more economical than the labels alone demand.

    Use it where annotators have few labels and many make the same mistakes: on simulated crowds of this kind it is far
    above ``dawid-skene``, as ``cbcc`` and ``backoff`` are. On public crowds it is about as accurate. Not where
    annotators have labels enough for matrices of their own, and you need no split.

    Attributes
    ----------
    common_confusion_ : (C, C)
        ``common_confusion_[c, l]`` = P(observed l | true c, common).
    annotator_confusion_ : (R, C, C)
        ``annotator_confusion_[r, c, l]`` = P(observed l | true c, annotator r's own confusion).
    omega_ : (R,)
        Share of an annotator's labels that come from the common confusion; for ``omega="annotation"``, the mean over
        the labels. For an annotator without labels, the mode of ``prior_omega``, or one half.
    annotation_omega_ : (P,)
        The same for every label, in the order of ``annotations.labels``.
    class_prior_ : (C,)
    prior_individual_ : float
        The prior that was used.
    confusion_ : (R, C, C)
        Both kinds of confusion together, omega pi_g + (1 - omega) pi_r.
    skills_ : (R,)
        Expected share of right labels, sum_c rho_c confusion_[r, c, c].

    References
    ----------
    Chu, Ma, Wang. Learning from Crowds by Modeling Common Confusions. AAAI 2021. Appendix B.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 0, 1], [1, 1, 1, 0]] * 10)
    >>> fitted = CommonConfusion().fit(crowd)
    >>> fitted.labels_[:2].tolist(), (fitted.omega_ > 0.5).tolist()
    ([0, 1], [True, True, True, False])
    """

    n_iter: int = 500

    omega: Annotated[
        Literal["annotator", "annotation"],
        Doc(
            r"'annotator' is the model above. 'annotation' is Appendix B to the letter, for comparison: an omega for "
            r"every label, set to :math:`q(s_i^r = 1) \propto \omega_i^r \sum_c q_i(c) \pi^g_{c, y}`, and counts "
            r"weighted by q(z) q(s) as if the two were independent. This step does not maximise the objective, which "
            r"may (rarely) fall, and an omega of a single label tends to 0 or 1: nearly all of them on "
            r"``conal.datasets.synthetic``, where fewer labels are right."
        ),
    ] = "annotator"
    prior_common: Annotated[
        float, number(at_least=0), Doc(r"Number of pseudo-labels :math:`\alpha_g` in every cell of the common matrix.")
    ] = 0.1
    prior_individual: Annotated[
        float | Literal["auto"],
        number(at_least=0),
        Doc(
            r"Number of pseudo-labels :math:`\alpha_r` in every cell of an annotator's own matrix; the higher, the "
            "more labels it takes to distinguish the annotator from the crowd. Both matrices are modes under "
            r"Dirichlet(:math:`1 + \alpha`) priors; 0 is maximum likelihood, and a row without labels is uniform. "
            f"'auto' takes the one of {', '.join(map(str, PRIORS))} under which a held-out fifth of the labels is most "
            "probable."
        ),
    ] = "auto"
    prior_omega: Annotated[
        tuple[float, float],
        _pair(),
        Doc(
            "a and b, pseudo-labels of every annotator from the common and from the own confusion: the mode under a "
            "Beta(1 + a, 1 + b) prior. Not used by ``omega='annotation'``."
        ),
    ] = (1.0, 1.0)

    # ---------------------------------------------------------------- the prior and the starts

    def _numbers(self, crowd: Annotations) -> float:
        return super()._numbers(crowd) + 10 * crowd.n_annotations * crowd.n_classes  # where each label comes from

    def learn(self, engine: Engine[Mixture]) -> FloatArray:
        """Choose the prior, if that is asked for, and run EM."""
        prior = self.prior_individual
        self.prior_individual_ = self._strongest(engine, "prior_individual", PRIORS) if prior == "auto" else prior
        return super().learn(engine)

    @property
    def _alpha(self) -> float:
        return self.prior_individual_ if isinstance(self.prior_individual, str) else self.prior_individual

    def _starts(self) -> list[Start]:
        """The solution of Dawid and Skene instead of the votes, and random starts if there are ``n_restarts``."""
        votes, *random = super()._starts()
        solution = Start("dawid-skene", lambda engine: posterior_by_dawid_skene(engine.votes, engine.known))
        return [solution if self.omega == "annotator" else votes, *random]

    # ---------------------------------------------------------------- the steps

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Mixture | None) -> Mixture:
        split = self._split_by_annotator if self.omega == "annotator" else self._split_by_annotation
        common, own, omega = split(votes, expectation, previous)
        pi_g, pi_r = normalised(common.sum(0) + self.prior_common), normalised(own + self._alpha)
        return Mixture(expectation.shares / max(expectation.n_tasks, 1), pi_g, pi_r, omega)

    def _split_by_annotator(self, votes: Votes, expectation: Expectation, previous: Mixture | None) -> Split:
        counts = expectation.counts
        common = counts * (START if previous is None else share_of_common(*_sources(previous)))
        return Split(common, counts - common, updated_omega(common, counts, *self.prior_omega))

    def _split_by_annotation(self, votes: Votes, expectation: Expectation, previous: Mixture | None) -> Split:
        posterior = expectation.posterior
        q_s = np.full(votes.annotations.n_annotations, 0.5)
        if previous is not None:
            q_z = posterior[votes.annotations.tasks]
            common, own = ((q_z * column).sum(1) for column in _columns(votes, previous))
            q_s = share_of_common(previous.omega, common, own)
        return Split(votes.counts(posterior, q_s), votes.counts(posterior, 1 - q_s), q_s)

    def _log_parts(self, parameters: Mixture) -> tuple[FloatArray, FloatArray]:
        return logarithm(parameters.rho), logarithm(mixture(*_sources(parameters)))

    def _log_joint(self, votes: Votes, parameters: Mixture) -> FloatArray:
        if self.omega == "annotator":
            return super()._log_joint(votes, parameters)
        mixed = mixture(parameters.omega, *_columns(votes, parameters))
        return logarithm(parameters.rho) + grouped_sums(votes.annotations.tasks, logarithm(mixed), votes.shape[0])

    def _log_prior(self, parameters: Mixture) -> float:
        _, pi_g, pi_r, omega = parameters
        matrices = scipy.special.xlogy(self.prior_common, pi_g).sum() + scipy.special.xlogy(self._alpha, pi_r).sum()
        if self.omega == "annotation":
            return float(matrices)
        a, b = self.prior_omega
        return float(matrices + scipy.special.xlogy(a, omega).sum() + scipy.special.xlogy(b, 1 - omega).sum())

    def _adopt(self, votes: Votes, parameters: Mixture) -> None:
        self.class_prior_, self.common_confusion_, self.annotator_confusion_, omega = parameters
        annotators = votes.annotations.annotators
        if self.omega == "annotation":
            self.annotation_omega_, self.omega_ = omega, grouped_means(annotators, omega, votes.shape[1], empty=0.5)
        else:
            self.annotation_omega_, self.omega_ = omega[annotators], omega
        self.confusion_ = mixture(self.omega_, self.common_confusion_, self.annotator_confusion_)


def _sources(parameters: Mixture) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Omega, and the two confusions that it mixes."""
    return parameters.omega, parameters.pi_g, parameters.pi_r


def _columns(votes: Votes, parameters: Mixture) -> tuple[FloatArray, FloatArray]:
    """(P, C) twice: P(the label | true c) by the common confusion and by its annotator's own."""
    annotators, labels = votes.annotations.annotators, votes.annotations.labels
    return parameters.pi_g.T[labels], parameters.pi_r[annotators, :, labels]


# Back-off: an annotator's own matrix where there are labels to learn it from, and the crowd's where there are few.

INNER_STEPS = 5
"""Fixed-point steps on the communities' matrices in every iteration."""
PSEUDO_MEMBERS = 0.1
"""Annotators added to every community, so that none has a share of zero."""


class Communities(NamedTuple):
    """Distributions of the model with K communities of annotators.

    Attributes
    ----------
    rho : (C,)
        Dirichlet parameters of the class shares.
    tau : (K,)
        Shares of the communities.
    alpha : (K, C, C)
        Dirichlet parameters of the rows of a member's matrix.
    membership : (R, K)
        q(annotator r belongs to community k).
    counts : (R, C, C)
        Expected labels of every annotator, which are added to alpha.
    """

    rho: FloatArray
    tau: FloatArray
    alpha: FloatArray
    membership: FloatArray
    counts: FloatArray


@register("backoff")
@parameters
class Backoff(MatrixAggregator[Communities]):
    r"""Own confusion matrices that back off to the crowd's where labels are few, with a learned strength.

    The rows of an annotator's matrix are drawn from Dirichlet distributions around the crowd's matrix. Their parameters
    :math:`\alpha_{cl}` are learned: their proportions are the crowd's confusion, and their sum says how many labels of
    the annotator's own outweigh it (:math:`n^r_{cl} = \sum_{i : y_i^r = l} q_i(c)`):

    .. math::
        \pi^r_{c \cdot} \sim \mathrm{Dirichlet}(\alpha_{c \cdot}), \qquad
        \mathrm E\, \pi^r_{cl} = \frac{\alpha_{cl} + n^r_{cl}}{\sum_{l'} \alpha_{cl'} + n^r_{cl'}}

    .. math::
        q_i(c) \propto \exp \Bigl( \mathrm E \log \rho_c + \sum_r \mathrm E \log \pi^r_{c, y_i^r} \Bigr), \qquad
        \alpha_{cl} \leftarrow \frac{\alpha_{cl} \sum_r [\psi(\alpha_{cl} + n^r_{cl}) - \psi(\alpha_{cl})] + s\, a_{cl}}
        {\sum_r [\psi(\alpha_{c \cdot} + n^r_{c \cdot}) - \psi(\alpha_{c \cdot})] + s}

    The second is a fixed-point step of the Dirichlet-multinomial likelihood with a Gamma prior of mode a. The objective
    is the evidence lower bound, with the prior of :math:`\alpha`; it never falls. ``bayes-dawid-skene`` is the same
    model with a fixed :math:`\alpha`.

    Use it if nothing speaks for another one: on public crowds no other single model is more accurate on average, and it
    is never far below the best. It gains most over ``dawid-skene`` where annotators have few labels of a class and err
    alike. Where annotators are of several kinds, ``cbcc`` has one such distribution for each kind.

    Attributes
    ----------
    common_alpha_ : (C, C)
        :math:`\alpha`; a row's sum is the number of labels of a class that an annotator's own matrix needs to outweigh
        the crowd's.
    confusion_ : (R, C, C)
        Mean of :math:`\pi`: ``confusion_[r, c, l]`` = P(observed l | true c).
    class_prior_ : (C,)
    skills_ : (R,)
        Expected share of right labels, sum_c rho_c confusion_[r, c, c].

    References
    ----------
    Kamar, Kapoor and Horvitz (2015). Identifying and accounting for task-dependent bias in crowdsourcing. HCOMP.

    Minka (2000). Estimating a Dirichlet distribution. MIT.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]] * 3)
    >>> Backoff().fit(crowd).labels_[:4].tolist()
    [0, 1, 0, 1]
    """

    n_iter: int = 500
    tol: float = 1e-6

    prior_right: Annotated[float, number(above=0), Doc(r"Mode of :math:`\alpha_{cc}` beforehand, on the diagonal.")] = (
        3.0
    )
    prior_wrong: Annotated[
        float, number(above=0), Doc(r"Mode of :math:`\alpha_{cl}` beforehand, off the diagonal.")
    ] = 1.0
    prior_strength: Annotated[
        float,
        number(above=0),
        Doc(r"s, how firmly :math:`\alpha` is held near its mode: a Gamma(:math:`1 + s a_{cl}, s`) prior."),
    ] = 1.0

    # ---------------------------------------------------------------- the steps

    def _first_parameters(self, votes: Votes, expectation: Expectation, rng: np.random.Generator | None) -> Communities:
        return self._fitted(expectation, *self._start_of_communities(votes, expectation, rng))

    def _start_of_communities(
        self, votes: Votes, expectation: Expectation, rng: np.random.Generator | None
    ) -> tuple[FloatArray, FloatArray]:
        """First memberships (R, K) and Dirichlet parameters (K, C, C)."""
        return np.ones((votes.shape[1], 1)), self._modes(votes.shape[2])[None]

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Communities | None) -> Communities:
        if previous is None:
            return self._first_parameters(votes, expectation, None)
        return self._fitted(expectation, self._memberships(previous, expectation.counts), previous.alpha)

    def _memberships(self, previous: Communities, counts: FloatArray) -> FloatArray:
        """(R, K) who belongs where, by how probable each community makes an annotator's labels."""
        return memberships(previous.tau, previous.alpha, counts)

    def _fitted(self, expectation: Expectation, membership: FloatArray, alpha: FloatArray) -> Communities:
        """Better matrices of the communities, and the other distributions that fit the expectation best."""
        counts = np.ascontiguousarray(expectation.counts)
        for _ in range(INNER_STEPS):
            alpha = self._better_alpha(alpha, membership, counts)
        tau = normalised(membership.sum(0) + PSEUDO_MEMBERS)
        return Communities(1.0 + expectation.shares, tau, alpha, membership, counts)

    def _better_alpha(self, alpha: FloatArray, membership: FloatArray, counts: FloatArray) -> FloatArray:
        """One step of Minka's fixed-point iteration, which never lowers the objective."""
        gained, spent = fixed_point(alpha, membership, counts)
        modes, strength = self._modes(alpha.shape[-1]), self.prior_strength
        return np.asarray((gained + strength * modes) / (spent[:, :, None] + strength))

    def _log_parts(self, parameters: Communities) -> tuple[FloatArray, FloatArray]:
        own = expected_log(parameters.alpha[None] + parameters.counts[:, None])
        return expected_log(parameters.rho), np.einsum("rk,rkcl->rcl", parameters.membership, own)

    def _log_prior(self, parameters: Communities) -> float:
        """The part of the evidence lower bound that is not of the tasks, and the prior of alpha and tau."""
        rho, tau, alpha, membership, counts = parameters
        own = alpha[None] + counts[:, None]
        apart = (membership * divergence(own, alpha[None]).sum(-1)).sum() + divergence(rho, np.ones(len(rho)))
        apart += scipy.special.rel_entr(membership, tau).sum()
        return float(self._log_prior_of(alpha) + PSEUDO_MEMBERS * np.log(tau).sum() - apart)

    def _log_prior_of(self, alpha: FloatArray) -> float:
        return float(self.prior_strength * (scipy.special.xlogy(self._modes(alpha.shape[-1]), alpha) - alpha).sum())

    def _modes(self, C: int) -> FloatArray:
        return mostly_right(C, self.prior_right, self.prior_wrong)

    def _adopt(self, votes: Votes, parameters: Communities) -> None:
        rho, _, alpha, membership, counts = parameters
        self.class_prior_ = normalised(rho)
        self.common_alpha_ = alpha[0]
        own = normalised(alpha[None] + counts[:, None])
        self.confusion_ = np.einsum("rk,rkcl->rcl", membership, own)


def fixed_point(alpha: FloatArray, membership: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sums of Minka's fixed-point iteration, whose ratio is the next alpha: (K, C, C) by cell and (K, C) by row."""
    cells = scipy.special.digamma(alpha[None] + counts[:, None]) - scipy.special.digamma(alpha)[None]
    totals = alpha.sum(-1)
    rows = scipy.special.digamma(totals[None] + counts.sum(-1)[:, None]) - scipy.special.digamma(totals)[None]
    gained = alpha * np.einsum("rk,rkcl->kcl", membership, cells)
    return np.asarray(gained), np.einsum("rk,rkc->kc", membership, rows)


def memberships(tau: FloatArray, alpha: FloatArray, counts: FloatArray) -> FloatArray:
    """(R, K) q(annotator r belongs to community k), given the communities' shares and Dirichlet parameters."""
    return softmax(np.log(tau) + _log_evidence(alpha, counts))


def _log_evidence(alpha: FloatArray, counts: FloatArray) -> FloatArray:
    """(R, K) logarithm of the probability of an annotator's expected labels in each community."""
    return np.asarray((log_normaliser(alpha[None] + counts[:, None]) - log_normaliser(alpha)[None]).sum(-1))
