"""Temperature scaling of a network's probabilities."""

from __future__ import annotations

from scipy.optimize import minimize_scalar
from torch import Tensor

__all__ = ["fit_temperature"]

RANGE = (0.05, 1.5)
TOLERANCE = 1e-4


def fit_temperature(log_proba: Tensor, target: Tensor) -> Tensor:
    r"""The factor on log-probabilities that fits target distributions best; below 1 for an over-confident network.

    .. math:: \hat\beta = \arg\max_\beta \sum_i \sum_c q_i(c) \log \mathrm{softmax}(\beta \log f(x_i))_c

    The objective is concave in :math:`\beta`, so a bounded search finds it.

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

    def loss(beta: float) -> float:
        return -float((target * (beta * log_proba).log_softmax(-1)).sum(-1).double().mean())

    found = minimize_scalar(loss, bounds=RANGE, method="bounded", options={"xatol": TOLERANCE})
    return log_proba.new_tensor(found.x)
