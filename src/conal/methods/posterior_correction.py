"""What true labels of some tasks say about the posterior of all: a small correction, held back where they are few."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

__all__ = ["PosteriorCorrection"]

PENALTIES = (1.0, 5.0)
"""Of matrix and shift, and of the scale: as if this many labels had confirmed the posterior as it is."""
ENOUGH = 50
"""Fewer true labels than this are held back more, in inverse proportion to their number."""
STEPS = 50


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
        return _corrected(log_posterior, self.log_scale, self.weight, self.shift)

    def fit(self, log_posterior: Tensor, truth: Tensor) -> None:
        """Fit to (n, C) log-posteriors of tasks whose (n,) true classes are known."""
        if not len(truth):
            return
        given = log_posterior.detach().double().log_softmax(-1)
        learned = [each.detach().double().clone().requires_grad_() for each in self.buffers()]
        strength = max(1.0, ENOUGH / len(truth))
        optimizer = torch.optim.LBFGS(learned, max_iter=STEPS, line_search_fn="strong_wolfe")

        def objective() -> Tensor:
            optimizer.zero_grad()
            loss = cross_entropy(_corrected(given, *learned), truth, reduction="sum") + strength * _penalty(*learned)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        with torch.enable_grad():
            optimizer.step(objective)  # type: ignore[arg-type]
        for buffer, found in zip(self.buffers(), learned, strict=True):
            buffer.copy_(found.detach())


def _corrected(log_posterior: Tensor, log_scale: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
    return log_scale.exp() * log_posterior + log_posterior.softmax(-1) @ weight + shift


def _penalty(log_scale: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
    matrix, scale = PENALTIES
    return matrix / 2 * (weight.square().sum() + shift.square().sum()) + scale / 2 * log_scale.square()
