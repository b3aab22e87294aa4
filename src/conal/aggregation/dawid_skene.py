"""Dawid and Skene's model and its relatives: a confusion matrix per annotator, true labels as latent variables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from conal._arrays import FloatArray
from conal.aggregation.base import register
from conal.aggregation.counts import (
    Votes,
    divergence,
    expected_log,
    logarithm,
    mostly_right,
    normalised,
    one_coin,
)
from conal.aggregation.em import MatrixAggregator, Run, extrapolated
from conal.aggregation.engines import CompiledEngine, Engine, Expectation, SparseEngine, Sums
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import ConvergenceWarning
from conal.parameters import Doc, number, parameters

# Dawid and Skene's model: a confusion matrix per annotator, and the true labels as latent variables.

INFERRED_TASKS = 50
"""Tasks that the class shares of inferred labels count beside those of known truth."""
SMOOTHING = 0.5
"""Pseudo-labels in every cell by inferred labels, so that true labels meet no zero."""


class Confusions(NamedTuple):
    """Class prior (C,) and confusion matrices (R, C, C), ``pi_r[r, c, l] = P(observe l | true c)``."""

    rho: FloatArray
    pi_r: FloatArray


@register("dawid-skene")
@parameters
class DawidSkene(MatrixAggregator[Confusions]):
    r"""A confusion matrix for every annotator, by maximum likelihood and EM.

    A task's class is drawn from :math:`\rho`. Annotator r labels class c as l with probability :math:`\pi^r_{cl}`:

    .. math::
        q_i(c) \propto \rho_c \prod_{r} \pi^r_{c, y_i^r}, \qquad
        \pi^r_{cl} = \frac{\sum_{i : y_i^r = l} q_i(c) + \alpha}{\sum_{i, l'} q_i(c) [y_i^r = l'] + C \alpha}, \qquad
        \rho_c = \tfrac1N \sum_i q_i(c)

    Cost per iteration scales with the number of labels times classes.

    True labels of some tasks are certain in every step. Where annotators err together, EM takes shared mistakes for the
    truth, and a few true labels among many inferred ones change little. In the end they therefore count anew: with
    :math:`t^r_{cl}` the labels on tasks of known truth, and :math:`\hat\pi^r, \hat\rho` by the other tasks,

    .. math::
        \pi^r_{cl} = \frac{t^r_{cl} + m \hat\pi^r_{cl}}{\sum_{l'} t^r_{cl'} + m}, \qquad
        \rho_c \propto \sum_{i \text{ known}} [z_i = c] + 50 \hat\rho_c

    (m = ``inferred_labels``) and the posterior follows from these.

    Use it where annotators gave many labels each and confuse particular classes: it is fast, and on public crowds no
    other single model is more accurate on average. Where annotators have few labels of a class, ``backoff`` borrows
    from the crowd; where tasks mislead many, ``minimax-entropy`` and ``multidimensional`` describe the tasks too.

    Attributes
    ----------
    confusion_ : (R, C, C)
        ``confusion_[r, c, l]`` = P(observed l | true c): true before observed.
    class_prior_ : (C,)
    skills_ : (R,)
        Expected share of right labels, sum_c rho_c pi_r[c, c].

    References
    ----------
    Dawid and Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm. Applied
    Statistics 28, 20-28.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    >>> DawidSkene().fit(crowd).labels_.tolist()
    [0, 1, 0, 1]
    """

    sums_suffice = True
    remedies: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"class_prior": "labels"},
        {"class_prior": "labels", "prior": 1.0},
    )

    prior: Annotated[
        float,
        number(at_least=0),
        Doc(
            r"Number of pseudo-labels :math:`\alpha` in every cell: the mode under a Dirichlet(:math:`1 + \alpha`) "
            r"prior on every row. 0 is maximum likelihood. A row without labels is uniform. A small prior does not "
            r"keep a rare class from taking hard tasks, it helps it to; ``guard`` notices."
        ),
    ] = 0.0
    accelerate: Annotated[
        bool,
        Doc(
            "Try a longer step after every iteration (SQUAREM), and take it unless the objective falls. It reaches "
            "the same result in fewer iterations. With ``tol=0``, exactly ``n_iter`` plain steps are made."
        ),
    ] = True

    class_prior: Annotated[
        Literal["estimate", "labels"],
        Doc(
            r"'estimate' takes :math:`\rho_c = \frac1N \sum_i q_i(c)`. 'labels' takes the shares of the labels, for "
            "crowds where the estimate puts all tasks into one class."
        ),
    ] = "estimate"

    inferred_labels: Annotated[
        float | None,
        number(above=0),
        Doc(
            "Number of labels m that every row of a matrix by inferred labels counts in the end, beside the labels on "
            "tasks of known truth; None leaves it at EM, where a true label counts as much as an inferred one."
        ),
    ] = 15.0

    def engine(self, votes: Votes, known: npt.NDArray[np.int64]) -> Engine[Confusions]:
        """A compiled pass if the crowd is large and there is a compiler, sparse products otherwise."""
        return CompiledEngine(votes, known) if CompiledEngine.pays(votes) else super().engine(votes, known)

    def _keep(self, engine: Engine[Confusions], best: Run[Confusions]) -> FloatArray:
        posterior = super()._keep(engine, best)
        if self.inferred_labels is None:
            return posterior
        truth = engine.start(np.zeros_like(posterior)).sums  # of tasks whose class is known, in all processes
        if not truth.shares.any():
            return posterior
        parameters = _beside_truth(truth, best.expectation.sums, self.inferred_labels)
        self._adopt(engine.votes, parameters)
        return engine.expect(parameters).posterior

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Confusions | None) -> Confusions:
        counts, shares, n_tasks = expectation.sums
        if self.class_prior == "labels":
            given = counts.sum((0, 1))  # summed over true classes, so the labels of all processes
            return Confusions(given / max(given.sum(), 1), self._confusion(counts))
        return Confusions(shares / max(n_tasks, 1), self._confusion(counts))

    def _extrapolation(self) -> Callable[[Confusions, Confusions, Confusions], Confusions] | None:
        return (lambda *three: Confusions(*extrapolated(*three))) if self.accelerate else None

    def _confusion(self, counts: FloatArray) -> FloatArray:
        return normalised(counts + self.prior)

    def _log_parts(self, parameters: Confusions) -> tuple[FloatArray, FloatArray]:
        return logarithm(parameters.rho), logarithm(parameters.pi_r)

    def _log_prior(self, parameters: Confusions) -> float:
        return float(scipy.special.xlogy(self.prior, parameters.pi_r).sum()) if self.prior else 0.0

    def _adopt(self, votes: Votes, parameters: Confusions) -> None:
        self.class_prior_, self.confusion_ = parameters


def _beside_truth(truth: Sums, everything: Sums, inferred_labels: float) -> Confusions:
    """Matrices and class prior by tasks of known truth, drawn to those by all other tasks."""
    inferred = normalised(everything.counts - truth.counts + SMOOTHING)
    counts = truth.counts + inferred_labels * inferred
    shares = truth.shares + INFERRED_TASKS * normalised(everything.shares - truth.shares + SMOOTHING)
    return Confusions(normalised(shares), normalised(counts))


@register("one-coin")
@parameters
class OneCoinDawidSkene(DawidSkene):
    r"""Dawid-Skene with one number per annotator: right with probability :math:`p_r`.

    A wrong label is any of the other classes, with equal probability:

    .. math::
        \pi^r_{cl} = p_r \text{ if } l = c \text{ else } \frac{1 - p_r}{C - 1}, \qquad
        p_r = \frac{\sum_i q_i(y_i^r) + \alpha}{n_r + 2 \alpha}

    It has far fewer parameters. Use it where annotators gave few labels and no class is confused with a particular
    other one. Elsewhere it loses classes: on juries of language models it is among the least accurate.
    """

    remedies = ({"class_prior": "labels"},)

    inferred_labels: float | None = None

    prior: Annotated[
        float,
        number(at_least=0),
        Doc(
            r"Number of pseudo-labels :math:`\alpha`, right and wrong alike: the mode under a "
            r"Beta(:math:`1 + \alpha, 1 + \alpha`) prior."
        ),
    ] = 0.0

    def _confusion(self, counts: FloatArray) -> FloatArray:
        C = counts.shape[-1]
        right = np.einsum("rcc->r", counts) + self.prior
        total = counts.sum((1, 2)) + 2 * self.prior
        return one_coin(np.where(total > 0, right / np.where(total > 0, total, 1.0), 1.0 / C), C)

    def _log_prior(self, parameters: Confusions) -> float:
        skill = parameters.pi_r[:, 0, 0]
        return float((scipy.special.xlogy(self.prior, skill) + scipy.special.xlogy(self.prior, 1 - skill)).sum())


def posterior_by_dawid_skene(votes: Votes, known: npt.NDArray[np.int64], prior: float = 0.0) -> FloatArray:
    """(N, C) posterior of Dawid and Skene's model, as a start for others; whether it has converged does not matter."""
    model = DawidSkene(prior=prior, inferred_labels=None, verbose=False)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return model.learn(model.engine(votes, known))


