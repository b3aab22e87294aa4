"""Principal components of features, in passes over blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Components", "principal_components"]

Blocks = Callable[[], Iterable[Tensor]]
"""Goes through all (n, d) blocks of rows, once for every call."""

EXACT_WIDTH = 1024
"""Up to this many features, the components come from the whole covariance matrix."""
PASSES, OVERSAMPLING = 4, 16
"""Of the subspace iteration for more features: rounds, and directions beyond those that are wanted."""


class Components(NamedTuple):
    """The mean of the features (d,), and an orthonormal basis (d, p) of the directions that vary most."""

    mean: Tensor
    basis: Tensor

    def of(self, x: Tensor) -> Tensor:
        """(n, p) components of (n, d) rows; a square basis is the identity."""
        centred = x.float() - self.mean
        return centred if self.basis.shape[0] == self.basis.shape[1] else centred @ self.basis


def principal_components(blocks: Blocks, count: int) -> Components:
    """The first ``count`` principal components, or all directions if there are no more.

    Many features have a large covariance matrix. Subspace iteration (Halko, Martinsson and Tropp 2011) then finds the
    components without it. It starts from fixed random directions: the same features give the same components.

    >>> rows = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> principal_components(lambda: [rows[:2], rows[2:]], 1).basis.abs().tolist()
    [[1.0], [0.0]]
    """
    mean = _mean(blocks)
    width = len(mean)
    if count >= width:
        return Components(mean, torch.eye(width, device=mean.device))
    if width <= EXACT_WIDTH:
        scatter = _scatter(blocks, mean)
        return Components(mean, torch.linalg.eigh(scatter).eigenvectors[:, -count:].flip(1).float())
    return Components(mean, _iterated(blocks, mean, count))


def _mean(blocks: Blocks) -> Tensor:
    number, total = 0, torch.zeros((), dtype=torch.float64)
    for x in blocks():
        number, total = number + len(x), total.to(x.device) + x.double().sum(0)
    return (total / max(number, 1)).float()


def _scatter(blocks: Blocks, mean: Tensor, basis: Tensor | None = None) -> Tensor:
    """(p, p) sum of products of centred rows, in double precision; along the directions of a basis, if there is one."""
    total: Tensor | None = None
    for x in blocks():
        centred = x - mean if basis is None else (x - mean) @ basis
        product = (centred.T @ centred).double()
        total = product if total is None else total.add_(product)
    assert total is not None  # noqa: S101 - there are rows
    return total


def _iterated(blocks: Blocks, mean: Tensor, count: int) -> Tensor:
    """The basis by subspace iteration: what varies most grows most when the scatter matrix is applied again."""
    width, wide = len(mean), min(count + OVERSAMPLING, len(mean))
    start = torch.randn(width, wide, generator=torch.Generator().manual_seed(0)).to(mean.device)
    basis = torch.linalg.qr(start).Q
    for _ in range(PASSES):
        applied = torch.zeros_like(basis)
        for x in blocks():
            centred = x - mean
            applied += centred.T @ (centred @ basis)
        basis = torch.linalg.qr(applied).Q
    within = torch.linalg.eigh(_scatter(blocks, mean, basis)).eigenvectors[:, -count:].flip(1)
    found: Tensor = basis @ within.float()
    return found
