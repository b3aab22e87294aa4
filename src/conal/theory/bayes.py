"""The Bayes-optimal decision: the posterior under the true parameters, and how often its best guess is wrong."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from conal._arrays import draw_from_rows
from conal.errors import InputError
from conal.parameters import whole
from conal.theory.noise_model import FloatArray, IntArray, NoiseModel, chunks, read_noise_model

__all__ = ["BayesError", "bayes_error", "posterior"]


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
    log_joint = _log(model.rho)
    for r in model.active().tolist():
        labelled = np.flatnonzero(model.observed[:, r])
        for part in chunks(len(labelled), model.pi_g.size):
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
    for rows in chunks(N, n_draws * C):
        errors = _draw_errors(model.part(rows), n_draws, rng)
        mean[rows], variance[rows] = errors.mean(axis=0), errors.var(axis=0, ddof=1)
    # Instances are drawn independently, so their variances add up.
    return BayesError(float(mean.mean()), float(np.sqrt(variance.sum() / n_draws) / N))


def _draw_errors(model: NoiseModel, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """(n_draws, N) P(the best guess is wrong | labels) of drawn crowds."""
    N, C = model.rho.shape
    z = draw_from_rows(np.broadcast_to(model.rho, (n_draws, N, C)), rng.random((n_draws, N)))
    log_joint = np.repeat(_log(model.rho)[None], n_draws, axis=0)
    for r in model.active().tolist():
        labelled = np.flatnonzero(model.observed[:, r])
        mixture = model.mixture(labelled, r)
        rows = mixture[np.arange(len(labelled)), z[:, labelled]]
        labels = draw_from_rows(rows, rng.random((n_draws, len(labelled))))
        log_joint[:, labelled] += _evidence(mixture, labels)
    return np.asarray(1 - softmax(log_joint, axis=-1).max(axis=-1))


def _evidence(mixture: FloatArray, labels: IntArray) -> FloatArray:
    """(..., n, C) log P(label | true class) for (..., n) labels of n instances, each with its matrix (n, C, C)."""
    by_label = _log(mixture).transpose(0, 2, 1)
    evidence: FloatArray = by_label[np.arange(len(mixture)), labels]
    return evidence


def _log(values: FloatArray) -> FloatArray:
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
