"""Which epoch to keep: by gold labels, by held-out annotations, or the last."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conal.aggregation.counts import normalised
from conal.data.annotations import Annotations
from conal.methods.base import Batch, CrowdMethod
from conal.methods.em import ExpectedCounts
from conal.training.batches import CrowdBatches, Instances, placed

# Confusion matrices for methods without confusion matrices, counted against the classifier's predictions.

PRIOR_STRENGTH = 1.0
"""Pseudo-labels per row that pull an annotator's matrix towards the common one."""


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on another device."""
    codes = {name: getattr(batch, name).to(device) for name in Batch._fields if name not in ("x", "weights")}
    return batch._replace(x=placed(batch.x, device), **codes)


@torch.no_grad()
def estimate_confusion(method: CrowdMethod, training: CrowdBatches, class_proba: Tensor | None = None) -> None:
    r"""Set the method's estimated confusion matrices.

    .. math::
        n_r[c, l] = \sum_{i : y_i^r = l} f_c(x_i), \quad
        \pi^g[c, l] \propto \textstyle\sum_r n_r[c, l] + \tfrac1C, \quad
        \pi^r[c, l] = \frac{n_r[c, l] + \alpha \pi^g[c, l]}{\sum_{l'} n_r[c, l'] + \alpha}

    with :math:`\alpha` = :data:`PRIOR_STRENGTH`. An annotator without labels gets the common matrix.

    Parameters
    ----------
    class_proba : (N, C) tensor, optional
        f of all training instances, where it is known already.
    """
    device = next(method.parameters()).device
    R, C = method.problem.n_annotators, method.problem.n_classes
    counts = ExpectedCounts(R, C, like=torch.zeros((), device=device))
    method.eval()
    for batch in training.labelled_in_order():
        moved = to_device(batch, device)
        probas = method.predict_proba(moved.x) if class_proba is None else class_proba[batch.instances].to(device)
        certain = method.with_truth(probas.float(), moved.instances)
        counts.add(certain[moved.rows], moved.annotators, moved.labels)
    by_annotator = counts.matrices()
    common = normalised(by_annotator.sum(0) + 1 / C)
    method.estimated_pi_g.copy_(common)
    total = by_annotator.sum(-1, keepdim=True) + PRIOR_STRENGTH
    method.estimated_pi_r.copy_((by_annotator + PRIOR_STRENGTH * common) / total)


# Which epoch to keep: by the user's gold labels, by held-out annotations, or the last.


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
