"""Temperature scaling of a network's probabilities."""

from __future__ import annotations

from torch import Tensor

__all__ = ["fit_temperature"]

RANGE = (0.05, 1.5)
STEPS = 40


def fit_temperature(log_proba: Tensor, target: Tensor) -> Tensor:
    r"""The factor on log-probabilities that fits target distributions best; below 1 for an over-confident network.

    .. math:: \hat\beta = \arg\max_\beta \sum_i \sum_c q_i(c) \log \mathrm{softmax}(\beta \log f(x_i))_c

    The objective is concave in :math:`\beta`, so a golden-section search finds it.

    Parameters
    ----------
    log_proba, target : (N, C) tensors

    Example
    -------
    >>> import torch
    >>> sure = torch.tensor([[0.99, 0.01]]).log()
    >>> round(float(fit_temperature(sure, torch.tensor([[0.9, 0.1]]))), 2)  # log 9 / log 99
    0.48
    """
    ratio = (5**0.5 - 1) / 2
    low, high = RANGE

    def fit(beta: float) -> float:
        return float((target * (beta * log_proba).log_softmax(-1)).sum(-1).double().mean())

    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = fit(a), fit(b)
    for _ in range(STEPS):
        if at_a >= at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = fit(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = fit(b)
        if high - low < 1e-4:
            break
    return log_proba.new_tensor((low + high) / 2)
