"""Theorem 1 of the paper: a lower bound on the error of labels inferred from a crowd."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from conal.theory.divergence import mixture_divergence, separate_divergence
from conal.theory.noise_model import FloatArray, read_noise_model, smooth

__all__ = ["ErrorLowerBound", "error_lower_bound"]


@dataclass(frozen=True, eq=False)
class ErrorLowerBound:
    """The bound and its terms: ``raw = entropy_term - kl_term - constant_term``.

    Parameters
    ----------
    entropy : (N,)
        H(rho_i) in nats.
    divergence : (N,)
        The expected KL divergence of each instance, with separate terms for common and individual confusion; may be
        infinite.
    tight_divergence : (N,)
        The same for the mixtures, which is never larger.
    n_classes : int
    epsilon : float
        How much the confusion matrices were smoothed.
    """

    entropy: FloatArray
    divergence: FloatArray
    tight_divergence: FloatArray
    n_classes: int
    epsilon: float = 0.0

    @property
    def n_instances(self) -> int:
        """N."""
        return len(self.entropy)

    @property
    def F(self) -> FloatArray:  # noqa: N802 - the paper's name
        """(N,) entropy minus divergence of each instance: the uncertainty that its labels leave, in nats."""
        return self.entropy - self.divergence

    @property
    def tight_F(self) -> FloatArray:  # noqa: N802
        """(N,) the same with the divergence of the mixtures."""
        return self.entropy - self.tight_divergence

    @property
    def raw(self) -> float:
        """The right-hand side of the theorem: void below 0, and minus infinity if a KL is infinite."""
        return self._scaled(self.F.sum() - math.log(2))

    @property
    def tight_raw(self) -> float:
        """The same with the divergence of the mixtures."""
        return self._scaled(self.tight_F.sum() - math.log(2))

    @property
    def value(self) -> float:
        """The bound: 0 where the theorem is void."""
        return max(self.raw, 0.0)

    @property
    def tight_value(self) -> float:
        """The bound by the first line of the proof, never below ``value``."""
        return max(self.tight_raw, 0.0)

    @property
    def entropy_term(self) -> float:
        """Sum of H(rho_i) / (N^2 log C)."""
        return self._scaled(self.entropy.sum())

    @property
    def kl_term(self) -> float:
        """Sum of divergences / (N^2 log C)."""
        return self._scaled(self.divergence.sum())

    @property
    def tight_kl_term(self) -> float:
        """Sum of the mixtures' divergences / (N^2 log C)."""
        return self._scaled(self.tight_divergence.sum())

    @property
    def constant_term(self) -> float:
        """log 2 / (N^2 log C), the price of Fano's inequality."""
        return self._scaled(math.log(2))

    @property
    def min_instances(self) -> float:
        """The corollary's N = 2 log 2 / max F, from which on more instances lower the bound; infinite if no F > 0."""
        largest = float(self.F.max())
        return 2 * math.log(2) / largest if largest > 0 else math.inf

    def _scaled(self, nats: float) -> float:
        return float(nats) / (self.n_instances**2 * math.log(self.n_classes))


def error_lower_bound(
    rho: object, pi_g: object, pi_r: object, omega: object, *, observed: object = None, epsilon: float = 0.0
) -> ErrorLowerBound:
    r"""A lower bound on the worst-case error rate of every rule that infers true labels from annotations (Theorem 1).

    An instance is hard when its class is uncertain (large entropy) and classes look alike in the labels (small
    divergence between the rows of the confusion matrices):

    .. math::
        \inf_{\hat Z} \sup_Z \mathbb E[\mathcal L(\hat Z, Z)] &\ge
            \frac{1}{N^2 \log C} \sum_i F(\rho_i, \Pi, \Omega) - \frac{\log 2}{N^2 \log C} \\
        F(\rho_i, \Pi, \Omega) &= H(\rho_i) - \sum_r \sum_{c, c'} \rho_{ic} \rho_{ic'} \bigl(
            \omega_i^r \mathrm{KL}(\pi^g_{c*} \| \pi^g_{c'*})
            + (1 - \omega_i^r) \mathrm{KL}(\pi^r_{c*} \| \pi^r_{c'*}) \bigr)

    The proof draws the true labels from rho, so the bound also holds for the average error of the best rule,
    :func:`bayes_error`. It is far below it: Fano's inequality is applied to all N labels at once, and 1 / N^2 makes
    the bound at most 1 / N. It is informative for a handful of instances only.

    A label that one class shows and another never does makes a divergence infinite and the theorem void: the value
    is 0. The paper's own generator makes such matrices. ``epsilon`` smooths them, but the bound is then for the
    smoothed crowd, which is noisier: compare it with the Bayes error of the smoothed matrices (:func:`smooth`).

    Parameters
    ----------
    rho : (N, C) or (C,)
        P(z_i = c) of each instance, or one distribution for all.
    pi_g : (C, C)
        Common confusion, true class before observed class.
    pi_r : (R, C, C)
        Individual confusion of each annotator.
    omega : (N, R)
        Probability that annotator r labels instance i by the common confusion.
    observed : (N, R) bool, optional
        Which annotators label which instances; by default all do.
    epsilon : float
        Replace every matrix by (1 - epsilon) pi + epsilon / C.

    Returns
    -------
    ErrorLowerBound
        ``value``; ``tight_value``, from the divergence of the mixtures omega pi_g + (1 - omega) pi_r, as in the proof
        before it separates them; their parts, ``F``, and the corollary's ``min_instances``.

    References
    ----------
    Chu, Ma and Wang (2021). Learning from crowds by modeling common confusions. AAAI. Theorem 1 and Appendix A.
    Imamura, Sato and Sugiyama (2018). Analysis of minimax error rate for crowdsourcing and its application to worker
    clustering model. ICML.

    Examples
    --------
    A hundredth of a nat is learned about each of two fair coins from a label that is hardly better than chance:

    >>> pi = [[0.55, 0.45], [0.45, 0.55]]
    >>> bound = error_lower_bound([0.5, 0.5], pi, [pi], [[0.5], [0.5]])
    >>> bound.F.round(3).tolist(), round(bound.value, 3)
    ([0.683, 0.683], 0.243)
    >>> error_lower_bound([0.5, 0.5], [[1, 0], [0, 1]], [pi], [[0.5], [0.5]]).value
    0.0
    """
    model = read_noise_model(rho, pi_g, pi_r, omega, observed)
    model = model._replace(pi_g=smooth(model.pi_g, epsilon), pi_r=smooth(model.pi_r, epsilon))
    separate = separate_divergence(model)
    # A mixture's divergence is never the larger one, and rounding must not make it so.
    tight = np.minimum(mixture_divergence(model), separate)
    return ErrorLowerBound(entr(model.rho).sum(axis=1), separate, tight, model.rho.shape[1], float(epsilon))
