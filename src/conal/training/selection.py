"""Which epoch to keep: by the user's gold labels, by held-out annotations, or the last."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conal.data.annotations import Annotations
from conal.methods.base import CrowdMethod
from conal.training.batches import CrowdBatches
from conal.training.estimated_confusion import estimate_confusion, to_device
from conal.training.instances import Instances, placed

__all__ = [
    "AnnotationLikelihood",
    "GoldAccuracy",
    "LastEpoch",
    "Selection",
    "class_logits",
    "hold_out",
    "predict_proba",
]


class Selection(Protocol):
    """A rule that scores the model after every epoch; the epoch with the highest score is kept."""

    @property
    def name(self) -> str:
        """Column of the score in the history."""

    def score(self, method: CrowdMethod) -> float | None:
        """The score, higher is better; None keeps the latest epoch."""


class LastEpoch:
    """Keep the last epoch of a fixed schedule."""

    name = "last"

    def score(self, method: CrowdMethod) -> float | None:
        """Nothing to compare."""
        return None


class GoldAccuracy:
    """Accuracy on a validation set with true labels, the paper's rule.

    Parameters
    ----------
    instances : Instances
    codes : (n,) int
        True classes, as positions in the model's class list; -1 for a class that it does not have.
    """

    name = "validation_accuracy"

    def __init__(self, instances: Instances, codes: npt.NDArray[np.int64]) -> None:
        self.instances = instances
        self.codes = codes

    def score(self, method: CrowdMethod) -> float:
        """Share of validation instances whose class is predicted."""
        predicted = predict_proba(method, self.instances).argmax(-1).numpy()
        return float((predicted == self.codes).mean())


class AnnotationLikelihood:
    """Mean log-likelihood of annotations that training did not see: selection without any true label.

    All annotations of a task are held out together, since a network that has seen an instance's other labels has
    partly memorised the answer. Methods without a model of the annotators are given confusion matrices estimated
    from the training annotations and their own predictions.

    Parameters
    ----------
    held_out, training : CrowdBatches
    """

    name = "holdout_log_likelihood"

    def __init__(self, held_out: CrowdBatches, training: CrowdBatches) -> None:
        self.held_out = held_out
        self.training = training

    def score(self, method: CrowdMethod) -> float:
        """Mean log P(y | x) over the held-out annotations."""
        if not method.models_annotators:
            estimate_confusion(method, self.training)
        method.eval()
        device = next(method.parameters()).device
        batches = (to_device(batch, device) for batch in self.held_out.labelled_in_order())
        scores = torch.cat([method.score_annotations(batch).cpu() for batch in batches])
        return float(scores.double().mean())


def hold_out(
    annotations: Annotations, fraction: float, seed: int, candidates: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.bool_]:
    """(n_annotations,) which annotations to keep for training, after holding out a fraction of the tasks.

    At least one task is held out and at least one stays. Tasks whose annotators have few other labels are as likely
    as others to be held out: an annotator left without training labels falls back to the common confusion.
    ``candidates`` (n_tasks,) are the tasks that may be held out; by default all that have labels.
    """
    labelled = np.flatnonzero(annotations.labels_per_task() if candidates is None else candidates)
    count = min(max(1, round(fraction * len(labelled))), len(labelled) - 1)
    chosen = np.zeros(annotations.n_tasks, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(labelled)[:count]] = True
    kept: npt.NDArray[np.bool_] = ~chosen[annotations.tasks]
    return kept


def predict_proba(method: CrowdMethod, instances: Instances) -> Tensor:
    """(n, C) class probabilities of all instances, in evaluation mode and in pieces."""
    device = next(method.parameters()).device
    method.eval()
    return torch.cat([method.predict_proba(placed(chunk, device)).float().cpu() for chunk in instances.chunks()])


@torch.no_grad()
def class_logits(method: CrowdMethod, instances: Instances) -> Tensor:
    """(n, C) class logits of all instances, in evaluation mode and in pieces."""
    device = next(method.parameters()).device
    method.eval()
    pieces = (method.scaler(placed(chunk, device)) for chunk in instances.chunks())
    return torch.cat([method.class_logits(piece).float().cpu() for piece in pieces])
