"""Losses of independent networks, computed side by side in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

from conal.networks.draws import current_generator, drawing_from

__all__ = ["Part", "mean_loss"]

Part = tuple[nn.Module, Callable[[], Tensor]]
"""A network, and the loss that depends on its parameters alone."""


def mean_loss(parts: Sequence[Part], n_jobs: int = 1) -> Tensor:
    """Mean of the losses of independent networks; with ``n_jobs`` above 1, forward and backward passes run in threads.

    torch computes outside of Python's lock, so threads work at the same time. Gradients are computed with the losses
    and handed over when the mean is differentiated. Dropout of every network is drawn from a generator of its own, so
    that the order in which threads work does not count.

    Examples
    --------
    >>> one, two = nn.Linear(1, 1), nn.Linear(1, 1)
    >>> x = torch.ones(1, 1)
    >>> loss = mean_loss([(one, lambda: one(x).sum()), (two, lambda: two(x).sum())], n_jobs=2)
    >>> loss.backward()
    >>> one.weight.grad
    tensor([[0.5000]])
    """
    if n_jobs == 1 or not torch.is_grad_enabled():
        return torch.stack([loss() for _, loss in parts]).mean()
    parameters = [[p for p in network.parameters() if p.requires_grad] for network, _ in parts]

    seeds = torch.randint(2**62, (len(parts),), generator=current_generator()).tolist()

    def compute(k: int) -> tuple[Tensor, list[Tensor]]:
        with drawing_from(torch.Generator().manual_seed(seeds[k]), torch_too=True):
            loss = parts[k][1]()
        found = torch.autograd.grad(loss, parameters[k], allow_unused=True)
        pairs = zip(found, parameters[k], strict=True)
        return loss.detach(), [torch.zeros_like(p) if g is None else g for g, p in pairs]

    with ThreadPoolExecutor(n_jobs) as pool:
        results = list(pool.map(compute, range(len(parts))))
    value = torch.stack([loss for loss, _ in results]).mean()
    gradients = [gradient / len(parts) for _, found in results for gradient in found]
    flat = (parameter for found in parameters for parameter in found)
    loss: Tensor = _HandedOver.apply(value, gradients, *flat)  # type: ignore[no-untyped-call]
    return loss


class _HandedOver(torch.autograd.Function):
    """A value with precomputed gradients."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor], *parameters: Tensor) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, None, *(grads[0] * gradient for gradient in ctx.gradients))
