"""What a trained method says about instances and annotations, computed in pieces."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conal.errors import InputError
from conal.methods import Batch, CrowdMethod
from conal.training import CrowdBatches, Instances
from conal.training.selection import predict_proba

__all__ = ["class_probas", "log_likelihood", "pair_rates", "posterior", "row_rates", "training_posterior"]

FloatArray = npt.NDArray[np.float64]


def class_probas(model: CrowdMethod, instances: Instances) -> FloatArray:
    """(n, C) class probabilities from features alone."""
    return _normalised(predict_proba(model, instances))


def posterior(model: CrowdMethod, batches: CrowdBatches) -> FloatArray:
    """(n, C) P(true class | features and annotations)."""
    model.eval()
    return _normalised(torch.cat([model.infer(batch) for batch in batches.in_order()]))


def training_posterior(model: CrowdMethod, batches: CrowdBatches) -> FloatArray:
    """(n, C) as :func:`posterior`, but by what the method itself inferred of the tasks that it was trained on."""
    found = posterior(model, batches)
    own = model.training_posterior()
    if own is not None:
        better = _normalised(own.cpu())
        trained = np.isfinite(better).all(1)
        found[trained] = better[trained]
    return found


def log_likelihood(model: CrowdMethod, batches: CrowdBatches) -> float:
    """Mean log P(label | features) of the annotations."""
    if not len(batches.labelled):
        raise InputError("there is no annotation to score")
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
