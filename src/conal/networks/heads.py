"""Backbones without their head, for methods with several heads."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["AnnotatorHeads", "split_head"]


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
        return (features @ every).view(len(features), R, C) + self.bias

    def of_pairs(self, features: Tensor, annotators: Tensor) -> Tensor:
        """(P, C) logits of head ``annotators[p]`` for feature row p."""
        logits: Tensor = (features.unsqueeze(1) @ self.weight[annotators]).squeeze(1) + self.bias[annotators]
        return logits
