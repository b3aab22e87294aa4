"""What an estimator takes over from a fit or an update: the model, what it says about the tasks, and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal.aggregation.counts import clamped
from conal.data.joining import Learnt
from conal.estimator import compute, doubts
from conal.estimator.adapters import Joined
from conal.estimator.exhibits import drawn
from conal.estimator.kept_data import TrainingData
from conal.estimator.provenance import model_section
from conal.estimator.results import FittedResults
from conal.estimator.true_labels import Truth, truth_metrics
from conal.parameters.training import planned_epochs
from conal.report.exhibits import Exhibits
from conal.training import CrowdBatches, Selection, TrainingResult

if TYPE_CHECKING:
    from conal.estimator.fitted import FittedClassifier

__all__ = ["Learned", "adopt"]


class Learned(NamedTuple):
    """What was trained, and on what.

    Attributes
    ----------
    result, selection
        The trained method, and how its epoch was selected.
    joined : Joined
        The training data.
    quoted : mapping or None
        Texts by task, where the instances are texts.
    truth : Truth or None
        True labels that were trained on.
    kept : TrainingData
        What an update needs.
    entry : Learnt
        The labels, as ``learned_from_`` lists them.
    """

    result: TrainingResult
    selection: Selection
    joined: Joined
    quoted: Mapping[Any, str] | None
    truth: Truth | None
    kept: TrainingData
    entry: Learnt


def adopt(estimator: FittedClassifier, learned: Learned) -> None:
    """Set everything that a fitted estimator has, but ``learned_from_``; warn where the labels are in doubt."""
    result, joined = learned.result, learned.joined
    instances, crowd, estimator.feature_names_in_ = joined
    estimator.model_ = result.method
    estimator.classes_ = crowd.classes
    estimator.ordinal_ = crowd.ordinal
    estimator.annotator_ids_ = crowd.annotator_ids
    estimator.task_ids_ = crowd.task_ids
    estimator.instance_shape_ = instances.shape
    estimator.n_features_in_ = int(np.prod(estimator.instance_shape_))
    estimator.history_ = result.history
    estimator.metrics_ = _metrics(estimator, learned)
    _adopt_labels(estimator, learned)
    estimator.kept_ = learned.kept


def _metrics(estimator: FittedClassifier, learned: Learned) -> dict[str, Any]:
    result, known = learned.result, _known(learned)
    instances, crowd, _ = learned.joined
    n_trained_on = result.method.problem.n_tasks
    return {
        "method": estimator.method,
        "selection": learned.selection.name,
        "best_epoch": result.best_epoch,
        "best_score": result.best_score,
        "epochs": max((int(row["epoch"]) for row in result.history), default=0),
        "epochs_planned": planned_epochs(estimator.epochs, n_trained_on),
        "seconds": sum(row["seconds"] for row in result.history),
        "restarts": result.restarts,
        "lost_classes": crowd.classes[result.lost_classes].tolist(),
        "n_tasks": crowd.n_tasks,
        "n_annotators": crowd.n_annotators,
        "n_annotations": crowd.n_annotations,
        "n_tasks_labelled": len(CrowdBatches(instances, crowd, estimator.batch_size, known=known).labelled),
        "n_tasks_trained_on": n_trained_on,
        "seed": int(estimator.seed),
        **result.members,
        **({} if known is None else truth_metrics(crowd, known)),
    }


def _adopt_labels(estimator: FittedClassifier, learned: Learned) -> None:
    """What the model says about the training tasks, and the results that are computed from it."""
    model, known = learned.result.method, _known(learned)
    instances, crowd, _ = learned.joined
    reading = compute.read_training_tasks(
        model, CrowdBatches(instances, crowd, estimator.batch_size), learned.result.class_logits
    )
    estimator.probas_ = reading.posterior if known is None else clamped(reading.posterior, known)
    doubts.warn_of_prior(model, estimator.probas_, crowd)
    estimator.labels_ = estimator.classes_[estimator.probas_.argmax(1)]
    results = FittedResults(
        model,
        crowd,
        estimator.probas_,
        reading.classifier,
        reading.omega,
        learned.quoted,
        model_section(estimator),
        exhibits=drawn(instances, crowd.task_ids) if learned.quoted is None else Exhibits(),
        about=estimator.annotator_info_,
        held_out=reading.held_out,
    )
    if learned.truth is not None:
        results = replace(results, **learned.truth.evidence(model, reading.posterior))
    if not (doubts.warn_of_contradiction(results.findings.evidence) or learned.result.lost_classes):
        doubts.warn_of_collapse(estimator.method, model, crowd, estimator.probas_, known)
    estimator.results_ = results


def _known(learned: Learned) -> npt.NDArray[np.int64] | None:
    return None if learned.truth is None else learned.truth.known
