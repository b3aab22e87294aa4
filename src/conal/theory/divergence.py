"""Expected Kullback-Leibler divergence between the rows of confusion matrices, which may be infinite."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.theory.noise_model import BoolArray, FloatArray, NoiseModel, chunks

__all__ = ["mixture_divergence", "row_divergence", "separate_divergence"]


def row_divergence(pi: FloatArray) -> FloatArray:
    """(..., C, C) ``[c, c']`` = KL(pi_c* || pi_c'*), infinite where c shows a label that c' never does.

    >>> row_divergence(np.array([[0.5, 0.5], [0.0, 1.0]])).round(4).tolist()
    [[0.0, inf], [0.6931, 0.0]]
    """
    log_pi, columns = _log(pi), (*range(pi.ndim - 2), -1, -2)
    own = (pi * log_pi).sum(-1)[..., :, None]
    finite = np.maximum(own - pi @ log_pi.transpose(columns), 0)
    infinite = (pi > 0).astype(np.float64) @ (pi == 0).astype(np.float64).transpose(columns) > 0
    return np.where(infinite, np.inf, finite)


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
    for rows in chunks(N, C * C):
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
        for some in chunks(len(labelled), C * C):
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
