"""Feature scaling as part of the network, so that it is saved with it and never forgotten."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["FeatureScaler"]


class FeatureScaler(nn.Module):
    """``(x - shift) * factor``, with both fixed before training and stored with the model.

    Integer features, such as 8-bit images, become floating point here.
    """

    shift: Tensor
    factor: Tensor

    def __init__(self, shift: Tensor | None = None, factor: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(()) if shift is None else shift)
        self.register_buffer("factor", torch.ones(()) if factor is None else factor)

    def forward(self, x: Tensor) -> Tensor:
        """Scale a batch of instances."""
        return (x.to(self.shift.dtype) - self.shift) * self.factor
