"""Predictions of a trained method for instances and annotations, computed in chunks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conal.errors import InputError
from conal.methods import Batch, CrowdMethod
from conal.training import CrowdBatches, Instances
from conal.training.selection import predict_proba

__all__ = [
    "TrainingReading",
    "class_probas",
    "log_likelihood",
    "pair_rates",
    "posterior",
    "read_training_tasks",
    "row_rates",
    "training_posterior",
]

FloatArray = npt.NDArray[np.float64]


class TrainingReading(NamedTuple):
    """Predictions of a trained method for its training tasks.

    ``classifier`` (n, C) by features alone, ``posterior`` (n, C) by features and annotations, and ``omega``
    (n_annotations,) where the method separates common from individual confusion. ``held_out`` says whether the
    classifier was not trained on the tasks that it predicts.
    """

    classifier: FloatArray
    posterior: FloatArray
    omega: FloatArray | None
    held_out: bool


def class_probas(model: CrowdMethod, instances: Instances) -> FloatArray:
    """(n, C) class probabilities from features alone."""
    return _normalised(predict_proba(model, instances))


def posterior(model: CrowdMethod, batches: CrowdBatches) -> FloatArray:
    """(n, C) P(true class | features and annotations)."""
    model.eval()
    return _normalised(torch.cat([model.infer(batch) for batch in batches.in_order()]))


def read_training_tasks(
    model: CrowdMethod, batches: CrowdBatches, class_logits: Tensor | None = None
) -> TrainingReading:
    """Predictions for the training tasks; ``class_logits``, if given, avoids a pass of the network.

    Where the method itself inferred the labels of a task in training, that posterior is taken, and where it has
    networks that were not trained on the task, their prediction.
    """
    model.eval()
    parts = [
        model.read(batch, None if class_logits is None else class_logits[batch.instances])
        for batch in batches.in_order()
    ]
    found = _normalised(torch.cat([part.posterior for part in parts]))
    _replace(found, model.training_posterior())
    classifier = _normalised(torch.cat([part.class_proba for part in parts]))
    held_out = model.training_class_proba()
    _replace(classifier, held_out)
    rates = [part.omega for part in parts if part.omega is not None]
    omega = torch.cat(rates).double().numpy() if model.separates_noise else None
    return TrainingReading(classifier, found, omega, held_out is not None)


def _replace(found: FloatArray, own: Tensor | None) -> None:
    """Put in the method's own probabilities of the training tasks, for tasks that have any."""
    if own is not None:
        better = _normalised(own.cpu())
        trained = np.isfinite(better).all(1)
        found[trained] = better[trained]


def training_posterior(model: CrowdMethod, batches: CrowdBatches) -> FloatArray:
    """(n, C) as :func:`posterior`, but with the method's own inference for its training tasks."""
    return read_training_tasks(model, batches).posterior


def log_likelihood(model: CrowdMethod, batches: CrowdBatches) -> float:
    """Mean log P(label | features) of the annotations."""
    if not len(batches.labelled):
        raise InputError("there are no annotations to score")
    model.eval()
    return float(torch.cat([model.score_annotations(batch) for batch in batches.labelled_in_order()]).double().mean())


def pair_rates(model: CrowdMethod, batches: CrowdBatches) -> FloatArray:
    """(n_annotations,) omega of every annotation, in their order."""
    model.eval()
    rates = [model.common_noise_rate(batch) for batch in batches.labelled_in_order()]
    return torch.cat([torch.empty(0), *rates]).double().numpy()


def row_rates(model: CrowdMethod, instances: Instances, annotators: npt.NDArray[np.int64]) -> FloatArray:
    """(n,) omega of (instance k, annotator k), by the model's annotator codes; -1 is unknown."""
    model.eval()
    codes = torch.from_numpy(annotators)
    rates, start = [], 0
    for x in instances.chunks():
        rows = torch.arange(len(x))
        batch = Batch(x, rows + start, rows, codes[start : start + len(x)], torch.zeros_like(rows))
        rates.append(model.common_noise_rate(batch))
        start += len(x)
    return torch.cat(rates).double().numpy()


def _normalised(probas: Tensor) -> FloatArray:
    """In double precision rows sum to one, as scikit-learn's metrics expect."""
    values = probas.double().numpy()
    return np.asarray(values / values.sum(1, keepdims=True))
