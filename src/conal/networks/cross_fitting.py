"""K networks, each trained without one fold of the instances, and predictions for the held-out fold."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from conal.networks.backbones import MLP
from conal.networks.draws import current_generator

# Moving averages of networks' weights.


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


# Temperature scaling of a network's probabilities.

LOWEST, HIGHEST = 0.05, 1.5
TOLERANCE = 1e-4
STEPS = 30
"""More than halving the range down to the tolerance takes."""


def fit_temperature(log_proba: Tensor, target: Tensor, highest: float = HIGHEST) -> Tensor:
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
    highest : float
        The largest factor. At 1, targets that the predictions have helped to infer make them no surer.

    Examples
    --------
    >>> import torch
    >>> sure = torch.tensor([[0.99, 0.01]]).log()
    >>> round(float(fit_temperature(sure, torch.tensor([[0.9, 0.1]]))), 2)  # log 9 / log 99
    0.48
    """
    by_class, total = log_proba.T.contiguous(), target.sum(-1)  # sums over many short rows would take most of the time
    expected = float((target.T * by_class).sum(0).double().sum())
    low, high, beta = LOWEST, highest, min(1.0, highest)
    for _ in range(STEPS):
        slope, curvature = _derivatives(beta, by_class, total, expected)
        low, high = (beta, high) if slope > 0 else (low, beta)
        wanted = beta - slope / curvature if curvature < 0 else (low if slope < 0 else high)
        wanted = min(max(wanted, LOWEST), highest)
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


# Cross-fitting: K networks, each trained without one fold of the instances, and predictions for the held-out folds.

Network = Callable[[Tensor], Tensor]
"""From (N, ...) scaled features to (N, C) class logits."""


def cross_fitted_loss(
    networks: Sequence[nn.Module], x: Tensor, target: Tensor, fold: Tensor, weight: float, *, mixup: bool = False
) -> Tensor:
    r"""Mean over the networks of the cross-entropy to (N, C) targets, each without the instances of its own fold.

    .. math:: \mathcal L = - \frac wK \sum_k \sum_{i : k_i \ne k} \sum_c q_i(c) \log f^{(k)}_c(x_i)

    conal's own networks share the dropout of their inputs, which would otherwise take as long as all else; further
    dropout is drawn for each.

    Parameters
    ----------
    fold : (N,) int64
        :math:`k_i`: network k is not trained on the instances of fold k.
    weight : float
        w, one over the number of instances that a network sees.
    mixup : bool
        Whether every network is trained on mixtures of its instances (:func:`mixed_pairs`).
    """
    mlps = [network for network in networks if isinstance(network, MLP)]
    is_shared = len(mlps) == len(networks)
    inputs = mlps[0].input(x) if is_shared else x
    logits_of: Sequence[Network] = [network.after_input for network in mlps] if is_shared else networks
    losses = []
    for k, network in enumerate(networks):
        others = torch.nonzero(fold != k).squeeze(1)
        if len(others) > 1:  # batch normalisation cannot take a single one
            seen, wanted = inputs.index_select(0, others), target.index_select(0, others)
            seen, wanted = mixed_pairs(seen, wanted) if mixup else (seen, wanted)
            losses.append(cross_entropy(logits_of[k](seen), wanted, reduction="sum") * weight)
        else:  # no loss, but gradients: processes that share a batch wait for those of all networks
            losses.append(torch.stack([parameter.sum() * 0 for parameter in network.parameters()]).sum())
    return torch.stack(losses).mean()


def mixed_pairs(x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mixup: features and targets between those of two instances, drawn anew for every instance.

    .. math:: \lambda x_i + (1 - \lambda) x_j, \quad \lambda q_i + (1 - \lambda) q_j, \qquad \lambda \sim U(0, 1)

    References
    ----------
    Zhang, Cisse, Dauphin and Lopez-Paz (2018). mixup: Beyond empirical risk minimization. ICLR.
    """
    generator = current_generator()
    partner = torch.randperm(len(x), generator=generator).to(x.device)
    share = torch.rand(len(x), 1, generator=generator).to(x)
    return torch.lerp(x[partner], x, share), torch.lerp(target[partner], target, share.to(target))


def held_out_log_proba(networks: Iterable[Network], x: Tensor, fold: Tensor) -> Tensor:
    """(N, C) log-probabilities of every instance by the network that was trained without its fold.

    >>> x = torch.tensor([[-999.0, 0.0], [-999.0, 0.0]])
    >>> held_out_log_proba([nn.Identity(), nn.ReLU()], x, fold=torch.tensor([0, 1])).exp().tolist()
    [[0.0, 1.0], [0.5, 0.5]]
    """
    rows, found = [], []
    for k, network in enumerate(networks):
        own = torch.nonzero(fold == k).squeeze(1)
        if len(own):  # not every module can take none
            rows.append(own)
            found.append(network(x.index_select(0, own)).float().log_softmax(-1))
    log_proba = torch.cat(found)
    return torch.empty_like(log_proba).index_copy_(0, torch.cat(rows), log_proba)


def mean_log_proba(networks: Iterable[nn.Module], x: Tensor) -> Tensor:
    """(N, C) log of the networks' mean probabilities."""
    each = torch.stack([network(x).log_softmax(-1) for network in networks])
    return each.logsumexp(0) - math.log(len(each))
