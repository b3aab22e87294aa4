"""K networks, each trained without one fold of the instances, and predictions for the held-out fold."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy

from conal.networks.backbones import MLP, Dropout, draw_kept
from conal.networks.draws import drawing_from

# Loss and gradients of stacked perceptrons, written out: no graph, and memory that every step uses again.


class PerceptronStep:
    r"""The cross-entropy of K multilayer perceptrons without batch normalisation, with its gradients.

    With :math:`h_0 = x`, :math:`h_l = m_l \odot \max(0, W_l h_{l-1} + b_l)`, masks m of dropout, and logits a,

    .. math::
        \mathcal L = - w \sum_i \sum_c q_{ic} \log \mathrm{softmax}(a_i)_c, \qquad
        \delta_a = w (\mathrm{softmax}(a) \textstyle\sum_c q_c - q), \qquad
        \delta_{l-1} = m_{l-1} \odot [h_{l-1} > 0] \odot W_l^\top \delta_l

    It computes what automatic differentiation would, of small steps in about two thirds of the time.

    Parameters
    ----------
    layers : list of pairs of tensors
        (K, H, D) weights and (K, H) biases, from the input to the logits.
    input_dropout : nn.Module
        What is done to the instances first.
    dropout : list of float
        Probability of dropping a unit, for every layer but the last.
    """

    def __init__(self, layers: list[tuple[Tensor, Tensor]], input_dropout: nn.Module, dropout: list[float]) -> None:
        self.layers, self.input_dropout, self.dropout = layers, input_dropout, dropout
        self._memory: dict[str, Tensor] = {}

    def __call__(self, x: Tensor, seen: Seen, target: Tensor, weight: float) -> Tensor:
        """The loss; ``target`` is (M, C), in the order of ``seen.rows``."""
        parameters = [each for layer in self.layers for each in layer]
        wanted = torch.is_grad_enabled()
        loss: Tensor = _Step.apply(self, x, seen, target, weight, wanted, *parameters)  # type: ignore[no-untyped-call]
        return loss

    def forward(self, x: Tensor, seen: Seen) -> list[Tensor]:
        """The inputs, the hidden layers and the logits."""
        inputs = self.input_dropout(x.flatten(1))
        made = [torch.index_select(inputs, 0, seen.around, out=self._room("x", len(seen.around), inputs.shape[1]))]
        for level, (weight, bias) in enumerate(self.layers):
            h = self._room(f"h{level}", sum(seen.sizes), weight.shape[1])
            for own, piece, w, b in zip(h.split(seen.sizes), _pieces(seen, level), weight, bias, strict=True):
                torch.addmm(b, made[-1][piece], w.T, out=own)
            if level < len(self.dropout):
                h.relu_()
                if self.dropout[level]:
                    h.mul_(draw_kept(self._room(f"m{level}", *h.shape), self.dropout[level]))
            made.append(h)
        return made

    def backward(self, made: list[Tensor], delta: Tensor, seen: Seen) -> list[Tensor]:
        """Gradients of weights and biases, from those of the logits."""
        found: list[Tensor] = []
        for level in range(len(self.layers) - 1, -1, -1):
            (weight, bias), h = self.layers[level], made[level]
            parts = delta.split(seen.sizes)
            by_weight, by_bias = torch.empty_like(weight), torch.empty_like(bias)
            for k, (part, piece) in enumerate(zip(parts, _pieces(seen, level), strict=True)):
                torch.mm(part.T, h[piece], out=by_weight[k])
                torch.sum(part, 0, out=by_bias[k])
            found = [by_weight, by_bias, *found]
            if level:
                delta = self._room(f"d{level}", *h.shape)
                for own, part, w in zip(delta.split(seen.sizes), parts, weight, strict=True):
                    torch.mm(part, w, out=own)
                if self.dropout[level - 1]:
                    delta.mul_(self._room(f"m{level - 1}", *h.shape))
                # What is dropped is zero too, and so are its gradients already.
                torch.ops.aten.threshold_backward.grad_input(delta, h, 0, grad_input=delta)
        return found

    def _room(self, name: str, *shape: int) -> Tensor:
        """Memory for a tensor, with whatever is in it: the same for the same name, if it is large enough."""
        kept = self._memory.get(name)
        if kept is None or kept.numel() < prod(shape):
            kept = self._memory[name] = self.layers[0][0].new_empty(prod(shape))
        return kept[: prod(shape)].view(shape)


def _pieces(seen: Seen, level: int) -> list[slice]:
    """The rows of each network: at first they overlap, from the first hidden layer on every network has its own."""
    starts = [0, *accumulate(seen.sizes[:-1])] if level else seen.starts
    return [slice(start, start + size) for start, size in zip(starts, seen.sizes, strict=True)]


class _Step(torch.autograd.Function):
    """A loss whose gradients are computed with it."""

    @staticmethod
    def forward(
        ctx: Any, step: PerceptronStep, x: Tensor, seen: Seen, target: Tensor, weight: float, wanted: bool, *_: Tensor
    ) -> Tensor:
        made = step.forward(x, seen)
        log_proba = made[-1].log_softmax(-1)
        loss = (log_proba * target).sum() * -weight
        if wanted:
            delta = log_proba.exp_().mul_(target.sum(-1, keepdim=True)).sub_(target).mul_(weight)
            ctx.found = step.backward(made, delta, seen)
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        factor = float(gradients[0])
        found = ctx.found if factor == 1 else [each * factor for each in ctx.found]
        ctx.found = None  # the optimiser may keep them without a copy
        return (None,) * 6 + tuple(found)


# K networks of the same shape, trained as one: stacked weights, and one pass through their layers for all.


class Seen(NamedTuple):
    """The instances of a batch that each of K networks may see.

    Attributes
    ----------
    around : (m,) tensor
        Instances of the batch, some of them twice, so that what a network sees lies together.
    starts, sizes : list of int
        Network k sees ``around[starts[k] : starts[k] + sizes[k]]``.
    """

    around: Tensor
    starts: list[int]
    sizes: list[int]

    @property
    def rows(self) -> Tensor:
        """(M,) what the first network sees, then what the second one sees, and so on."""
        pieces = zip(self.starts, self.sizes, strict=True)
        return torch.cat([self.around[start : start + size] for start, size in pieces])


def all_but_one_fold(fold: Tensor, n_networks: int) -> Seen:
    """Network k sees all instances but those of fold k; nothing, if that would be a single one.

    The folds lie in a circle, of which every network sees an arc. Batch normalisation cannot take a single instance.

    >>> seen = all_but_one_fold(torch.tensor([0, 1, 2, 0, 1]), 3)
    >>> seen.rows.tolist()
    [1, 4, 2, 2, 0, 3, 0, 3, 1, 4]
    """
    folds = fold.numpy()  # of small arrays, an index takes NumPy a fifth of torch's time
    order, counts = folds.argsort(kind="stable"), np.bincount(folds, minlength=n_networks)
    sizes = len(fold) - counts
    around = np.concatenate([order, order[: sizes[-1]]])
    return Seen(torch.from_numpy(around), counts.cumsum().tolist(), np.where(sizes > 1, sizes, 0).tolist())


class StackedNetworks:
    r"""K networks whose weights lie in common tensors, so that a step of all costs little more than a large one.

    The networks stay whole: their weights become views of the stacked ones, :math:`W^{(k)} = W_{k \cdot \cdot}`, and
    follow every step. Only training uses the stack. The networks of a stack share the dropout of their inputs; further
    dropout is drawn for each.

    Parameters
    ----------
    networks : sequence of nn.Module
        Of the same class and shape; their weights are moved into the stack.

    Examples
    --------
    >>> one, two = MLP(3, 2, dropout=0), MLP(3, 2, dropout=0)
    >>> x = torch.randn(4, 3)
    >>> expected = torch.cat([one(x), two(x)])
    >>> stacked = StackedNetworks([one, two])
    >>> torch.allclose(stacked(x, Seen(torch.arange(4), [0, 0], [4, 4])), expected, atol=1e-6)
    True
    >>> _ = stacked.parameters[0].data.zero_()
    >>> one[1].weight.abs().max().item()
    0.0
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self.networks = list(networks)
        names = [name for name, _ in self.networks[0].named_parameters()]
        self.parameters = [self._merge(name) for name in names]
        self._by_name = dict(zip(names, self.parameters, strict=True))
        self._leaves = list(_leaves(self.networks[0]))
        self._step = self._written_out() if isinstance(self.networks[0], MLP) else None

    def _written_out(self) -> PerceptronStep | None:
        """The step of perceptrons without batch normalisation, which is faster than automatic differentiation."""
        layers = [layer for _, layer in self._leaves]
        weights = [weight for weight in self.parameters if weight.requires_grad]
        if any(isinstance(layer, nn.BatchNorm1d) for layer in layers) or len(weights) < len(self.parameters):
            return None
        first = layers[0] if isinstance(layers[0], Dropout) else nn.Identity()
        hidden = [layer.p for layer in layers if isinstance(layer, Dropout) and layer is not first]
        return PerceptronStep(list(zip(weights[::2], weights[1::2], strict=True)), first, hidden)

    def _merge(self, name: str) -> nn.Parameter:
        parts = [network.get_parameter(name) for network in self.networks]
        merged = nn.Parameter(torch.stack([part.detach() for part in parts]), requires_grad=parts[0].requires_grad)
        for part, view in zip(parts, merged.detach(), strict=True):
            part.data = view
        return merged

    def __call__(self, x: Tensor, seen: Seen) -> Tensor:
        """(M, C) logits of (N, ...) instances, each by the networks that may see it, in the order of ``seen.rows``."""
        if isinstance(self.networks[0], MLP):
            return self._mlp(x, seen)
        return torch.cat([logits[rows] for logits, rows in zip(self._mapped(x), _split(seen.rows, seen), strict=True)])

    def loss(self, x: Tensor, seen: Seen, target: Tensor, weight: float) -> Tensor:
        """The weighted sum of the cross-entropies to (M, C) targets in the order of ``seen.rows``."""
        if self._step is not None and self.networks[0].training:
            return self._step(x, seen, target, weight)
        return cross_entropy(self(x, seen), target, reduction="sum") * weight

    def _mlp(self, x: Tensor, seen: Seen) -> Tensor:
        h, are_own = x.flatten(1), False
        for name, layer in self._leaves:
            if isinstance(layer, nn.Linear):
                h = h if are_own else h.index_select(0, seen.around)
                starts = [0, *accumulate(seen.sizes[:-1])] if are_own else seen.starts
                weight, bias = self._by_name[f"{name}.weight"], self._by_name[f"{name}.bias"]
                h = _Linear.apply(h, weight, bias, starts, seen.sizes)  # type: ignore[no-untyped-call]
            elif isinstance(layer, nn.BatchNorm1d):
                h = self._normalised(h if are_own else h.index_select(0, seen.rows), name, seen)
            else:
                h = layer(h)
            are_own = are_own or isinstance(layer, nn.Linear | nn.BatchNorm1d)  # every network has its own rows now
        return h

    def _normalised(self, h: Tensor, name: str, seen: Seen) -> Tensor:
        """Every network's own batch normalisation, over what it sees."""
        layers = [network.get_submodule(name) for network in self.networks]
        return torch.cat([layer(own) if len(own) else own for layer, own in zip(layers, _split(h, seen), strict=True)])

    def _mapped(self, x: Tensor) -> Tensor:
        network = self.networks[0]
        logits: Tensor = vmap(lambda weights: functional_call(network, weights, (x,)), randomness="different")(
            self._by_name
        )
        return logits


