"""Held-out predictions of the training tasks: by networks, and by networks and other witnesses together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from conal.methods.batch import Batch
from conal.networks.cross_fitting import Network, held_out_log_proba
from conal.networks.witness import GaussianWitness, mixture_weights

__all__ = ["Predictions", "ScaledBatches", "fit_witness", "held_out_predictions", "mixed_predictions"]

Predictions = list[tuple[Tensor, Batch]]
"""Of every batch the (n, C) log-probabilities, and the batch without features."""

KEPT_CELLS = 2**26
"""Scaled features are kept for further passes if they have no more cells: 256 MB in single precision."""


class ScaledBatches:
    """The training batches with scaled features, for several passes.

    Small features are read and scaled in the first pass and kept for the others; large ones are read in every pass.

    Parameters
    ----------
    batches : iterable of Batch
        With raw features; can be gone through several times.
    scale : callable
        Makes a batch with scaled features.
    n_cells : int
        Number of cells of all features.
    """

    def __init__(self, batches: Iterable[Batch], scale: Callable[[Batch], Batch], n_cells: int) -> None:
        self._batches, self._scale = batches, scale
        self._keep = n_cells <= KEPT_CELLS
        self._kept: list[Batch] | None = None

    def __iter__(self) -> Iterator[Batch]:
        if not self._keep:
            return map(self._scale, self._batches)
        if self._kept is None:
            self._kept = list(map(self._scale, self._batches))
        return iter(self._kept)


def held_out_predictions(networks: Iterable[Network], batches: Iterable[Batch], fold_of: Tensor) -> Predictions:
    """Of every instance, the prediction of the network that was trained without its fold."""
    each = list(networks)
    return [
        (held_out_log_proba(each, batch.x, fold_of[batch.instances]), batch._replace(x=batch.x[:0]))
        for batch in batches
    ]


def fit_witness(
    witness: GaussianWitness, batches: Iterable[Batch], fold_of: Tensor, target: Tensor, n_tasks: int
) -> bool:
    """Fit the second witness to (N, C) soft labels of the training tasks; False if ``n_tasks``, trained on, are few."""

    def blocks() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for batch in batches:
            yield batch.x, fold_of[batch.instances], target[batch.instances]

    return witness.fit(blocks, n_tasks)


def mixed_predictions(
    witness: GaussianWitness,
    by_networks: Predictions,
    by_witness: Predictions,
    target: Tensor,
    label_evidence: Callable[[Batch], Tensor],
    *,
    calibrate: bool,
) -> Predictions:
    """Predictions of all witnesses together: each calibrated, and weighted by the likelihood of the annotations.

    Parameters
    ----------
    witness : GaussianWitness
        Its temperatures and weights are set.
    target : (n, C)
        What the witnesses were fitted to, in the order of the predictions.
    label_evidence : callable
        Of a batch, (P, C) how likely each label is under every class, as a logarithm.
    calibrate : bool
        Whether to fit the temperatures.
    """
    networks, gaussian = (torch.cat([each for each, _ in found]) for found in (by_networks, by_witness))
    batches = [batch for _, batch in by_networks]
    if calibrate:
        witness.calibrate(networks, gaussian, target)
    evidence = torch.cat([_by_task(label_evidence(batch), batch) for batch in batches])
    calibrated = witness.calibrated(networks, gaussian)
    witness.shares.copy_(mixture_weights((calibrated + evidence.to(calibrated)).logsumexp(-1).T))
    mixed = witness.mixed(networks, gaussian).split([len(batch.instances) for batch in batches])
    return list(zip(mixed, batches, strict=True))


def _by_task(evidence: Tensor, batch: Batch) -> Tensor:
    """(n, C) sums over the labels of each task."""
    return evidence.new_zeros(len(batch.instances), evidence.shape[1]).index_add_(0, batch.rows, evidence)
