"""Moving averages of networks' weights."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn

__all__ = ["WeightAverage"]


class WeightAverage(nn.Module):
    r"""Copies of networks whose weights are moving averages.

    .. math:: \bar\theta_t = d_t \bar\theta_{t-1} + (1 - d_t) \theta_t

    The decay grows to its value, :math:`d_t = \min(d, t / (t + 10))`, so that the start is soon forgotten. Counts and
    running statistics are copied, not averaged.

    Parameters
    ----------
    networks : iterable of nn.Module
    decay : float
        d; 0 makes the copies follow at once.

    Example
    -------
    >>> layer = nn.Linear(1, 1)
    >>> average = WeightAverage([layer], decay=0.0)
    >>> _ = nn.init.constant_(layer.weight, 5.0)
    >>> average.update([layer])
    >>> average.networks[0].weight.item()
    5.0
    """

    steps: Tensor

    def __init__(self, networks: Iterable[nn.Module], decay: float) -> None:
        super().__init__()
        self.decay = float(decay)
        self.networks = nn.ModuleList(copy.deepcopy(network).requires_grad_(False) for network in networks)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def update(self, networks: Iterable[nn.Module]) -> None:
        """Take in the networks' present weights."""
        self.steps += 1
        step = int(self.steps)
        decay = min(self.decay, step / (step + 10))
        for average, network in zip(self.networks, networks, strict=True):
            kept: list[Tensor] = list(average.parameters())
            torch._foreach_lerp_(kept, [parameter.detach() for parameter in network.parameters()], 1 - decay)
            for mine, theirs in zip(average.buffers(), network.buffers(), strict=True):
                mine.copy_(theirs)
