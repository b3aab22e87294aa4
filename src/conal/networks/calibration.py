"""Temperature scaling of a network's probabilities."""

from __future__ import annotations

from torch import Tensor

__all__ = ["fit_temperature"]

LOWEST, HIGHEST = 0.05, 1.5
TOLERANCE = 1e-4
STEPS = 30
"""More than halving the range down to the tolerance takes."""


def fit_temperature(log_proba: Tensor, target: Tensor) -> Tensor:
    r"""The factor on log-probabilities that fits target distributions best; below 1 for an over-confident network.

    .. math::
        \hat\beta = \arg\max_\beta \sum_i \sum_c q_i(c) \log p^\beta_i(c), \qquad
        p^\beta_i = \mathrm{softmax}(\beta \log f(x_i))

    The objective is concave in :math:`\beta`. Its slope is what q expects of the log-probabilities less what
    :math:`p^\beta` does, and its curvature is minus their variance under :math:`p^\beta`. Newton's steps stay between
    the values at which the slope is known to be positive and negative, and otherwise lead to their middle.

    Parameters
    ----------
    log_proba, target : (N, C) tensors

    Examples
    --------
    >>> import torch
    >>> sure = torch.tensor([[0.99, 0.01]]).log()
    >>> round(float(fit_temperature(sure, torch.tensor([[0.9, 0.1]]))), 2)  # log 9 / log 99
    0.48
    """
    by_class, total = log_proba.T.contiguous(), target.sum(-1)  # sums over many short rows would take most of the time
    expected = float((target.T * by_class).sum(0).double().sum())
    low, high, beta = LOWEST, HIGHEST, 1.0
    for _ in range(STEPS):
        slope, curvature = _derivatives(beta, by_class, total, expected)
        low, high = (beta, high) if slope > 0 else (low, beta)
        wanted = beta - slope / curvature if curvature < 0 else (low if slope < 0 else high)
        wanted = min(max(wanted, LOWEST), HIGHEST)
        beta, before = (wanted if low <= wanted <= high else (low + high) / 2), beta
        if abs(beta - before) < TOLERANCE:
            break
    return log_proba.new_tensor(beta)


def _derivatives(beta: float, log_proba: Tensor, total: Tensor, expected: float) -> tuple[float, float]:
    """Slope and curvature of the objective, from (C, N) log-probabilities; ``total`` (N,) are the targets' sums."""
    weighted = (beta * log_proba).softmax(0).mul_(log_proba)
    mean = weighted.sum(0)
    variance = weighted.mul_(log_proba).sum(0) - mean * mean
    return expected - float((total * mean).double().sum()), -float((total * variance).double().sum())
