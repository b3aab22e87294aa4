"""Trained classifiers as plain modules, from features to class probabilities: nothing about annotators is in them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from conal.networks.cross_fitting import mean_log_proba

__all__ = ["ClassProbabilities", "MeanOfNetworks", "MeanProbabilities"]


class ClassProbabilities(nn.Module):
    r"""Class probabilities of one fit, from raw features.

    .. math:: p(x) = \mathrm{softmax}(f(s(x)) + b)

    Parameters
    ----------
    scaler : nn.Module
        s: the scaling of the features.
    network : nn.Module
        f: from scaled features to (N, C) class logits.
    shift : (C,) tensor
        b: what a stated class prior adds to the logits; zeros without one.

    Examples
    --------
    >>> p = ClassProbabilities(nn.Identity(), nn.Identity(), torch.tensor([0.0, 3.0]).log1p())
    >>> p(torch.zeros(1, 2)).tolist()
    [[0.20000000298023224, 0.800000011920929]]
    """

    shift: Tensor

    def __init__(self, scaler: nn.Module, network: nn.Module, shift: Tensor) -> None:
        super().__init__()
        self.scaler = scaler
        self.network = network
        self.register_buffer("shift", shift)

    def forward(self, features: Tensor) -> Tensor:
        """(N, ...) features to (N, C) probabilities."""
        logits: Tensor = self.network(self.scaler(features))
        return (logits + self.shift).softmax(-1)


class MeanProbabilities(nn.Module):
    """The mean of several classifiers' probabilities: an ensemble.

    Parameters
    ----------
    members : iterable of nn.Module
        Each from raw features to (N, C) probabilities.
    """

    def __init__(self, members: Iterable[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, features: Tensor) -> Tensor:
        """(N, ...) features to (N, C) probabilities."""
        return torch.stack([member(features) for member in self.members]).mean(0)


class MeanOfNetworks(nn.Module):
    """Several networks as one, from scaled features to the log of their mean probabilities.

    Parameters
    ----------
    networks : iterable of nn.Module
        Each from scaled features to (N, C) class logits.
    """

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, x: Tensor) -> Tensor:
        """(N, ...) scaled features to (N, C) log-probabilities."""
        return mean_log_proba(self.networks, x)
