"""Backbones without their head, for methods with several heads."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from conal.networks.draws import drawing_from

__all__ = ["AnnotatorHeads", "WeightedHeads", "mean_of_heads", "split_head"]


def split_head(backbone: nn.Module, shape: tuple[int, ...], n_classes: int) -> tuple[nn.Module, int]:
    """The trunk below the layer of class logits, and its width.

    A linear layer whose very output is the backbone's output is its head, and is replaced in place by the identity.
    Any other backbone stays whole, and what it gives, of whatever width, are the trunk's features.
    """
    outputs: dict[str, Tensor] = {}
    hooks = [
        module.register_forward_hook(lambda _module, _x, out, name=name: outputs.__setitem__(name, out))
        for name, module in backbone.named_modules()
        if isinstance(module, nn.Linear)
    ]
    result = _probe(backbone, shape)
    for hook in hooks:
        hook.remove()
    if not isinstance(result, Tensor):
        return backbone, n_classes  # it will fail on real instances too, with a message that says so
    heads = [name for name, out in outputs.items() if out is result]
    if not heads:
        return backbone, int(result.shape[-1])
    head = backbone.get_submodule(heads[0])
    width = int(head.in_features)  # type: ignore[arg-type]
    if head is backbone:
        return nn.Identity(), width
    parent, _, attribute = heads[0].rpartition(".")
    setattr(backbone.get_submodule(parent), attribute, nn.Identity())
    return backbone, width


@torch.no_grad()
def _probe(backbone: nn.Module, shape: tuple[int, ...]) -> object:
    """The backbone's output for two instances of zeros; None if that fails."""
    was_training = backbone.training
    try:
        return backbone.eval()(torch.zeros(2, *shape))
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None
    finally:
        backbone.train(was_training)


class AnnotatorHeads(nn.Module):
    """One linear layer from the trunk's features to class logits for every annotator.

    Parameters
    ----------
    width, n_classes, n_annotators : int
    """

    def __init__(self, width: int, n_classes: int, n_annotators: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(max(width, 1))  # as torch starts a linear layer
        self.weight = nn.Parameter(torch.empty(n_annotators, width, n_classes).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(n_annotators, n_classes).uniform_(-bound, bound))

    def forward(self, features: Tensor) -> Tensor:
        """(N, R, C) logits of all heads from (N, width) features."""
        R, width, C = self.weight.shape
        every = self.weight.transpose(0, 1).reshape(width, R * C)
        logits: Tensor = (features @ every).unflatten(-1, (R, C))
        return logits + self.bias

    @torch.no_grad()
    def chosen(self, annotators: Tensor) -> AnnotatorHeads:
        """The heads of these annotators, as a module of their own."""
        _, width, C = self.weight.shape
        with drawing_from(torch.Generator(), torch_too=True):  # initial weights are drawn and thrown away
            heads = AnnotatorHeads(width, C, len(annotators))
        heads.weight.copy_(self.weight[annotators])
        heads.bias.copy_(self.bias[annotators])
        return heads

    def of_pairs(self, features: Tensor, annotators: Tensor) -> Tensor:
        """(P, C) logits of head ``annotators[p]`` for feature row p."""
        logits: Tensor = (features.unsqueeze(1) @ self.weight[annotators]).squeeze(1) + self.bias[annotators]
        return logits


class WeightedHeads(nn.Module):
    """A trunk, and the weighted mean of its heads' probabilities.

    Parameters
    ----------
    trunk : nn.Module
        From scaled features to (N, width) features.
    heads : AnnotatorHeads
    log_weights : (R,) tensor
        Logarithms of the heads' weights.
    """

    log_weights: Tensor

    def __init__(self, trunk: nn.Module, heads: AnnotatorHeads, log_weights: Tensor) -> None:
        super().__init__()
        self.trunk = trunk
        self.heads = heads
        self.register_buffer("log_weights", log_weights)

    def forward(self, x: Tensor) -> Tensor:
        """(N, ...) scaled features to (N, C) log-probabilities."""
        return mean_of_heads(self.heads(self.trunk(x)), self.log_weights)


def mean_of_heads(logits: Tensor, log_weights: Tensor) -> Tensor:
    """(N, C) log of the weighted mean of the probabilities of (N, R, C) logits."""
    return torch.logsumexp(logits.log_softmax(-1) + log_weights[:, None], dim=1)