def _split(h: Tensor, seen: Seen) -> tuple[Tensor, ...]:
    """What belongs to each network."""
    parts: tuple[Tensor, ...] = h.split(seen.sizes)
    return parts


class _Linear(torch.autograd.Function):
    """K linear layers: layer k takes ``sizes[k]`` rows of h from ``starts[k]`` on; together they make (M, H) values."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, starts: list[int], sizes: list[int]) -> Tensor:
        ctx.save_for_backward(h, weight)
        ctx.pieces = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        ctx.sizes = sizes
        made = h.new_empty(sum(sizes), weight.shape[1])
        for own, piece, w, b in zip(made.split(sizes), ctx.pieces, weight, bias, strict=True):
            torch.addmm(b, h[piece], w.T, out=own)
        return made

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        h, weight = ctx.saved_tensors
        parts = gradients[0].split(ctx.sizes)
        by_weight = torch.stack([part.T @ h[piece] for part, piece in zip(parts, ctx.pieces, strict=True)])
        by_bias = torch.stack([part.sum(0) for part in parts])
        by_input = None
        if ctx.needs_input_grad[0]:
            by_input = torch.zeros_like(h)
            for part, piece, w in zip(parts, ctx.pieces, weight, strict=True):
                by_input[piece].addmm_(part, w)
        return by_input, by_weight, by_bias, None, None


def stack(networks: Sequence[nn.Module], example: Tensor) -> StackedNetworks | None:
    """The stack of the networks, or None where they cannot be computed as one.

    conal's own MLP always can. Other modules are tried on ``example``, a few instances: modules with buffers, such as
    batch normalisation, and those that branch on their values are trained one by one.
    """
    if all(type(network) is MLP for network in networks) or _can_be_mapped(networks, example):
        return StackedNetworks(networks)
    return None


def _leaves(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Layers in the order in which nested sequences apply them."""
    for name, module in network.named_modules():
        if not isinstance(module, nn.Sequential | nn.Flatten):
            yield name, module


