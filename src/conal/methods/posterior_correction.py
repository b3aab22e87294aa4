"""What true labels of some tasks say about the posterior of all: a small correction, held back where they are few."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor, nn

__all__ = ["PosteriorCorrection"]

FloatArray = npt.NDArray[np.float64]

PENALTY, SCALE_PENALTY = 1.0, 5.0
"""Of matrix and shift, and of the scale."""
ENOUGH = 50
"""Fewer true labels than this are held back more, in inverse proportion to their number."""
STEPS = 200


class PosteriorCorrection(nn.Module):
    r"""A correction of log-posteriors l, which starts as none.

    .. math::
        l' = e^s l + \mathrm{softmax}(l) W + b, \qquad
        \min_{s, W, b} \sum_i - \log \mathrm{softmax}(l'_i)_{y_i}
            + \lambda_n \bigl( \tfrac12 \|W\|^2 + \tfrac12 \|b\|^2 + \tfrac52 s^2 \bigr)

    W moves what is inferred as one class to others, b the shares of the classes, and s says how sure to be.
    :math:`\lambda_n` is larger for few labels: some give a direction, but not how far to go.

    Parameters
    ----------
    n_classes : int
        C.

    Examples
    --------
    >>> correction = PosteriorCorrection(2)
    >>> unsure = torch.tensor([[0.6, 0.4]]).log()
    >>> correction.fit(unsure.repeat(200, 1), torch.ones(200, dtype=torch.int64))
    >>> bool(correction(unsure).softmax(-1)[0, 1] > 0.9)
    True
    """

    log_scale: Tensor
    weight: Tensor
    shift: Tensor

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.register_buffer("log_scale", torch.zeros(()))
        self.register_buffer("weight", torch.zeros(n_classes, n_classes))
        self.register_buffer("shift", torch.zeros(n_classes))

    def forward(self, log_posterior: Tensor) -> Tensor:
        """(N, C) corrected log-posteriors, not normalised."""
        log_posterior = log_posterior.log_softmax(-1)
        return self.log_scale.exp() * log_posterior + log_posterior.exp() @ self.weight + self.shift

    def fit(self, log_posterior: Tensor, truth: Tensor) -> None:
        """Fit to (n, C) log-posteriors of tasks whose (n,) true classes are known."""
        if not len(truth):
            return
        given = log_posterior.detach().double().log_softmax(-1).cpu().numpy()
        objective = _Objective(given, truth.cpu().numpy(), max(1.0, ENOUGH / len(truth)))
        start = np.concatenate([each.double().cpu().numpy().ravel() for each in self.buffers()])
        found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
        for buffer, values in zip(self.buffers(), objective.parts(found), strict=True):
            buffer.copy_(torch.as_tensor(values))


class _Objective:
    """The penalised loss and its gradient, by all parameters in a row: s, W and b."""

    def __init__(self, log_posterior: FloatArray, truth: npt.NDArray[np.int64], strength: float) -> None:
        self.log_posterior = log_posterior
        self.posterior = np.exp(log_posterior)
        self.certain = np.eye(log_posterior.shape[1])[truth]
        self.strength = strength

    def parts(self, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        C = self.certain.shape[1]
        return values[0], values[1 : 1 + C * C].reshape(C, C), values[1 + C * C :]

    def __call__(self, values: FloatArray) -> tuple[float, FloatArray]:
        scale, weight, shift = self.parts(values)
        corrected = np.exp(scale) * self.log_posterior + self.posterior @ weight + shift
        log_proba = log_softmax(corrected, axis=1)
        surplus = np.exp(log_proba) - self.certain
        penalties = self.strength * np.concatenate([[SCALE_PENALTY], np.full(len(values) - 1, PENALTY)])
        by_scale = np.exp(scale) * (surplus * self.log_posterior).sum()
        gradient = np.concatenate([[by_scale], (self.posterior.T @ surplus).ravel(), surplus.sum(0)])
        loss = -(self.certain * log_proba).sum() + (penalties * values**2).sum() / 2
        return float(loss), gradient + penalties * values
