"""Dawid and Skene's model: every annotator has a confusion matrix, and the truth is what explains the labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from conal.aggregation.base import register
from conal.aggregation.em import EMAggregator, Run
from conal.aggregation.squarem import extrapolated
from conal.aggregation.votes import Expected, FloatArray, Votes, normalised

__all__ = ["DawidSkene", "OneCoinDawidSkene"]


class Confusions(NamedTuple):
    """Class prior (C,) and confusion matrices (R, C, C), ``pi_r[r, c, l] = P(observe l | true c)``."""

    rho: FloatArray
    pi_r: FloatArray


@register("dawid-skene")
class DawidSkene(EMAggregator[Confusions]):
    r"""Maximum likelihood for annotators with a confusion matrix each, by EM.

    A task's class is drawn from :math:`\rho`, annotator r labels class c as l with probability :math:`\pi^r_{cl}`:

    .. math::
        q_i(c) \propto \rho_c \prod_{r} \pi^r_{c, y_i^r}, \qquad
        \pi^r_{cl} = \frac{\sum_{i : y_i^r = l} q_i(c) + \alpha}{\sum_{i, l'} q_i(c) [y_i^r = l'] + C \alpha}, \qquad
        \rho_c = \tfrac1N \sum_i q_i(c)

    The two sums are two sparse products, so an iteration costs as much as there are labels times classes.

    Parameters
    ----------
    prior : float
        :math:`\alpha`, pseudo-labels in every cell: the mode under a Dirichlet(:math:`1 + \alpha`) prior on every
        row. 0 is maximum likelihood. A row that nothing speaks for is uniform.
    accelerate : bool
        Try a longer step after every one (SQUAREM), and take it where the objective does not fall. The end is the same,
        reached sooner. With ``tol=0`` exactly ``n_iter`` plain steps are made.
    n_iter, tol, n_restarts, seed, verbose
        See :class:`conal.aggregation.em.EMAggregator`.

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

    Example
    -------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    >>> DawidSkene().fit(crowd).labels_.tolist()
    [0, 1, 0, 1]
    """

    class_prior_: FloatArray

    def __init__(
        self,
        *,
        prior: float = 0.0,
        n_iter: int = 100,
        tol: float = 1e-5,
        n_restarts: int = 1,
        seed: int = 0,
        verbose: bool = True,
        accelerate: bool = True,
    ) -> None:
        super().__init__(n_iter=n_iter, tol=tol, n_restarts=n_restarts, seed=seed, verbose=verbose)
        self.prior = prior
        self.accelerate = accelerate

    def _check(self) -> None:
        super()._check()
        self._check_not_negative("prior")

    def _m_step(self, votes: Votes, posterior: FloatArray | Expected, previous: Confusions | None) -> Confusions:
        expected = self._summed(posterior if isinstance(posterior, Expected) else votes.expected(posterior))
        return Confusions(expected.shares / max(expected.n_tasks, 1), self._confusion(expected.counts))

    def _first_parameters(self, votes: Votes, posterior: FloatArray, rng: np.random.Generator | None) -> Confusions:
        if not votes.fused:
            return super()._first_parameters(votes, posterior, rng)
        return self._m_step(votes, votes.fused_expected(posterior), None)

    def _e_step(
        self, votes: Votes, parameters: Confusions, known: npt.NDArray[np.int64]
    ) -> tuple[FloatArray | Expected, float]:
        if votes.fused:
            expected, log_likelihood = votes.fused_expectation(*parameters, known)
            return expected, self._over_all(log_likelihood) + self._log_prior(parameters)
        posterior, objective = super()._e_step(votes, parameters, known)
        prior = self._log_prior(parameters)
        return posterior, self._over_all(objective - prior) + prior

    def _summed(self, expected: Expected) -> Expected:
        """Over all processes, in one message."""
        if self.share is None:
            return expected
        flat = np.concatenate([expected.counts.ravel(), expected.shares, [expected.n_tasks]])
        total = self.share(flat)
        counts = total[: expected.counts.size].reshape(expected.counts.shape)
        return Expected(counts, total[expected.counts.size : -1], int(total[-1]))

    def _extrapolate(self, first: Confusions, second: Confusions, third: Confusions) -> Confusions:
        return Confusions(*extrapolated(first, second, third))

    def _posterior(self, votes: Votes, run: Run[Confusions], known: npt.NDArray[np.int64]) -> FloatArray:
        if not isinstance(run.posterior, Expected):
            return super()._posterior(votes, run, known)
        posterior = np.empty((votes.shape[0], votes.shape[2]))
        votes.fused_expectation(*run.parameters, known, posterior)
        return posterior

    def _confusion(self, counts: FloatArray) -> FloatArray:
        return normalised(counts + self.prior)

    def _log_joint(self, votes: Votes, parameters: Confusions) -> FloatArray:
        with np.errstate(divide="ignore"):  # a probability of zero rules a class out
            log_rho, log_confusion = np.log(parameters.rho), np.log(parameters.pi_r)
        log_joint = votes.log_evidence(log_confusion)
        log_joint += log_rho
        return log_joint

    def _log_prior(self, parameters: Confusions) -> float:
        return float(xlogy(self.prior, parameters.pi_r).sum()) if self.prior else 0.0

    def _adopt(self, votes: Votes, parameters: Confusions) -> None:
        self.class_prior_, self.confusion_ = parameters
        self.skills_ = np.einsum("c,rcc->r", self.class_prior_, self.confusion_)


@register("one-coin")
class OneCoinDawidSkene(DawidSkene):
    r"""Dawid-Skene with one number per annotator: right with probability :math:`p_r`, else any other class alike.

    .. math::
        \pi^r_{cl} = p_r \text{ if } l = c \text{ else } \frac{1 - p_r}{C - 1}, \qquad
        p_r = \frac{\sum_i q_i(y_i^r) + \alpha}{n_r + 2 \alpha}

    Far fewer parameters, and so the better choice where annotators gave few labels.

    Parameters
    ----------
    prior : float
        :math:`\alpha`, pseudo-labels right and wrong: the mode under a Beta(:math:`1 + \alpha, 1 + \alpha`) prior.
    n_iter, tol, n_restarts, seed, verbose, accelerate
        As for :class:`DawidSkene`.
    """

    def _confusion(self, counts: FloatArray) -> FloatArray:
        C = counts.shape[-1]
        right = np.einsum("rcc->r", counts) + self.prior
        total = counts.sum((1, 2)) + 2 * self.prior
        skill = np.where(total > 0, right / np.where(total > 0, total, 1.0), 1.0 / C)[:, None, None]
        identity = np.eye(C)
        return np.asarray(identity * skill + (1 - identity) * (1 - skill) / max(C - 1, 1))

    def _log_prior(self, parameters: Confusions) -> float:
        skill = parameters.pi_r[:, 0, 0]
        return float((xlogy(self.prior, skill) + xlogy(self.prior, 1 - skill)).sum())
