"""Access to features in an array, a memory map, or any torch ``Dataset``, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

__all__ = ["Instances", "placed"]

CHUNK_BYTES = 4 * 2**20


class Instances:
    """Instances 0 .. n-1, each a tensor of one shape, read on demand.

    Parameters
    ----------
    source : (m, ...) array or torch Dataset
        Where features are. A Dataset's items are tensors or arrays, or tuples that begin with one.
    rows : (n,) integers, optional
        Row of the source for each instance; by default they are the same.
    """

    def __init__(self, source: Any, rows: npt.NDArray[np.int64] | None = None) -> None:
        self.source = source
        self.rows = rows
        self.is_dataset = isinstance(source, Dataset)

    def __len__(self) -> int:
        return len(self.source) if self.rows is None else len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one instance."""
        return tuple(self.take(np.array([0])).shape[1:])

    def take(self, index: npt.NDArray[np.int64]) -> Tensor:
        """(len(index), ...) the chosen instances; halves become float32, doubles and integers are unchanged.

        Doubles become float32 when they are scaled (:class:`conal.networks.FeatureScaler`), not before.
        """
        at = index if self.rows is None else self.rows[index]
        if self.is_dataset:
            return torch.stack([_first(self.source[int(k)]) for k in at])
        values = np.asarray(self.source[at])
        if values.dtype.kind == "f":
            kind = np.dtype(np.float32 if values.dtype.itemsize <= 4 else np.float64)
        else:
            kind = values.dtype.newbyteorder("=")  # torch needs the machine's byte order; files may have another
        return torch.from_numpy(values.astype(kind, copy=False))

    def sample(self, count: int) -> Tensor:
        """(n, ...) at most this many instances, evenly spaced, in double precision."""
        rows = np.unique(np.linspace(0, len(self) - 1, min(count, len(self))).round().astype(np.int64))
        return self.take(rows).double()

    def chunks(self) -> Iterator[Tensor]:
        """All instances in order, in pieces of bounded size."""
        width = self.take(np.array([0]))
        size = max(1, CHUNK_BYTES // max(1, width.nbytes))
        for start in range(0, len(self), size):
            yield self.take(np.arange(start, min(start + size, len(self))))


def placed(x: Tensor, device: torch.device) -> Tensor:
    """Features on a device; Apple's has no double precision."""
    return (x.float() if device.type == "mps" and x.dtype == torch.float64 else x).to(device)


def _first(item: Any) -> Tensor:
    value = item[0] if isinstance(item, tuple | list) else item
    tensor = torch.as_tensor(value)
    return tensor.float() if tensor.is_floating_point() and tensor.dtype != torch.float64 else tensor
