"""Common and individual confusion from labels alone: the paper's noise model, fitted by EM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from conal.aggregation.arrays import FloatArray
from conal.aggregation.base import register
from conal.aggregation.dawid_skene import posterior_by_dawid_skene
from conal.aggregation.drift import LogParts
from conal.aggregation.em import Start
from conal.aggregation.engines import Engine, Expectation
from conal.aggregation.held_out import TRIAL, Mask, held_out_scores, strongest
from conal.aggregation.matrices import PSEUDO_LABELS, MatrixAggregator
from conal.aggregation.two_sources import mixture, rows, share_of_common, updated_omega
from conal.aggregation.votes import Votes
from conal.data.annotations import Annotations
from conal.parameters import Constraint, either, number, one_of, parameter

__all__ = ["CommonConfusion"]

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

    n_iter = 500
    parameters_type = Mixture
    by_annotator = ("pi_r", "omega")

    omega: Literal["annotator", "annotation"] = parameter(
        default="annotator",
        must_be=one_of("annotator", "annotation"),
        help="'annotator' is the model above. 'annotation' is Appendix B to the letter, for comparison: an omega for "
        r"every label, set to :math:`q(s_i^r = 1) \propto \omega_i^r \sum_c q_i(c) \pi^g_{c, y}`, and counts weighted "
        "by q(z) q(s) as if the two were independent. This step does not maximise the objective, which may "
        "(rarely) fall, and an omega of a single label tends to 0 or 1: nearly all of them on "
        "``conal.datasets.synthetic``, where fewer labels are right.",
    )
    prior_common: float = parameter(
        default=0.1,
        must_be=number(at_least=0),
        help=r"Number of pseudo-labels :math:`\alpha_g` in every cell of the common matrix.",
    )
    prior_individual: float | Literal["auto"] = parameter(
        default="auto",
        must_be=either(one_of("auto"), number(at_least=0)),
        help=r"Number of pseudo-labels :math:`\alpha_r` in every cell of an annotator's own matrix; the higher, the "
        "more labels it takes to distinguish the annotator from the crowd. Both matrices are modes under "
        r"Dirichlet(:math:`1 + \alpha`) priors; 0 is maximum likelihood, and a row without labels is uniform. 'auto' "
        f"takes the one of {', '.join(map(str, PRIORS))} under which a held-out fifth of the labels is most probable.",
    )
    prior_omega: tuple[float, float] = parameter(
        default=(1.0, 1.0),
        must_be=_pair(),
        help="a and b, pseudo-labels of every annotator from the common and from the own confusion: the mode under a "
        "Beta(1 + a, 1 + b) prior. Not used by ``omega='annotation'``.",
    )

    # ---------------------------------------------------------------- the prior and the starts

    def _numbers(self, crowd: Annotations) -> float:
        return super()._numbers(crowd) + 10 * crowd.n_annotations * crowd.n_classes  # where each label comes from

    def learn(self, engine: Engine[Mixture]) -> FloatArray:
        """Choose the prior, if that is asked for, and run EM."""
        self.prior_individual_ = (
            self._chosen_prior(engine) if self.prior_individual == "auto" else self.prior_individual
        )
        return super().learn(engine)

    def _chosen_prior(self, engine: Engine[Mixture]) -> float:
        crowd = engine.votes.annotations

        def scores(prior: float, rest: Annotations, held_out: Mask) -> FloatArray:
            trial = type(self)(**self.get_params() | TRIAL | {"prior_individual": prior})
            posterior = trial.learn(trial.engine(Votes(rest), engine.known))
            return held_out_scores(crowd, held_out, posterior, trial.confusion_)

        return strongest(crowd, PRIORS, scores, self.seed)

    @property
    def _alpha(self) -> float:
        return self.prior_individual_ if isinstance(self.prior_individual, str) else self.prior_individual

    def _starts(self) -> list[Start[Mixture]]:
        """The solution of Dawid and Skene instead of the votes, and random starts if there are ``n_restarts``."""
        votes, *random = super()._starts()
        return [Start("dawid-skene", self._from_dawid_skene) if self.omega == "annotator" else votes, *random]

    def _from_dawid_skene(self, engine: Engine[Mixture]) -> Mixture:
        return self._from(engine, posterior_by_dawid_skene(engine.votes, engine.known))

    # ---------------------------------------------------------------- the steps

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Mixture | None) -> Mixture:
        split = self._split_by_annotator if self.omega == "annotator" else self._split_by_annotation
        common, own, omega = split(votes, expectation, previous)
        pi_g = rows(common.sum(0), self.prior_common)
        return Mixture(expectation.shares / max(expectation.n_tasks, 1), pi_g, rows(own, self._alpha), omega)

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

    def _log_parts(self, parameters: Mixture) -> LogParts:
        with np.errstate(divide="ignore"):  # a probability of zero rules a class out
            return LogParts(np.log(parameters.rho), np.log(mixture(*_sources(parameters))))

    def _log_joint(self, votes: Votes, parameters: Mixture) -> FloatArray:
        if self.omega == "annotator":
            return super()._log_joint(votes, parameters)
        with np.errstate(divide="ignore"):
            mixed = mixture(parameters.omega, *_columns(votes, parameters))
            return np.asarray(np.log(parameters.rho) + _sum_by_task(votes, np.log(mixed)))

    def _newcomers(self, parameters: Mixture, counts: FloatArray, n: int) -> Mixture:
        """The crowd's share of common labels, and one matrix by all that are not: together, the crowd's confusion."""
        common = counts * share_of_common(*_sources(parameters))
        omega = updated_omega(common.sum(0)[None], counts.sum(0)[None], *self.prior_omega)
        own = np.repeat(rows((counts - common).sum(0), PSEUDO_LABELS)[None], n, axis=0)
        return parameters._replace(
            pi_r=np.concatenate([parameters.pi_r, own]), omega=np.append(parameters.omega, np.repeat(omega, n))
        )

    def _choices(self) -> dict[str, Any]:
        return {"prior_individual": float(self.prior_individual_)}

    def _restore_choices(self, choices: Mapping[str, Any]) -> None:
        self.prior_individual_ = float(choices["prior_individual"])

    def _why_no_update(self) -> str | None:
        return None if self.omega == "annotator" else "omega='annotation' has a number for every label"

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
            self.annotation_omega_, self.omega_ = omega, _means(omega, annotators, votes.shape[1])
        else:
            self.annotation_omega_, self.omega_ = omega[annotators], omega
        self.confusion_ = mixture(self.omega_, self.common_confusion_, self.annotator_confusion_)
        self.skills_ = np.einsum("c,rcc->r", self.class_prior_, self.confusion_)


def _sources(parameters: Mixture) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Omega, and the two confusions that it mixes."""
    return parameters.omega, parameters.pi_g, parameters.pi_r


def _columns(votes: Votes, parameters: Mixture) -> tuple[FloatArray, FloatArray]:
    """(P, C) twice: P(the label | true c) by the common confusion and by its annotator's own."""
    annotators, labels = votes.annotations.annotators, votes.annotations.labels
    return parameters.pi_g.T[labels], parameters.pi_r[annotators, :, labels]


def _sum_by_task(votes: Votes, values: FloatArray) -> FloatArray:
    """(N, C) sums over a task's labels of values (P, C)."""
    P = len(values)
    labels_of = scipy.sparse.csr_array((np.ones(P), np.arange(P), votes.annotations.indptr), shape=(votes.shape[0], P))
    return np.asarray(labels_of @ values)


def _means(values: FloatArray, annotators: npt.NDArray[np.int32], n_annotators: int) -> FloatArray:
    """(R,) means over an annotator's labels; one half without any."""
    given = np.bincount(annotators, minlength=n_annotators)
    totals = np.bincount(annotators, weights=values, minlength=n_annotators)
    return np.where(given > 0, totals / np.maximum(given, 1), 0.5)
