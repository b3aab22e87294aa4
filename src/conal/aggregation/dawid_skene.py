"""Dawid and Skene's model: a confusion matrix per annotator, and the true labels as latent variables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from conal.aggregation.arrays import FloatArray, normalised, softmax
from conal.aggregation.base import register
from conal.aggregation.drift import LogParts
from conal.aggregation.em import Run, Start
from conal.aggregation.engines import CompiledEngine, Engine, Expectation, Sums
from conal.aggregation.matrices import PSEUDO_LABELS, Learned, MatrixAggregator
from conal.aggregation.spectral import NoMoments, spectral_confusion
from conal.aggregation.squarem import extrapolated
from conal.aggregation.votes import Votes
from conal.errors import ConvergenceWarning, DataWarning, warn
from conal.parameters import flag, number, one_of, optional, parameter

__all__ = ["DawidSkene", "OneCoinDawidSkene", "posterior_by_dawid_skene"]


INFERRED_TASKS = 50
"""Tasks that the class shares of inferred labels count beside those of known truth."""
SMOOTHING = 0.5
"""Pseudo-labels in every cell by inferred labels, so that true labels meet no zero."""
DRAWN = 1.0
"""Labels in every row of a matrix by which it is drawn to the crowd's where an update begins."""


class Confusions(NamedTuple):
    """Class prior (C,) and confusion matrices (R, C, C), ``pi_r[r, c, l] = P(observe l | true c)``."""

    rho: FloatArray
    pi_r: FloatArray


