"""Predictions of a trained method, of the members of an ensemble, and of fits without some true labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conal._arrays import FloatArray, IntArray
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.data.true_labels import without_each_part
from conal.errors import InputError
from conal.methods import Batch, CrowdMethod
from conal.methods.base import BatchPrediction
from conal.methods.ensemble import Ensemble
from conal.parameters.training import Settings
from conal.report.evidence import MIN_GOLD
from conal.training.batches import CrowdBatches, Instances
from conal.training.loop import TrainingResult
from conal.training.selection import predict_proba

# Fits of an ensemble: a seed for each, and the combined result.

SPAWN = 0xE5
"""Keeps the members' seeds apart from those of restarts."""


def members_of(model: CrowdMethod) -> list[CrowdMethod]:
    """The members of an ensemble, or the model alone."""
    return model.each if isinstance(model, Ensemble) else [model]


def settings_of_member(settings: Settings, number: int) -> Settings:
    """The first member equals a fit without an ensemble; the other seeds are drawn from its seed."""
    if number == 0:
        return settings
    seed = np.random.SeedSequence(settings.seed, spawn_key=(SPAWN, number)).generate_state(1)[0]
    return replace(settings, seed=int(seed))


def merged(results: Sequence[TrainingResult]) -> TrainingResult:
    """One result: the averaged model, and the course of all trainings."""
    first = results[0]
    if len(results) == 1:
        return first
    method = Ensemble([result.method for result in results])
    method.scaler = first.method.scaler
    lost = sorted(set.intersection(*(set(result.lost_classes) for result in results)))
    scores = [result.best_score for result in results if result.best_score is not None]
    return TrainingResult(
        method.eval(),
        torch.stack([result.class_logits for result in results], 1),
        [{"member": k + 1} | row for k, result in enumerate(results) for row in result.history],
        first.best_epoch,
        float(np.mean(scores)) if scores else None,
        sum(result.restarts for result in results),
        lost,
        {"ensemble": len(results), "best_epochs": [result.best_epoch for result in results]},
    )


# Predictions of a trained method for instances and annotations, computed in chunks.


def class_probas(model: CrowdMethod, instances: Instances) -> FloatArray:
    """(n, C) class probabilities from features alone."""
    return _normalised(predict_proba(model, instances))


def posterior(model: CrowdMethod, batches: CrowdBatches) -> FloatArray:
    """(n, C) P(true class | features and annotations)."""
    model.eval()
    return _normalised(torch.cat([model.infer(batch) for batch in batches.in_order()]))


def predict_training_tasks(
    model: CrowdMethod, batches: CrowdBatches, class_logits: Tensor | None = None
) -> BatchPrediction[FloatArray]:
    """Predictions for the training tasks; ``class_logits``, if given, avoids a pass of the network.

    Where the method itself inferred the labels of a task in training, that posterior is taken, and where it has
    networks that were not trained on the task, their prediction.
    """
    model.eval()
    parts = [
        model.predict_batch(batch, None if class_logits is None else class_logits[batch.instances])
        for batch in batches.in_order()
    ]
    found = _normalised(torch.cat([part.posterior for part in parts]))
    _replace(found, model.training_posterior())
    classifier = _normalised(torch.cat([part.class_proba for part in parts]))
    _replace(classifier, model.training_class_proba())
    rates = [part.omega for part in parts if part.omega is not None]
    omega = torch.cat(rates).double().numpy() if model.separates_noise else None
    return BatchPrediction(classifier, found, omega)


def _replace(found: FloatArray, own: Tensor | None) -> None:
    """Put in the method's own probabilities of the training tasks, for tasks that have any."""
    if own is not None:
        better = _normalised(own.cpu())
        trained = np.isfinite(better).all(1)
        found[trained] = better[trained]


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


# What is said about tasks with a true label by fits that did not use it.


USUAL_REFITS = 5
"""A fit with four fifths of the true labels is nearly as good as one with all of them."""
MOST_TASKS = 20_000
"""With more labelled tasks, a few true labels hardly teach the networks anything about their neighbours."""


class Refits:
    """Fits without a part of the true labels, which take long and run when somebody asks what they say.

    Parameters
    ----------
    count : int
        Number of fits.
    judge : callable
        Makes them, and gives the (N, C) posterior of all tasks: by these fits where there is a true label.
    """

    def __init__(self, count: int, judge: Callable[[], FloatArray]) -> None:
        self.count = count
        self._judge: Callable[[], FloatArray] | None = judge
        self._found: FloatArray | None = None

    @property
    def are_due(self) -> bool:
        """Whether nobody has asked yet."""
        return self._found is None

    def __call__(self) -> FloatArray:
        """What they say."""
        if self._judge is not None:
            self._found, self._judge = self._judge(), None
        assert self._found is not None  # noqa: S101 - there are fits to make, or they were made
        return self._found

    def __getstate__(self) -> dict[str, Any]:
        """A pickle cannot contain what makes the fits, so that they are made now."""
        return {"count": self.count, "_judge": None, "_found": self()}

    def __deepcopy__(self, memo: dict[int, Any]) -> Refits:
        return self


def planned_refits(refits: int | Literal["auto"], method: type[CrowdMethod], n_tasks: int, n_true: int) -> int:
    """The stated number; or, for "auto", 5 for xconal, data of moderate size and true labels that measure something.

    >>> from conal.methods import get
    >>> [planned_refits("auto", get("xconal"), n, 50) for n in (1_000, 1_000_000)]
    [5, 0]
    >>> planned_refits(3, get("conal"), 1_000, 50), planned_refits("auto", get("xconal"), 1_000, 5)
    (3, 0)
    """
    if refits != "auto":
        return refits
    return USUAL_REFITS if method.judges_true_labels and n_tasks <= MOST_TASKS and n_true >= MIN_GOLD else 0


def tasks_to_judge(known: IntArray, annotations: Annotations) -> IntArray:
    """The tasks that have both labels and a true label."""
    return np.flatnonzero((known != MISSING) & (annotations.labels_per_task() > 0))


def judged_by_refits(
    fit: Callable[[IntArray, str], list[TrainingResult]],
    data: CrowdBatches,
    known: IntArray,
    refits: int,
    posterior: FloatArray,
) -> FloatArray:
    """(N, C) the posterior, in which a fit without each part of the true labels judges the part.

    Predictions that leave out one task's true label have still learned from its neighbours, whose labels were inferred
    by networks that knew it. On a few hundred tasks this makes labels look better than they are by some points.

    Parameters
    ----------
    fit : callable
        Trains every member anew, given the (N,) true labels to use and a title.
    data : CrowdBatches
        The training tasks and all their annotations.
    known : (N,)
        True classes of the tasks, and -1 elsewhere.
    refits : int
        Number of parts, at most that of the tasks. With one, a fit without any true label judges all.
    posterior : (N, C)
        By the fit with all true labels; it is not changed.
    """
    found = posterior.copy()
    tasks = tasks_to_judge(known, data.annotations)
    for k, (fewer, part) in enumerate(without_each_part(known, tasks, refits), 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit with all true labels has told them
            result = merged(fit(fewer, f"without true labels {k}/{refits}"))
            found[part] = predict_training_tasks(result.method, data, result.class_logits).posterior[part]
    return found
