"""Theorem 1 of the paper: a lower bound on the error of inferred labels, and the error of the best rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import entr, rel_entr, softmax

from conal._arrays import BoolArray, FloatArray, IntArray, draw_from_rows, row_slices
from conal.errors import InputError
from conal.metrics.classification import confusion_matrices, numbers, probabilities
from conal.parameters import number, whole

# The parameters of a crowd, read and checked.


CHUNK_CELLS = 2**20
"""Numbers in one temporary array: 8 MB."""


class NoiseModel(NamedTuple):
    """Common and individual confusion of a crowd with known parameters.

    Attributes
    ----------
    rho : (N, C)
        P(z_i = c), the class distribution of each instance.
    pi_g, pi_r : (C, C), (R, C, C)
        Common and individual confusion, true class before observed class.
    omega : (N, R)
        P(s_i^r = 1), the probability that a label comes from the common confusion.
    observed : (N, R) bool
        Which annotators label which instances.
    """

    rho: FloatArray
    pi_g: FloatArray
    pi_r: FloatArray
    omega: FloatArray
    observed: BoolArray

    def part(self, rows: slice) -> NoiseModel:
        """The same crowd on some of the instances."""
        return self._replace(rho=self.rho[rows], omega=self.omega[rows], observed=self.observed[rows])

    def active(self) -> IntArray:
        """The annotators who label anything here."""
        return np.flatnonzero(self.observed.any(axis=0))

    def mixture(self, rows: IntArray, r: int) -> FloatArray:
        """(n, C, C) distributions of annotator r's labels of these instances: omega pi_g + (1 - omega) pi_r."""
        omega = self.omega[rows, r, None, None]
        return np.asarray(omega * self.pi_g + (1 - omega) * self.pi_r[r])


def read_noise_model(rho: object, pi_g: object, pi_r: object, omega: object, observed: object = None) -> NoiseModel:
    """Checked parameters in double precision; one class distribution for all instances is repeated."""
    common, individual = confusion_matrices(pi_g, "pi_g"), confusion_matrices(pi_r, "pi_r")
    C = common.shape[-1]
    if common.ndim != 2 or C < 2:
        raise InputError(f"pi_g: expected one (C, C) matrix of at least 2 classes, got shape {common.shape}")
    if individual.ndim != 3 or individual.shape[-1] != C:
        raise InputError(
            f"pi_r: expected a ({C}, {C}) matrix per annotator, as pi_g has, got shape {individual.shape}; "
            "for a single annotator pass pi_r[None]"
        )
    rates = _read_omega(omega, len(individual))
    classes = _read_rho(rho, len(rates), C)
    # Rows may be rounded, and a divergence of unnormalised rows may be negative.
    return NoiseModel(
        _normalised(classes), _normalised(common), _normalised(individual), rates, _read_mask(observed, rates.shape)
    )


