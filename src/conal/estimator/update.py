"""Updates of fitted classifiers: new labels, and further training that starts from what was learned."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from conal import methods
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, Names, as_names, as_text, decode_position
from conal.data.joining import RowIndex, append_labels, training_record
from conal.data.matching import differ_in_type, refuse_lookalikes, unmatched
from conal.errors import InputError, examples
from conal.estimator import fitting, inputs
from conal.estimator.kept_data import REMEDY, Parts
from conal.estimator.results import FittedResults, members_of
from conal.io import FeatureTable
from conal.io.features import is_text, texts_from
from conal.methods.cross_conal import CrossCoNALMethod
from conal.parameters import parameters_of
from conal.parameters.training import planned_epochs, planned_folds
from conal.training.batches import CrowdBatches, Instances
from conal.training.checkpoint import WarmStart
from conal.training.loop import TrainingResult
from conal.training.selection import LastEpoch

if TYPE_CHECKING:
    from conal.estimator.classifier import CrowdClassifier


SHARE = 5
"""An update has one of so many epochs, and E-steps, of a fit."""
FEWEST_EPOCHS = 4
SPAWN = 0x0D
"""Keeps the seeds of updates apart from those of restarts and ensembles."""


def update(fitted: CrowdClassifier, X: Any, y: Any, task_ids: Any, annotator_info: Any, where: str) -> None:
    """Train a fitted classifier on with new labels; see :meth:`CrowdClassifier.update`."""
    if fitted.kept_ is None:
        raise InputError(f"this model was saved without its training data, which an update needs; {REMEDY}")
    _refuse_unsupported(fitted)
    instances, annotations, working = fitted.kept_.found
    new = Annotations.of(y, where=where)
    crowd, _ = append_labels(annotations, new, where=where)
    more, texts = _new_instances(fitted, X, task_ids, new, crowd.task_ids[len(annotations) :], where)
    if more is not None:
        instances = _chained(instances, more)
    about = fitted.annotator_info_ if annotator_info is None else annotator_info
    fitted.annotator_info_, _ = fitting.about_annotators(about, None, crowd)
    data = CrowdBatches(instances, crowd, fitted.batch_size)
    results = _train(fitted, data, working)
    columns, quoted = _feature_names(fitted), _quoted(fitted, texts)
    fitting.set_fitted_state(fitted, results, data, LastEpoch(), columns, quoted)
    fitted.learned_from_ = (*fitted.learned_from_, training_record("update", new))


def _feature_names(fitted: CrowdClassifier) -> tuple[str, ...]:
    return tuple(getattr(fitted, "feature_names_in_", ()))


def _refuse_unsupported(fitted: CrowdClassifier) -> None:
    together = "fit old and new labels together"
    if methods.get(fitted.method).takes == "gold":
        raise InputError(f"a classifier of true labels cannot be updated; {together}")
    if fitted.model_.problem.n_true_labels:
        raise InputError(f"a model that was trained with true labels of some tasks cannot be updated; {together}")
    if fitted.model_.problem.annotator_features is not None:
        raise InputError(f"a model that was trained with features of annotators cannot be updated; {together}")


def _train(fitted: CrowdClassifier, data: CrowdBatches, working: list[dict[str, Tensor]]) -> list[TrainingResult]:
    """A short training of every member, from where it was."""
    _keep_folds(fitted, len(data.labelled))
    short, before = _shortened(fitted, len(data.labelled)), members_of(fitted.model_)
    builders = [fitting.make_builder(short, data, scaler=copy.deepcopy(old.scaler)) for old in before]
    tensors = ({name: each.detach().clone() for name, each in old.state_dict().items()} for old in before)
    warm = [WarmStart(*pair) for pair in zip(tensors, working, strict=True)]
    return fitting.train_members(short, builders, data, LastEpoch(), " update", warm=warm)


def _keep_folds(fitted: CrowdClassifier, n_tasks: int) -> None:
    """There are as many networks as before, also where so many tasks would be fitted with fewer."""
    trained = members_of(fitted.model_)[0]
    if isinstance(trained, CrossCoNALMethod) and trained.n_folds != planned_folds(trained.folds, n_tasks):
        fitted.set_params(folds=trained.n_folds)


def _shortened(fitted: CrowdClassifier, n_tasks: int) -> CrowdClassifier:
    """The estimator with the schedule of an update: fewer epochs and E-steps, and a rate that falls to the end."""
    short = copy.copy(fitted)
    epochs = max(FEWEST_EPOCHS, -(-planned_epochs(fitted.epochs, n_tasks) // SHARE))
    number = sum(entry["kind"] == "update" for entry in fitted.learned_from_) + 1
    seed = np.random.SeedSequence(int(fitted.seed), spawn_key=(SPAWN, number)).generate_state(1)[0]
    changes: dict[str, Any] = {"epochs": epochs, "warmup_epochs": 1, "schedule": "cosine", "seed": int(seed)}
    changes |= {"patience": None, "max_restarts": 0, "selection": "last"}
    if "rounds" in parameters_of(fitted):
        changes["rounds"] = max(1, -(-int(getattr(fitted, "rounds")) // SHARE))  # noqa: B009 - of one method only
    for name, value in changes.items():
        setattr(short, name, value)
    return short


def _new_instances(
    fitted: CrowdClassifier, X: Any, task_ids: Any, new: Annotations, wanted: Names, where: str
) -> tuple[Instances | None, Mapping[Any, str] | None]:
    """Instances of the tasks that are new, in the order of their codes, and their texts by name."""
    if not len(wanted):
        return None, None
    if X is None:
        raise InputError(
            f"{where}: {len(wanted):,} tasks are new ({examples(wanted)}); pass their features or texts (--features, "
            "--text)"
        )
    quoted = inputs.texts_by_name(texts_from(X, task_ids=task_ids)) if is_text(X) else None
    numbers = X
    if fitted.text_features_ is not None or is_text(X):
        numbers = inputs.as_numbers(fitted.text_features_, X)
    features = inputs.as_features(numbers, task_ids, columns=_feature_names(fitted))
    values = features.values if isinstance(features, FeatureTable) else features
    ids = features.ids if isinstance(features, FeatureTable) else task_ids
    if ids is None:
        by_row = new.by_position and len(new) == len(features)  # type: ignore[arg-type]
        ids = new.task_ids if by_row else np.arange(len(features))  # type: ignore[arg-type]
    known = as_names(ids)
    rows = decode_position(*((as_text(known), as_text(wanted)) if differ_in_type([known, wanted]) else (known, wanted)))
    missing = wanted[rows == MISSING].tolist()
    if missing:
        if isinstance(features, FeatureTable) and isinstance(features.ids, RowIndex):  # which are no ids then
            return _new_instances(fitted, replace(features, ids=None), None, new, wanted, where)
        refuse_lookalikes(*unmatched(known, wanted, rows), "tasks", where, "here and in the features")
        raise InputError(
            f"{where}: {len(missing):,} new tasks have no features: {examples(missing)}; complete the features, or "
            "leave out the labels of these tasks"
        )
    instances = Instances(values, rows)
    if instances.shape != fitted.instance_shape_:
        raise InputError(f"instances have shape {instances.shape}, the model was trained on {fitted.instance_shape_}")
    return instances, quoted


def _quoted(fitted: CrowdClassifier, more: Mapping[Any, str] | None) -> dict[Any, str] | None:
    """Texts of old and new tasks, as far as they are known: a model folder does not have the old ones."""
    if fitted.text_features_ is None:
        return None
    results = fitted.results_
    old = (results.evidence.texts or {}) if isinstance(results, FittedResults) else {}
    return {**old, **(more or {})}


def _chained(old: Instances, new: Instances) -> Instances:
    """Old and new instances as one; those of earlier updates are not nested."""
    parts = old.source.parts if isinstance(old.source, Parts) and old.rows is None else [old]
    return Instances(Parts([*parts, new]))
