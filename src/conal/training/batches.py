"""Batches of instances with their observed (annotator, label) pairs, cut from CSR without loops or sorting."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from conal.data.annotations import Annotations
from conal.data.container import gather_ranges
from conal.methods.base import Batch
from conal.training.instances import Instances

__all__ = ["CrowdBatches"]

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