# Dawid and Skene's model with the uncertainty of its parameters: variational Bayes.


class Beliefs(NamedTuple):
    """Dirichlet parameters of the class prior, ``rho`` (C,), and of every row of the matrices, ``pi_r`` (R, C, C)."""

    rho: FloatArray
    pi_r: FloatArray


@register("bayes-dawid-skene")
@parameters
class BayesianDawidSkene(MatrixAggregator[Beliefs]):
    r"""Dawid-Skene with distributions over the confusion matrices: Bayesian classifier combination.

    Maximum likelihood trusts the matrix of an annotator with two labels as much as that of one with two thousand. Here
    every row of a matrix has a distribution, which is wide where labels are few, and predictions average over it:

    .. math::
        \pi^r_{c \cdot} \sim \mathrm{Dirichlet}(\alpha_{c \cdot}), \qquad
        \alpha_{cl} = \alpha_\text{right} \text{ if } l = c \text{ else } \alpha_\text{wrong}, \qquad
        \rho \sim \mathrm{Dirichlet}(1)

    .. math::
        \hat\alpha^r_{cl} = \alpha_{cl} + \sum_{i : y_i^r = l} q_i(c), \qquad
        q_i(c) \propto \exp \Bigl( \mathrm E \log \rho_c + \sum_r \mathrm E \log \pi^r_{c, y_i^r} \Bigr), \qquad
        \mathrm E \log \pi^r_{cl} = \psi(\hat\alpha^r_{cl}) - \psi \bigl( \textstyle\sum_{l'} \hat\alpha^r_{cl'} \bigr)

    The objective is the evidence lower bound; it never falls. Use it where annotators gave few labels each: on
    simulated crowds with two or three labels per task it is more accurate than ``dawid-skene``. Not with many classes
    and weak annotators, nor where many make the same mistakes: its fixed prior holds matrices near "mostly right".
    ``backoff`` learns the prior.

    Attributes
    ----------
    confusion_ : (R, C, C)
        ``confusion_[r, c, l]`` = mean of P(observed l | true c): true before observed.
    class_prior_ : (C,)
    skills_ : (R,)
        Expected share of right labels, sum_c rho_c confusion_[r, c, c].

    References
    ----------
    Kim and Ghahramani (2012). Bayesian classifier combination. AISTATS.

    Simpson, Roberts, Psorakis and Smith (2013). Dynamic Bayesian combination of multiple imperfect classifiers.
    Decision Making and Imperfection, Springer.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    >>> BayesianDawidSkene().fit(crowd).labels_.tolist()
    [0, 1, 0, 1]
    """

    n_iter: int = 500
    tol: float = 1e-6

    prior_right: Annotated[
        float,
        number(above=0),
        Doc(r":math:`\alpha_\text{right}`, on the diagonal. The defaults say that a label is more likely right."),
    ] = 3.0
    prior_wrong: Annotated[float, number(above=0), Doc(r":math:`\alpha_\text{wrong}`, off the diagonal.")] = 1.0

    def _m_step(self, votes: Votes, expectation: Expectation, previous: Beliefs | None) -> Beliefs:
        prior = mostly_right(votes.shape[2], self.prior_right, self.prior_wrong)
        return Beliefs(1.0 + expectation.shares, prior + expectation.counts)

    def _log_parts(self, parameters: Beliefs) -> tuple[FloatArray, FloatArray]:
        return expected_log(parameters.rho), expected_log(parameters.pi_r)

    def _log_prior(self, parameters: Beliefs) -> float:
        """The parameters' part of the evidence lower bound: -KL of their distributions from the priors."""
        C = len(parameters.rho)
        prior = mostly_right(C, self.prior_right, self.prior_wrong)
        return -float(divergence(parameters.rho, np.ones(C)) + divergence(parameters.pi_r, prior).sum())

    def _adopt(self, votes: Votes, parameters: Beliefs) -> None:
        self.class_prior_, self.confusion_ = (part / part.sum(-1, keepdims=True) for part in parameters)


