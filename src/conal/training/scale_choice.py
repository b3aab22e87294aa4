"""How well features explain the votes of few tasks: the leave-one-out error of ridge regression."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["leave_one_out_error"]

FloatArray = npt.NDArray[np.float64]

PENALTIES = np.geomspace(1e-3, 10.0, 9)
"""Candidates for the ridge, in units of the mean eigenvalue."""


def leave_one_out_error(x: FloatArray, targets: FloatArray) -> float:
    r"""Mean squared error of ridge regression on tasks that it was fitted without, under the best of nine penalties.

    .. math::
        S_\lambda = \tfrac1n 1 1^\top + G (G + \lambda I)^{-1}, \qquad
        \min_\lambda \frac1n \sum_i \Bigl\| \frac{q_i - (S_\lambda q)_i}{1 - S_{\lambda, ii}} \Bigr\|^2

    with the products G of centred instances: one decomposition of an (n, n) matrix, however many features there are.

    Parameters
    ----------
    x : (n, d)
        Instances.
    targets : (n, C)
        Vote shares.

    Examples
    --------
    >>> x, q = np.array([[-1.0], [-0.9], [0.9], [1.0]]), np.eye(2)[[0, 0, 1, 1]]
    >>> leave_one_out_error(x, q) < 0.1 < leave_one_out_error(x[[0, 2, 1, 3]], q)
    True
    """
    centred = x - x.mean(0)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    values = values.clip(min=0)
    scale = values.mean() or 1.0
    return min(_error(values / (values + penalty * scale), vectors, targets) for penalty in PENALTIES)


def _error(kept: FloatArray, vectors: FloatArray, targets: FloatArray) -> float:
    """The error of a smoother, of which ``kept`` (n,) says how much of each direction stays."""
    n = len(targets)
    fitted = (vectors * kept) @ (vectors.T @ (targets - targets.mean(0))) + targets.mean(0)
    own = 1 / n + (vectors**2 * kept).sum(1)
    return float((((targets - fitted) / (1 - own).clip(min=1e-9)[:, None]) ** 2).sum(1).mean())
