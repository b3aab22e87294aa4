"""Backbones without their head, for methods that put several in its place."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["AnnotatorHeads", "split_head"]


def split_head(backbone: nn.Module, n_classes: int) -> tuple[nn.Module, int]:
    """The trunk below the last linear layer, and how wide it is.

    The layer is replaced in place by the identity. A backbone that does not end in a linear layer of ``n_classes``
    outputs stays whole, and its class logits are the trunk's features.
    """
    name, last = [(name, module) for name, module in backbone.named_modules() if _is_layer(module)][-1]
    if not (isinstance(last, nn.Linear) and last.out_features == n_classes):
        return backbone, n_classes
    if not name:
        return nn.Identity(), last.in_features
    parent, _, attribute = name.rpartition(".")
    setattr(backbone.get_submodule(parent), attribute, nn.Identity())
    return backbone, last.in_features


def _is_layer(module: nn.Module) -> bool:
    """Whether the module has parameters or buffers of its own."""
    own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    return bool(own)


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
