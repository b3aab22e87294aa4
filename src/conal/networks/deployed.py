"""Feature scaling as part of the network, and trained classifiers as plain modules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Self

import torch
from torch import Tensor, nn

# Feature scaling as part of the network, so that it is saved and loaded with it.


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


# Trained classifiers as plain modules, from features to class probabilities: nothing about annotators is in them.


class ClassProbabilities(nn.Module):
    r"""Class probabilities of one fit, from raw features.

    .. math:: p(x) = \mathrm{softmax}(f(s(x)) + b)

    Parameters
    ----------
    scaler : nn.Module
        s: the scaling of the features.
    network : nn.Module
        f: from scaled features to (N, C) class logits.
    shift : (C,) tensor
        b: what a stated class prior adds to the logits; zeros without one.

    Examples
    --------
    >>> p = ClassProbabilities(nn.Identity(), nn.Identity(), torch.tensor([0.0, 3.0]).log1p())
    >>> p(torch.zeros(1, 2)).tolist()
    [[0.20000000298023224, 0.800000011920929]]
    """

    shift: Tensor

    def __init__(self, scaler: nn.Module, network: nn.Module, shift: Tensor) -> None:
        super().__init__()
        self.scaler = scaler
        self.network = network
        self.register_buffer("shift", shift)

    def forward(self, features: Tensor) -> Tensor:
        """(N, ...) features to (N, C) probabilities."""
        logits: Tensor = self.network(self.scaler(features))
        return (logits + self.shift).softmax(-1)


class MeanProbabilities(nn.Module):
    """The mean of several classifiers' probabilities: an ensemble.

    Parameters
    ----------
    members : iterable of nn.Module
        Each from raw features to (N, C) probabilities.
    """

    def __init__(self, members: Iterable[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, features: Tensor) -> Tensor:
        """(N, ...) features to (N, C) probabilities."""
        return torch.stack([member(features) for member in self.members]).mean(0)
