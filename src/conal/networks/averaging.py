"""Moving averages of networks' weights."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from conal.networks.stacked import StackedNetworks

__all__ = ["WeightAverage"]


class WeightAverage(nn.Module):
    r"""Copies of networks whose weights are moving averages.

    .. math:: \bar\theta_t = d_t \bar\theta_{t-1} + (1 - d_t) \theta_t

    The decay grows to its value, :math:`d_t = \min(d, t / (t + 10))`, so that the start is soon forgotten. Counts and
    running statistics are copied, not averaged.

    Parameters
    ----------
    networks : iterable of nn.Module
        The networks to follow; they stay where they are and are no part of this module.
    decay : float
        d; 0 makes the copies follow at once.

    Examples
    --------
    >>> layer = nn.Linear(1, 1)
    >>> average = WeightAverage([layer], decay=0.0)
    >>> _ = nn.init.constant_(layer.weight, 5.0)
    >>> average.update()
    >>> average.networks[0].weight.item()
    5.0
    """

    steps: Tensor

    def __init__(self, networks: Iterable[nn.Module], decay: float) -> None:
        super().__init__()
        self.decay = float(decay)
        followed = tuple(networks)
        self.networks = nn.ModuleList(copy.deepcopy(network).requires_grad_(False) for network in followed)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        # Looked up once: going through the modules takes longer than averaging. Buffers are replaced when a module is
        # moved, so that of these only the modules are kept.
        self._averaged: list[Tensor] = [weight for network in self.networks for weight in network.parameters()]
        self._followed: list[Tensor] = [weight for network in followed for weight in network.parameters()]
        self._with_buffers = [
            pair for pair in zip(self.networks, followed, strict=True) if next(pair[1].buffers(), None) is not None
        ]

    def follow(self, stacked: StackedNetworks) -> None:
        """Take the average of all networks at once, whose weights lie in common tensors now."""
        averages = StackedNetworks(list(self.networks))
        self._averaged, self._followed = list(averages.parameters), list(stacked.parameters)

    @torch.no_grad()
    def update(self) -> None:
        """Update the averages with the current weights."""
        self.steps += 1
        step = int(self.steps)
        decay = min(self.decay, step / (step + 10))
        torch._foreach_lerp_(self._averaged, self._followed, 1 - decay)
        for average, network in self._with_buffers:
            for mine, theirs in zip(average.buffers(), network.buffers(), strict=True):
                mine.copy_(theirs)
