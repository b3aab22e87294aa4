"""Feature scaling as part of the network, so that it is saved and loaded with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

__all__ = ["FeatureScaler"]


class FeatureScaler(nn.Module):
    """``(x - shift) * factor``, clipped to plus and minus ``limit``; fixed before training and stored with the model.

    With ``root``, x is replaced by its square root first (and by 0 where it is negative), which tames the long tails of
    counts and of pooled ReLU activations.

    Integer features, such as 8-bit images, become floating point here. ``shift`` and ``factor`` are of double precision
    where features would vanish in single precision; then all of this is computed in double precision. The result has
    the precision of the network.
    """

    shift: Tensor
    factor: Tensor
    limit: Tensor
    root: Tensor

    def __init__(
        self,
        shift: Tensor | None = None,
        factor: Tensor | None = None,
        limit: Tensor | float = float("inf"),
        root: Tensor | bool = False,
    ) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(()) if shift is None else shift)
        self.register_buffer("factor", torch.ones(()) if factor is None else factor)
        self.register_buffer("limit", torch.as_tensor(limit, dtype=torch.float32))
        self.register_buffer("root", torch.as_tensor(root, dtype=torch.bool))
        # Numbers beside the tensors: tensors as limits take ten times as long, and looking into them takes time too.
        self._limit, self._rooted = float(limit), bool(root)
        self.dtype = self.shift.dtype
        """The precision of raw features: double where single precision would lose them."""

    def forward(self, x: Tensor) -> Tensor:
        """Scale a batch of instances."""
        x = x.to(self.shift.dtype)
        scaled = ((x.clamp(min=0).sqrt_() if self._rooted else x) - self.shift).mul_(self.factor)
        limited = scaled.clamp_(-self._limit, self._limit) if math.isfinite(self._limit) else scaled
        return limited.to(self.limit.dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Follows the network to other devices and to higher precision, not to a lower one than its own."""
        shift, factor = self.shift, self.factor
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        least = torch.promote_types(self.dtype, self.limit.dtype)
        if self.shift.dtype != least:
            self.shift, self.factor = (tensor.to(self.limit.device, least) for tensor in (shift, factor))
        return self
