"""Batches of instances with their observed (annotator, label) pairs, cut from CSR without loops or sorting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from conal.data.annotations import Annotations, gather_ranges
from conal.methods.base import Batch

# Access to features in an array, a memory map, or any torch ``Dataset``, batch by batch.

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


# Batches of instances with their observed (annotator, label) pairs, cut from CSR without loops or sorting.

EVALUATION_BATCH = 1024
"""Instances at a time where nothing is learned."""


class CrowdBatches:
    """The training data: instances, their annotations, and ways to go through them in batches.

    Parameters
    ----------
    instances : Instances
        Instance i is task i of the annotations.
    annotations : Annotations
    batch_size : int
        Number of instances in a batch. An epoch is divided evenly, and never into batches of one, which batch
        normalisation cannot take.
    annotator_codes : (R,) integers, optional
        The model's code of each annotator, if it differs; -1 for unknown annotators.
    known : (N,) integers, optional
        True classes of the tasks that are supplied for training, and -1 elsewhere. Such a task is trained on also if
        it has no annotations.

    Attributes
    ----------
    labelled : (n,) integers
        The tasks that are trained on.
    """

    def __init__(
        self,
        instances: Instances,
        annotations: Annotations,
        batch_size: int,
        annotator_codes: npt.NDArray[np.int64] | None = None,
        known: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.instances = instances
        self.annotations = annotations
        self.batch_size = batch_size
        self.known = known
        has_labels = annotations.labels_per_task() > 0
        self.labelled = np.flatnonzero(has_labels if known is None else has_labels | (known >= 0))
        self._codes = annotator_codes

    @property
    def n_batches(self) -> int:
        """Batches in an epoch over the labelled instances: as many as needed, but none of a single instance."""
        n = len(self.labelled)
        return max(1, min(-(-n // self.batch_size), n // 2))

    def shuffled(self, rng: np.random.Generator, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """One epoch over the instances that have labels, in random order.

        Of several processes with the same ``rng``, each gets its part of every batch, with weights such that the mean
        of their losses is the loss of the whole.
        """
        order = rng.permutation(self.labelled)
        for index in np.array_split(order, self.n_batches):
            if world == 1:
                yield self.cut(index)
            else:
                n_labels = int((self.annotations.indptr[index + 1] - self.annotations.indptr[index]).sum())
                yield self.cut(index[rank::world])._replace(weights=(world / len(index), world / n_labels))

    def in_order(self) -> Iterator[Batch]:
        """All instances once, labelled or not, in order."""
        return self._pieces(np.arange(len(self.instances)))

    def labelled_in_order(self) -> Iterator[Batch]:
        """The instances that have labels, once and in order."""
        return self._pieces(self.labelled)

    def _pieces(self, index: npt.NDArray[np.int64]) -> Iterator[Batch]:
        size = max(self.batch_size, EVALUATION_BATCH)
        for start in range(0, len(index), size):
            yield self.cut(index[start : start + size])

    def cut(self, index: npt.NDArray[np.int64]) -> Batch:
        """The batch of these instances."""
        starts = self.annotations.indptr[index]
        counts = self.annotations.indptr[index + 1] - starts
        at = gather_ranges(starts, counts)
        annotators = self.annotations.annotators[at].astype(np.int64)
        if self._codes is not None:
            annotators = self._codes[annotators]
        return Batch(
            x=self.instances.take(index),
            instances=torch.from_numpy(index),
            rows=torch.from_numpy(np.repeat(np.arange(len(index)), counts)),
            annotators=torch.from_numpy(annotators),
            labels=torch.from_numpy(self.annotations.labels[at].astype(np.int64)),
        )
