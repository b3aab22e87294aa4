"""K networks of the same shape, trained as one: stacked weights, and one matrix product where there were K."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from conal.networks.backbones import MLP

__all__ = ["StackedNetworks", "stack"]

Forward = Callable[[Tensor, Tensor], Tensor]


class StackedNetworks:
    r"""K networks whose weights lie in common tensors, so that a step of all costs little more than a large one.

    The networks stay whole: their weights become views of the stacked ones, :math:`W^{(k)} = W_{k \cdot \cdot}`, and
    follow every step. Only training uses the stack. Instances that a network must not see are left out by a mask:
    copying those that it may see would take longer than computing a few in vain. The networks of a stack share the
    dropout of their inputs, so that their first layers are one matrix product; further dropout is drawn for each.

    Parameters
    ----------
    networks : sequence of nn.Module
        Of the same class and shape; their weights are moved into the stack.

    Examples
    --------
    >>> one, two = MLP(3, 2, dropout=0), MLP(3, 2, dropout=0)
    >>> x = torch.randn(4, 3)
    >>> expected = torch.stack([one(x), two(x)])
    >>> stacked = StackedNetworks([one, two])
    >>> torch.allclose(stacked(x, torch.ones(2, 4)), expected, atol=1e-6)
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

    def _merge(self, name: str) -> nn.Parameter:
        parts = [network.get_parameter(name) for network in self.networks]
        merged = nn.Parameter(torch.stack([part.detach() for part in parts]), requires_grad=parts[0].requires_grad)
        for part, view in zip(parts, merged.detach(), strict=True):
            part.data = view
        return merged

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        """(K, N, C) logits of (N, ...) instances by all networks.

        ``mask`` (K, N) is 1 where network k may see instance i: batch normalisation takes only those into account.
        """
        if isinstance(self.networks[0], MLP):
            return self._mlp(x, mask)
        return self._mapped(x)

    def _mlp(self, x: Tensor, mask: Tensor) -> Tensor:
        h = x.flatten(1)
        for name, layer in _leaves(self.networks[0]):
            if isinstance(layer, nn.Linear):
                weight, bias = self._by_name[f"{name}.weight"], self._by_name[f"{name}.bias"]
                h = _first_layer(h, weight, bias) if h.dim() == 2 else _layer(h, weight, bias)
            elif isinstance(layer, nn.BatchNorm1d):
                if h.dim() == 2:  # the networks see different instances, and so different means
                    h = h.expand(len(self.networks), *h.shape)
                h = masked_batch_norm(h, mask, self._layers(name))
            elif not isinstance(layer, nn.Flatten):
                h = layer(h)
        return h

    def _layers(self, name: str) -> list[nn.BatchNorm1d]:
        found = [network.get_submodule(name) for network in self.networks]
        return [layer for layer in found if isinstance(layer, nn.BatchNorm1d)]

    def _mapped(self, x: Tensor) -> Tensor:
        network = self.networks[0]
        logits: Tensor = vmap(lambda weights: functional_call(network, weights, (x,)), randomness="different")(
            self._by_name
        )
        return logits


def _first_layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(K, N, H) values from instances that all networks share: one product, which is faster than K small ones."""
    h = torch.addmm(bias.flatten(), x, weight.flatten(0, 1).T)
    return h.view(len(x), *bias.shape).transpose(0, 1)


def _layer(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.baddbmm(bias.unsqueeze(1), h, weight.transpose(1, 2))


def stack(networks: Sequence[nn.Module], example: Tensor) -> StackedNetworks | None:
    """The stack of the networks, or None where they cannot be computed as one.

    conal's own MLP always can. Other modules are tried on ``example``, a few instances: modules with buffers, such as
    batch normalisation, and those that branch on their values are trained one by one.
    """
    if all(type(network) is MLP for network in networks) or _can_be_mapped(networks, example):
        return StackedNetworks(networks)
    return None


def masked_batch_norm(h: Tensor, mask: Tensor, layers: Sequence[nn.BatchNorm1d]) -> Tensor:
    r"""Batch normalisation without scale or shift of (K, N, D) values, for each network over its own instances.

    .. math:: \mu^{(k)} = \frac{\sum_i m_{ki} h^{(k)}_i}{\sum_i m_{ki}}, \qquad
        (\sigma^{(k)})^2 = \frac{\sum_i m_{ki} (h^{(k)}_i - \mu^{(k)})^2}{\sum_i m_{ki}}
    """
    first = layers[0]
    if not first.training:
        mean = torch.stack([layer.get_buffer("running_mean") for layer in layers])
        variance = torch.stack([layer.get_buffer("running_var") for layer in layers])
    else:
        n = mask.sum(1).clamp(min=1)[:, None]
        mean = torch.bmm(mask.unsqueeze(1), h).squeeze(1) / n
        variance = torch.bmm(mask.unsqueeze(1), (h - mean.unsqueeze(1)).square()).squeeze(1) / n
        _follow(layers, mean.detach(), variance.detach(), n)
    return (h - mean.unsqueeze(1)) * (variance + first.eps).rsqrt().unsqueeze(1)


def _follow(layers: Sequence[nn.BatchNorm1d], mean: Tensor, variance: Tensor, n: Tensor) -> None:
    """Running statistics, as :class:`torch.nn.BatchNorm1d` keeps them; of a batch of one there are none."""
    for k, layer in enumerate(layers):
        size = float(n[k])
        if size > 1:
            momentum = layer.momentum or 0.0
            layer.get_buffer("running_mean").lerp_(mean[k], momentum)
            layer.get_buffer("running_var").lerp_(variance[k] * (size / (size - 1)), momentum)
            layer.get_buffer("num_batches_tracked").add_(1)


def _leaves(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Layers in the order in which nested sequences apply them."""
    for name, module in network.named_modules():
        if not isinstance(module, nn.Sequential):
            yield name, module


def _can_be_mapped(networks: Sequence[nn.Module], example: Tensor) -> bool:
    if next(networks[0].buffers(), None) is not None:
        return False
    weights, _ = torch.func.stack_module_state(list(networks))
    network = networks[0]
    try:
        with torch.random.fork_rng(devices=[]):
            found = vmap(lambda each: functional_call(network, each, (example,)), randomness="different")(weights)
            found.sum().backward()
    except RuntimeError:  # what vmap says of operations that it cannot map
        return False
    return bool(found.dim() == 3)
