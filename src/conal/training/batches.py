"""Batches of instances with their observed (annotator, label) pairs, cut from CSR without loops or sorting."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from conal.annotations import Annotations, gather_ranges
from conal.methods.base import Batch
from conal.training.instances import Instances

__all__ = ["CrowdBatches"]


class CrowdBatches:
    """The training data: instances, their annotations, and ways to go through them in batches.

    Parameters
    ----------
    instances : Instances
        Instance i is task i of the annotations.
    annotations : Annotations
    batch_size : int
        At most so many instances in a batch. An epoch is divided evenly, so that no batch is left with a single one.
    annotator_codes : (R,) integers, optional
        The model's code of each annotator, where it differs; -1 for annotators whom the model does not know.
    """

    def __init__(
        self,
        instances: Instances,
        annotations: Annotations,
        batch_size: int,
        annotator_codes: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.instances = instances
        self.annotations = annotations
        self.batch_size = batch_size
        self.labelled = np.flatnonzero(annotations.labels_per_task())
        codes = annotations.annotators if annotator_codes is None else annotator_codes[annotations.annotators]
        self._annotators = codes.astype(np.int64)
        self._labels = annotations.labels.astype(np.int64)

    @property
    def n_batches(self) -> int:
        """Batches in an epoch over the labelled instances."""
        return -(-len(self.labelled) // self.batch_size)

    def shuffled(self, rng: np.random.Generator) -> Iterator[Batch]:
        """One epoch over the instances that have labels, in random order."""
        order = rng.permutation(self.labelled)
        for index in np.array_split(order, self.n_batches):
            yield self.cut(index)

    def in_order(self) -> Iterator[Batch]:
        """All instances once, labelled or not, in order."""
        size = max(self.batch_size, 1024)
        for start in range(0, len(self.instances), size):
            yield self.cut(np.arange(start, min(start + size, len(self.instances))))

    def labelled_in_order(self) -> Iterator[Batch]:
        """The instances that have labels, once and in order."""
        size = max(self.batch_size, 1024)
        for start in range(0, len(self.labelled), size):
            yield self.cut(self.labelled[start : start + size])

    def cut(self, index: npt.NDArray[np.int64]) -> Batch:
        """The batch of these instances."""
        starts = self.annotations.indptr[index]
        counts = self.annotations.indptr[index + 1] - starts
        at = gather_ranges(starts, counts)
        return Batch(
            x=self.instances.take(index),
            instances=torch.from_numpy(index),
            rows=torch.from_numpy(np.repeat(np.arange(len(index)), counts)),
            annotators=torch.from_numpy(self._annotators[at]),
            labels=torch.from_numpy(self._labels[at]),
        )