def _can_be_mapped(networks: Sequence[nn.Module], example: Tensor) -> bool:
    if next(networks[0].buffers(), None) is not None:
        return False
    weights, _ = torch.func.stack_module_state(list(networks))
    network = networks[0]
    try:
        with torch.random.fork_rng(devices=[]), drawing_from(torch.Generator(), torch_too=True):
            found = vmap(lambda each: functional_call(network, each, (example,)), randomness="different")(weights)
            found.sum().backward()
    except RuntimeError:  # what vmap says of operations that it cannot map
        return False
    return bool(found.dim() == 3)


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


# Temperature scaling of a network's probabilities.

LOWEST, HIGHEST = 0.05, 1.5
TOLERANCE = 1e-4
STEPS = 30
"""More than halving the range down to the tolerance takes."""


def fit_temperature(log_proba: Tensor, target: Tensor) -> Tensor:
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

    Examples
    --------
    >>> import torch
    >>> sure = torch.tensor([[0.99, 0.01]]).log()
    >>> round(float(fit_temperature(sure, torch.tensor([[0.9, 0.1]]))), 2)  # log 9 / log 99
    0.48
    """
    by_class, total = log_proba.T.contiguous(), target.sum(-1)  # sums over many short rows would take most of the time
    expected = float((target.T * by_class).sum(0).double().sum())
    low, high, beta = LOWEST, HIGHEST, 1.0
    for _ in range(STEPS):
        slope, curvature = _derivatives(beta, by_class, total, expected)
        low, high = (beta, high) if slope > 0 else (low, beta)
        wanted = beta - slope / curvature if curvature < 0 else (low if slope < 0 else high)
        wanted = min(max(wanted, LOWEST), HIGHEST)
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


def cross_fitted_loss(networks: Sequence[nn.Module], x: Tensor, target: Tensor, fold: Tensor, weight: float) -> Tensor:
    r"""Mean over the networks of the cross-entropy to (N, C) targets, each without the instances of its own fold.

    .. math:: \mathcal L = - \frac wK \sum_k \sum_{i : k_i \ne k} \sum_c q_i(c) \log f^{(k)}_c(x_i)

    Parameters
    ----------
    fold : (N,) int64
        :math:`k_i`: network k is not trained on the instances of fold k.
    weight : float
        w, one over the number of instances that a network sees.
    """
    losses = []
    for k, network in enumerate(networks):
        others = torch.nonzero(fold != k).squeeze(1)
        if len(others) > 1:  # batch normalisation cannot take a single one
            logits = network(x.index_select(0, others))
            losses.append(cross_entropy(logits, target.index_select(0, others), reduction="sum") * weight)
        else:  # no loss, but gradients: processes that share a batch wait for those of all networks
            losses.append(torch.stack([parameter.sum() * 0 for parameter in network.parameters()]).sum())
    return torch.stack(losses).mean()


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
