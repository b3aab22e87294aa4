"""K networks of the same shape, trained as one: stacked weights, and one pass through their layers for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy

from conal.networks.backbones import MLP
from conal.networks.draws import drawing_from
from conal.networks.dropout import Dropout
from conal.networks.stacked_step import PerceptronStep

__all__ = ["Seen", "StackedNetworks", "all_but_one_fold", "stack"]


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