def smooth(pi: object, epsilon: float) -> FloatArray:
    r"""Confusion matrices without zero entries: with probability epsilon a label is drawn uniformly.

    .. math::
        (1 - \epsilon) \, \pi + \epsilon / C

    A crowd with smoothed matrices is noisier. What holds for it need not hold for the original.

    Parameters
    ----------
    pi : (C, C) or (R, C, C)
    epsilon : float
        Between 0, which changes nothing, and 1.

    Examples
    --------
    >>> smooth([[1.0, 0.0], [0.0, 1.0]], 0.5).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    number(at_least=0, at_most=1).check("epsilon", epsilon)
    matrices = confusion_matrices(pi, "pi")
    return np.asarray((1 - epsilon) * matrices + epsilon / matrices.shape[-1])


def _read_omega(omega: object, R: int) -> FloatArray:
    rates = numbers(omega, "omega")
    if rates.ndim != 2 or rates.shape[1] != R or not len(rates):
        raise InputError(f"omega: expected instances x {R} annotators, as pi_r has, got shape {rates.shape}")
    outside = np.argwhere((rates < 0) | (rates > 1))
    if len(outside):
        i, r = outside[0].tolist()
        raise InputError(f"omega: {rates[i, r]:.6g} at [{i}, {r}]; pass probabilities between 0 and 1")
    return rates


def _read_rho(rho: object, N: int, C: int) -> FloatArray:
    classes = numbers(rho, "rho")
    if classes.ndim == 1:
        classes = np.broadcast_to(classes, (N, len(classes)))
    classes = probabilities(classes, "rho")
    if classes.shape != (N, C):
        raise InputError(
            f"rho: shape {classes.shape} for {N:,} rows of omega and {C} classes; "
            "pass a class distribution per instance, or one for all"
        )
    return classes


def _read_mask(observed: object, shape: tuple[int, ...]) -> BoolArray:
    if observed is None:
        return np.ones(shape, dtype=bool)
    mask = np.asarray(observed)
    if mask.dtype != np.bool_ or mask.shape != shape:
        raise InputError(
            f"observed: expected booleans of shape {shape}, as omega has, got {mask.dtype} of shape {mask.shape}; "
            "for a label matrix A with -1 for no label, pass A != -1"
        )
    return mask


def _normalised(rows: FloatArray) -> FloatArray:
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


# Expected Kullback-Leibler divergence between the rows of confusion matrices, which may be infinite.


def row_divergence(pi: FloatArray) -> FloatArray:
    """(..., C, C) ``[c, c']`` = KL(pi_c* || pi_c'*), infinite where c shows a label that c' never does.

    >>> row_divergence(np.array([[0.5, 0.5], [0.0, 1.0]])).round(4).tolist()
    [[0.0, inf], [0.6931, 0.0]]
    """
    apart = rel_entr(pi[..., :, None, :], pi[..., None, :, :]).sum(-1)
    return np.asarray(np.maximum(apart, 0))


def separate_divergence(model: NoiseModel) -> FloatArray:
    r"""(N,) the theorem's sum, with a term for common and one for individual confusion.

    .. math::
        \sum_r \sum_{c, c'} \rho_{ic} \rho_{ic'} \bigl( \omega_i^r \mathrm{KL}(\pi^g_{c*} \| \pi^g_{c'*})
            + (1 - \omega_i^r) \mathrm{KL}(\pi^r_{c*} \| \pi^r_{c'*}) \bigr)

    The sum over annotators is a matrix product: nothing of size N x R x C x C is made.
    """
    (N, C), R = model.rho.shape, len(model.pi_r)
    table = row_divergence(np.concatenate([model.pi_g[None], model.pi_r])).reshape(R + 1, C * C)
    infinite = np.isinf(table)
    finite = np.where(infinite, 0.0, table)
    divergence = np.empty(N)
    for rows in row_slices(N, C * C, CHUNK_CELLS):
        part = model.part(rows)
        common = np.where(part.observed, part.omega, 0.0)
        weights = np.column_stack([common.sum(1), np.where(part.observed, 1 - part.omega, 0.0)])
        between = (weights @ finite).reshape(-1, C, C)
        # 0 times infinity counts as 0. Compare signs instead of multiplying: products may underflow, or be NaN.
        void = ((weights > 0).astype(np.float64) @ infinite.astype(np.float64) > 0).reshape(-1, C, C)
        possible = part.rho > 0
        void &= possible[:, :, None] & possible[:, None, :]
        expected = np.einsum("nc,ncd,nd->n", part.rho, between, part.rho)
        divergence[rows] = np.where(void.any(axis=(1, 2)), np.inf, expected)
    return divergence


def mixture_divergence(model: NoiseModel) -> FloatArray:
    r"""(N,) the same sum over the mixtures that labels are drawn from, before the proof separates them.

    .. math::
        \sum_r \sum_{c, c'} \rho_{ic} \rho_{ic'} \mathrm{KL}(\pi'^{\,ir}_{c*} \| \pi'^{\,ir}_{c'*}), \qquad
        \pi'^{\,ir} = \omega_i^r \pi^g + (1 - \omega_i^r) \pi^r
    """
    N, C = model.rho.shape
    divergence = np.zeros(N)
    for r in model.active().tolist():
        labelled = np.flatnonzero(model.observed[:, r])
        for some in row_slices(len(labelled), C * C, CHUNK_CELLS):
            rows = labelled[some]
            divergence[rows] += _expected_divergence(model.rho[rows], model.mixture(rows, r))
    return divergence


def _expected_divergence(rho: FloatArray, pi: FloatArray) -> FloatArray:
    """(n,) sum over c, c' of rho_c rho_c' KL(pi_c* || pi_c'*), for one matrix per instance.

    Both sums over classes go inside the one over labels: C^2 steps per instance instead of C^3.
    """
    log_pi, possible = _log(pi), (rho > 0)[:, :, None]
    own = np.einsum("nc,ncl,ncl->n", rho, pi, log_pi)
    crossed = np.einsum("nl,nl->n", np.einsum("nc,ncl->nl", rho, pi), np.einsum("nc,ncl->nl", rho, log_pi))
    shown, never = (possible & (pi > 0)).any(axis=1), (possible & (pi == 0)).any(axis=1)
    void: BoolArray = (shown & never).any(axis=1)
    expected: npt.NDArray[np.float64] = np.where(void, np.inf, np.maximum(own - crossed, 0))
    return expected


def _log(pi: FloatArray) -> FloatArray:
    """log pi, and 0 where pi is 0: the callers find infinite terms by sign."""
    return np.log(np.where(pi > 0, pi, 1.0))


# Theorem 1 of the paper: a lower bound on the error of labels inferred from a crowd.


@dataclass(frozen=True, eq=False)
class ErrorLowerBound:
    """The bound, and the entropies and divergences that it is made of.

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
        return self._by(self.F)

    @property
    def value(self) -> float:
        """The bound: 0 where the theorem is void."""
        return max(self.raw, 0.0)

    @property
    def tight_value(self) -> float:
        """The bound by the first line of the proof, never below ``value``."""
        return max(self._by(self.tight_F), 0.0)

    @property
    def min_instances(self) -> float:
        """The corollary's N = 2 log 2 / max F, from which on more instances lower the bound; infinite if no F > 0."""
        largest = float(self.F.max())
        return 2 * math.log(2) / largest if largest > 0 else math.inf

    def _by(self, uncertainty: FloatArray) -> float:
        nats = uncertainty.sum() - math.log(2)  # log 2 is the price of Fano's inequality
        return float(nats) / (len(uncertainty) ** 2 * math.log(self.n_classes))


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
        before it separates them; ``entropy``, the divergences, ``F``, and the corollary's ``min_instances``.

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


# The Bayes-optimal decision: the posterior under the true parameters, and how often its best guess is wrong.


class BayesError(NamedTuple):
    """A Monte-Carlo estimate of the Bayes-optimal error rate, with its standard error."""

    value: float
    standard_error: float


def posterior(labels: object, rho: object, pi_g: object, pi_r: object, omega: object) -> FloatArray:
    r"""(N, C) P(true class | all labels of an instance) if all parameters of the crowd are known.

    .. math::
        q_i(c) \propto \rho_{ic} \prod_r \bigl( \omega_i^r \pi^g_{c, y_i^r} + (1 - \omega_i^r) \pi^r_{c, y_i^r} \bigr)

    Its largest class is the Bayes-optimal decision: no other rule has a smaller error rate on average over rho.

    Parameters
    ----------
    labels : (N, R) integers
        Class codes; -1 where an annotator gave no label.
    rho, pi_g, pi_r, omega
        As in :func:`error_lower_bound`.

    Examples
    --------
    >>> pi = [[0.8, 0.2], [0.2, 0.8]]
    >>> posterior([[0, 0], [0, -1]], [0.5, 0.5], pi, [pi, pi], [[0.5, 0.5], [0.5, 0.5]]).round(3).tolist()
    [[0.941, 0.059], [0.8, 0.2]]
    """
    codes = np.asarray(labels)
    model = read_noise_model(rho, pi_g, pi_r, omega)
    _check_labels(codes, model)
    model = model._replace(observed=codes >= 0)
    log_joint = _log_or_minus_infinity(model.rho)
    for r in model.active().tolist():
        labelled = np.flatnonzero(model.observed[:, r])
        for part in row_slices(len(labelled), model.pi_g.size, CHUNK_CELLS):
            rows = labelled[part]
            log_joint[rows] += _evidence(model.mixture(rows, r), codes[rows, r])
    impossible = np.flatnonzero(np.isneginf(log_joint).all(axis=1))
    if len(impossible):
        raise InputError(
            f"labels: those of {len(impossible):,} instances are impossible under every class, first in row "
            f"{impossible[0]}; smooth the confusion matrices"
        )
    return np.asarray(softmax(log_joint, axis=-1))


def bayes_error(
    rho: object,
    pi_g: object,
    pi_r: object,
    omega: object,
    *,
    observed: object = None,
    n_draws: int = 1000,
    seed: int = 0,
) -> BayesError:
    r"""Error rate of the Bayes-optimal decision, on average over true labels and annotations.

    Compare :func:`error_lower_bound` with it. No aggregator can beat it on average. Crowds are drawn from the model;
    the error is then computed from the posterior q, which varies less than a count of mistakes:

    .. math::
        z_i \sim \rho_i, \quad y_i^r \sim \omega_i^r \pi^g_{z_i *} + (1 - \omega_i^r) \pi^r_{z_i *}, \qquad
        \frac1N \sum_i \mathbb E \bigl[ 1 - \max_c q_i(c) \bigr]

    Parameters
    ----------
    rho, pi_g, pi_r, omega, observed
        As in :func:`error_lower_bound`.
    n_draws : int
        Crowds drawn, at least 2.
    seed : int

    Returns
    -------
    BayesError
        ``value`` and ``standard_error``.

    Examples
    --------
    One label that is right four times in five, on a fair coin, is wrong one time in five:

    >>> pi = [[0.8, 0.2], [0.2, 0.8]]
    >>> value, _ = bayes_error([0.5, 0.5], pi, [pi], [[0.5]])
    >>> round(value, 6)
    0.2
    """
    whole(2).check("n_draws", n_draws)
    whole(0).check("seed", seed)
    model = read_noise_model(rho, pi_g, pi_r, omega, observed)
    rng = np.random.default_rng(seed)
    N, C = model.rho.shape
    mean, variance = np.empty(N), np.empty(N)
    for rows in row_slices(N, n_draws * C, CHUNK_CELLS):
        errors = _draw_errors(model.part(rows), n_draws, rng)
        mean[rows], variance[rows] = errors.mean(axis=0), errors.var(axis=0, ddof=1)
    # Instances are drawn independently, so their variances add up.
    return BayesError(float(mean.mean()), float(np.sqrt(variance.sum() / n_draws) / N))


def _draw_errors(model: NoiseModel, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """(n_draws, N) P(the best guess is wrong | labels) of drawn crowds."""
    N, C = model.rho.shape
    z = draw_from_rows(np.broadcast_to(model.rho, (n_draws, N, C)), rng.random((n_draws, N)))
    log_joint = np.repeat(_log_or_minus_infinity(model.rho)[None], n_draws, axis=0)
    for r in model.active().tolist():
        labelled = np.flatnonzero(model.observed[:, r])
        mixture = model.mixture(labelled, r)
        rows = mixture[np.arange(len(labelled)), z[:, labelled]]
        labels = draw_from_rows(rows, rng.random((n_draws, len(labelled))))
        log_joint[:, labelled] += _evidence(mixture, labels)
    return np.asarray(1 - softmax(log_joint, axis=-1).max(axis=-1))


def _evidence(mixture: FloatArray, labels: IntArray) -> FloatArray:
    """(..., n, C) log P(label | true class) for (..., n) labels of n instances, each with its matrix (n, C, C)."""
    by_label = _log_or_minus_infinity(mixture).transpose(0, 2, 1)
    evidence: FloatArray = by_label[np.arange(len(mixture)), labels]
    return evidence


def _log_or_minus_infinity(values: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):  # what cannot happen has log-probability minus infinity
        return np.log(values)


def _check_labels(codes: IntArray, model: NoiseModel) -> None:
    C = model.rho.shape[1]
    if codes.shape != model.omega.shape or codes.dtype.kind not in "iu":
        raise InputError(
            f"labels: expected integers of shape {model.omega.shape}, as omega has, "
            f"got {codes.dtype} of shape {codes.shape}"
        )
    if codes.min() < -1 or codes.max() >= C:
        raise InputError(
            f"labels: expected class codes in range({C}), or -1 for none, got {codes.min()} to {codes.max()}"
        )
