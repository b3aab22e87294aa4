"""Cross-fitting: K networks, each trained without one fold of the instances, and predictions for the held-out folds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from conal.networks.parallel import Part, mean_loss
from conal.networks.stacked import StackedNetworks, all_but_one_fold

__all__ = ["Network", "cross_fitted_loss", "held_out_log_proba", "mean_log_proba", "stacked_loss"]

Network = Callable[[Tensor], Tensor]
"""From (N, ...) scaled features to (N, C) class logits."""


def cross_fitted_loss(
    networks: Sequence[nn.Module], x: Tensor, target: Tensor, fold: Tensor, weight: float, n_jobs: int = 1
) -> Tensor:
    r"""Mean over the networks of the cross-entropy to (N, C) targets, each without the instances of its own fold.

    .. math:: \mathcal L = - \frac wK \sum_k \sum_{i : k_i \ne k} \sum_c q_i(c) \log f^{(k)}_c(x_i)

    Parameters
    ----------
    fold : (N,) int64
        :math:`k_i`: network k is not trained on the instances of fold k.
    weight : float
        w, one over the number of instances that a network sees.
    n_jobs : int
        Networks that are evaluated at a time, in threads.
    """
    parts: list[Part] = []
    for k, network in enumerate(networks):
        others = torch.nonzero(fold != k).squeeze(1)
        if len(others) > 1:  # batch normalisation cannot take a single one
            piece = x.index_select(0, others), target.index_select(0, others)
            parts.append((network, partial(_loss, network, *piece, weight)))
        else:  # no loss, but gradients: processes that share a batch wait for those of all networks
            parts.append((network, partial(_no_loss, network)))
    return mean_loss(parts, n_jobs)


def stacked_loss(networks: StackedNetworks, x: Tensor, target: Tensor, fold: Tensor, weight: float) -> Tensor:
    """:func:`cross_fitted_loss` of stacked networks."""
    seen = all_but_one_fold(fold, len(networks.networks))
    return networks.loss(x, seen, target.index_select(0, seen.rows), weight / len(seen.sizes))


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


def _loss(network: nn.Module, x: Tensor, target: Tensor, weight: float) -> Tensor:
    return cross_entropy(network(x), target, reduction="sum") * weight


def _no_loss(network: nn.Module) -> Tensor:
    return torch.stack([parameter.sum() * 0 for parameter in network.parameters()]).sum()