# Fast Dawid-Skene: every task counts for its most probable class alone.


class HardEngine(SparseEngine[Confusions]):
    """E-steps that give every task its most probable class; the evidence is that of these classes."""

    def start(self, posterior: FloatArray) -> Expectation:
        """The most probable classes by a guess at the posterior."""
        return super().start(np.eye(posterior.shape[1])[posterior.argmax(1)])

    def expect(self, parameters: Confusions) -> Expectation:
        """The most probable classes under the parameters."""
        joint = self.log_joint(parameters)
        codes = np.where(self.known == MISSING, joint.argmax(1), self.known)
        evidence = joint[np.arange(len(joint)), codes].sum()
        return self._expectation(float(evidence), np.eye(joint.shape[1])[codes])


@register("fast-dawid-skene")
@parameters
class FastDawidSkene(DawidSkene):
    r"""Dawid-Skene with hard assignments, which ends after a few iterations.

    Each iteration counts every task for its most probable class alone, from the majority vote on:

    .. math::
        \hat z_i = \arg\max_c \rho_c \prod_r \pi^r_{c, y_i^r}, \qquad
        \pi^r_{cl} = \frac{\sum_{i : y_i^r = l} [\hat z_i = c] + \alpha}{\sum_{i : r} [\hat z_i = c] + C \alpha},
        \qquad \rho_c = \tfrac1N \sum_i [\hat z_i = c]

    The objective is the likelihood of the labels together with the assigned classes,
    :math:`\sum_i \log \rho_{\hat z_i} \prod_r \pi^r_{\hat z_i, y_i^r}`, plus the log-prior; it never falls. It ends
    when no label changes any more.

    Labels stay nearer to the majority vote than those of ``dawid-skene``, which is rarely slow here: its steps are
    compiled and accelerated. Use it as a quick first look, not where annotators are weak, as on juries of language
    models.

    Attributes
    ----------
    probas_ : (n_tasks, n_classes)
        The posterior under the last parameters; its most probable classes are the assigned ones.
    confusion_, class_prior_, skills_
        As for :class:`DawidSkene`.

    References
    ----------
    Sinha, Rao and Balasubramanian (2018). Fast Dawid-Skene: a fast vote aggregation scheme for sentiment
    classification. KDD workshop on issues of sentiment discovery and opinion mining.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    >>> FastDawidSkene().fit(crowd).labels_.tolist()
    [0, 1, 0, 1]
    """

    sums_suffice = False

    accelerate: bool = False
    inferred_labels: float | None = None

    def engine(self, votes: Votes, known: npt.NDArray[np.int64]) -> Engine[Confusions]:
        """Hard assignments by sparse products."""
        return HardEngine(votes, known, partial(self._log_joint, votes))

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        super()._aggregate(crowd, known)
        soft = MatrixAggregator.engine(self, Votes(crowd), known)
        return soft.expect(Confusions(self.class_prior_, self.confusion_)).posterior