@register("dawid-skene")
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
    from the crowd; where tasks mislead many, ``minimax-entropy`` and ``multidimensional`` describe the tasks too. The
    spectral start mostly leads to the same labels as the votes, and takes longer; try it where you suspect the
    majority.

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

    Zhang, Chen, Zhou and Jordan (2016). Spectral methods meet EM: a provably optimal algorithm for crowdsourcing.
    Journal of Machine Learning Research 17 (``start="spectral"``).

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    >>> DawidSkene().fit(crowd).labels_.tolist()
    [0, 1, 0, 1]
    """

    sums_suffice = True
    parameters_type = Confusions
    remedies: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"class_prior": "labels"},
        {"class_prior": "labels", "prior": 1.0},
    )

    prior: float = parameter(
        default=0.0,
        must_be=number(at_least=0),
        help=r"Number of pseudo-labels :math:`\alpha` in every cell: the mode under a Dirichlet(:math:`1 + \alpha`) "
        "prior on every row. 0 is maximum likelihood. A row without labels is uniform. A small prior does not keep a "
        "rare class from taking hard tasks, it helps it to; ``guard`` notices.",
    )
    accelerate: bool = parameter(
        default=True,
        must_be=flag(),
        help="Try a longer step after every iteration (SQUAREM), and take it unless the objective falls. It reaches "
        "the same result in fewer iterations. With ``tol=0``, exactly ``n_iter`` plain steps are made.",
    )

    class_prior: Literal["estimate", "labels"] = parameter(
        default="estimate",
        must_be=one_of("estimate", "labels"),
        help=r"'estimate' takes :math:`\rho_c = \frac1N \sum_i q_i(c)`. 'labels' takes the shares of the labels, for "
        "crowds where the estimate puts all tasks into one class.",
    )

    start: Literal["votes", "spectral"] = parameter(
        default="votes",
        must_be=one_of("votes", "spectral"),
        help="Where the first run starts. 'votes': the vote shares. 'spectral': matrices from how labels of three "
        "groups of annotators occur together, which do not rely on the majority being right. It needs many tasks with "
        "labels of several annotators, and ``seed`` deals the groups. Where there is no such start, a warning says so, "
        "and the votes are used.",
    )

    inferred_labels: float | None = parameter(
        default=15.0,
        must_be=optional(number(above=0)),
        help="Number of labels m that every row of a matrix by inferred labels counts in the end, beside the labels on "
        "tasks of known truth; None leaves it at EM, where a true label counts as much as an inferred one.",
    )

    def _starts(self) -> list[Start[Confusions]]:
        votes, *random = super()._starts()
        return [Start("spectral", self._from_spectrum) if self.start == "spectral" else votes, *random]

    def _from_spectrum(self, engine: Engine[Confusions]) -> Confusions:
        """The M-step after the posterior under the spectral matrices."""
        try:
            found = spectral_confusion(engine.votes, np.random.default_rng(self.seed))
        except NoMoments as why:
            warn(f"{self.name}: no spectral start, because {why}; it starts from the votes", DataWarning)
            return self._from_votes(engine, None)
        log_joint = self._log_joint(engine.votes, Confusions(*found))
        return self._from(engine, softmax(log_joint))

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
        expectation = engine.expect(parameters)
        self.learned_ = Learned(parameters, expectation.known_sums)
        return expectation.posterior

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

    def _first_parts(self, parameters: Confusions, counts: FloatArray) -> LogParts:
        """Matrices drawn to the crowd's: nobody's first label of a kind may be impossible in every class."""
        common = normalised(counts.sum(0) + PSEUDO_LABELS)
        with np.errstate(divide="ignore"):
            return LogParts(np.log(parameters.rho), np.log(normalised(counts + self.prior + DRAWN * common)))

    def _refined(self, votes: Votes, sums: Sums, previous: Confusions) -> Confusions:
        if self.inferred_labels is None or not (self.known_codes_ >= 0).any():
            return super()._refined(votes, sums, previous)
        return _beside_truth(self._truth(votes), sums, self.inferred_labels)

    def _truth(self, votes: Votes) -> Sums:
        """Expected counts of the tasks whose class is known: those of an update, and all others."""
        known = np.flatnonzero(self.known_codes_ >= 0)
        posterior = np.eye(votes.shape[2])[self.known_codes_[known]]
        return Sums(Votes(self._growing[known]).counts(posterior), posterior.sum(0), len(known))

    def _log_parts(self, parameters: Confusions) -> LogParts:
        with np.errstate(divide="ignore"):  # a probability of zero rules a class out
            return LogParts(np.log(parameters.rho), np.log(parameters.pi_r))

    def _log_prior(self, parameters: Confusions) -> float:
        return float(scipy.special.xlogy(self.prior, parameters.pi_r).sum()) if self.prior else 0.0

    def _adopt(self, votes: Votes, parameters: Confusions) -> None:
        self.class_prior_, self.confusion_ = parameters
        self.skills_ = np.einsum("c,rcc->r", self.class_prior_, self.confusion_)


def _beside_truth(truth: Sums, everything: Sums, inferred_labels: float) -> Confusions:
    """Matrices and class prior by tasks of known truth, drawn to those by all other tasks."""
    inferred = normalised(everything.counts - truth.counts + SMOOTHING)
    counts = truth.counts + inferred_labels * inferred
    shares = truth.shares + INFERRED_TASKS * normalised(everything.shares - truth.shares + SMOOTHING)
    return Confusions(normalised(shares), normalised(counts))


@register("one-coin")
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

    inferred_labels = None

    prior: float = parameter(
        default=0.0,
        must_be=number(at_least=0),
        help=r"Number of pseudo-labels :math:`\alpha`, right and wrong alike: the mode under a "
        r"Beta(:math:`1 + \alpha, 1 + \alpha`) prior.",
    )

    def _confusion(self, counts: FloatArray) -> FloatArray:
        C = counts.shape[-1]
        right = np.einsum("rcc->r", counts) + self.prior
        total = counts.sum((1, 2)) + 2 * self.prior
        skill = np.where(total > 0, right / np.where(total > 0, total, 1.0), 1.0 / C)[:, None, None]
        identity = np.eye(C)
        return np.asarray(identity * skill + (1 - identity) * (1 - skill) / max(C - 1, 1))

    def _log_prior(self, parameters: Confusions) -> float:
        skill = parameters.pi_r[:, 0, 0]
        return float((scipy.special.xlogy(self.prior, skill) + scipy.special.xlogy(self.prior, 1 - skill)).sum())


def posterior_by_dawid_skene(votes: Votes, known: npt.NDArray[np.int64], prior: float = 0.0) -> FloatArray:
    """(N, C) posterior of Dawid and Skene's model, as a start for others; whether it has converged does not matter."""
    model = DawidSkene(prior=prior, inferred_labels=None, verbose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.learn(model.engine(votes, known))
