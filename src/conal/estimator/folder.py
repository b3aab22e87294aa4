"""Estimators to model folders and back."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from conal import methods
from conal.data.encoding import Names, as_names
from conal.errors import InputError, ModelFolderError
from conal.estimator.base import CrowdClassifier
from conal.estimator.factory import make
from conal.estimator.preparation import build_members
from conal.estimator.provenance import CUSTOM, plain_parameters
from conal.estimator.results import StoredResults
from conal.findings.report import Report
from conal.findings.tables import read_tables
from conal.io.models import REPORT, names_from_json, names_to_json, read_document, read_model, write_model
from conal.io.results import proba_columns
from conal.methods import CrowdMethod, Problem
from conal.methods.ensemble import Ensemble
from conal.networks import FeatureScaler
from conal.text import TextFeatures
from conal.text.storage import from_state, to_state

__all__ = ["load", "save"]

TEXT, TEXT_TENSOR = "text.json", "text."
"""Where the vocabulary of a model of texts is, and how the names of its tensors begin."""
TASKS = "tasks.json"
"""The ids of the training tasks, which CSV cannot tell apart from numbers."""
FEATURES_OF_ANNOTATORS = ("auxiliary.annotator_features", "members.0.auxiliary.annotator_features")
"""The tensor's name in a single model and in an ensemble."""


def save(fitted: CrowdClassifier, folder: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write a fitted estimator as a model folder."""
    from conal import __version__

    problem = fitted.model_.problem
    config = {
        "conal_version": __version__,
        "method": fitted.method,
        "parameters": plain_parameters(fitted),
        "classes": names_to_json(fitted.classes_),
        "annotator_ids": names_to_json(fitted.annotator_ids_),
        "instance_shape": list(fitted.instance_shape_),
        "feature_names": list(getattr(fitted, "feature_names_in_", ())),
        "n_tasks_trained_on": problem.n_tasks,
    }
    tensors = {name: tensor.detach().numpy() for name, tensor in fitted.model_.state_dict().items()}
    documents: dict[str, Mapping[str, Any]] = {REPORT: fitted.results_.report, **_task_document(fitted)}
    if fitted.text_features_ is not None:
        numbers, documents[TEXT] = to_state(fitted.text_features_)
        tensors |= {TEXT_TENSOR + name: array for name, array in numbers.items()}
    write_model(folder, tensors, config, fitted.metrics_, fitted.tables_, documents, overwrite=overwrite)


def _task_document(fitted: CrowdClassifier) -> dict[str, dict[str, Any]]:
    """The task ids, unless they are of a type without a JSON form: these are text in a loaded model."""
    try:
        return {TASKS: {"task_ids": names_to_json(fitted.task_ids_)}}
    except InputError:
        return {}


def load(folder: str | PathLike[str], *, backbone: Any = None) -> CrowdClassifier:
    """Load a model folder that :meth:`CrowdClassifier.save` or ``conal fit`` wrote.

    Parameters
    ----------
    folder : path
    backbone : nn.Module or callable, optional
        The architecture, for a model whose backbone was the user's own: only its weights are stored.
    """
    tensors, config, metrics = read_model(folder)
    try:
        return _restore(Path(folder), tensors, config, metrics, backbone)
    except (KeyError, TypeError, RuntimeError) as error:
        raise ModelFolderError(f"{folder}: does not match this version of {config.get('method')!r}: {error}") from error


def _restore(
    folder: Path, tensors: dict[str, Any], config: dict[str, Any], metrics: dict[str, Any], backbone: Any
) -> CrowdClassifier:
    parameters = dict(config["parameters"])
    if parameters["backbone"] == CUSTOM:
        if backbone is None:
            raise InputError(f"{folder}: the model has a custom backbone; pass it as load(folder, backbone=...)")
        parameters["backbone"] = backbone
    parameters["hidden"] = tuple(parameters["hidden"])
    made = make(config["method"], **parameters)
    made.text_features_ = _restore_texts(folder, tensors, config)
    state = {name: torch.from_numpy(array) for name, array in tensors.items() if not name.startswith(TEXT_TENSOR)}
    made.classes_ = names_from_json(config["classes"])
    made.annotator_ids_ = names_from_json(config["annotator_ids"])
    made.instance_shape_ = tuple(config["instance_shape"])
    made.n_features_in_ = int(torch.Size(made.instance_shape_).numel())
    made.feature_names_in_ = config["feature_names"]
    made.metrics_ = metrics
    task_ids = names_from_json(read_document(folder, TASKS)["task_ids"]) if TASKS in config["files"] else None
    made.results_ = _stored_results(folder, config["files"], made, task_ids)
    made.history_ = made.tables_["history.csv"].to_pylist()
    _restore_labels(made, task_ids)
    made.model_ = _rebuild(made, config, state)
    return made


def _restore_texts(folder: Path, tensors: dict[str, Any], config: dict[str, Any]) -> TextFeatures | None:
    if TEXT not in config["files"]:
        return None
    numbers = {name.removeprefix(TEXT_TENSOR): array for name, array in tensors.items() if name.startswith(TEXT_TENSOR)}
    features = from_state(numbers, read_document(folder, TEXT), str(folder / TEXT))
    if features.components_.shape[:1] != tuple(config["instance_shape"]):
        raise ModelFolderError(f"{folder / TEXT}: makes features that do not match the model; fit the model again")
    return features


def _stored_results(folder: Path, files: list[str], made: CrowdClassifier, task_ids: Names | None) -> StoredResults:
    """Tables and report, read immediately: the folder may be removed or replaced later."""
    report = cast(Report, read_document(folder, REPORT) if REPORT in files else {})
    names = {"class": made.classes_, "annotator": made.annotator_ids_}
    names |= {} if task_ids is None else {"task": task_ids}
    return StoredResults(read_tables(folder, files, report, names), report)


def _restore_labels(made: CrowdClassifier, task_ids: Names | None) -> None:
    """What was inferred about the training tasks, from labels.csv; without stored ids, these are as CSV has them."""
    table = made.tables_["labels.csv"]
    made.task_ids_ = as_names(table["task"].to_pylist()) if task_ids is None else task_ids
    made.probas_ = np.column_stack([table[name].to_numpy() for name in proba_columns(made.classes_)])
    made.labels_ = made.classes_[made.probas_.argmax(1)]
    if len(made.task_ids_) != len(made.probas_):
        raise ModelFolderError(f"{TASKS}: lists {len(made.task_ids_):,} tasks, labels.csv {len(made.probas_):,}")


def _rebuild(made: CrowdClassifier, config: dict[str, Any], state: dict[str, torch.Tensor]) -> CrowdMethod:
    problem = Problem(
        shape=made.instance_shape_,
        n_classes=len(made.classes_),
        n_annotators=len(made.annotator_ids_),
        n_tasks=config["n_tasks_trained_on"],
        labels_per_annotator=state["labels_per_annotator"],
        annotator_features=next((state[name] for name in FEATURES_OF_ANNOTATORS if name in state), None),
    )
    with torch.random.fork_rng(devices=[]):  # initial weights are drawn and thrown away
        method = build_members(made, methods.get(made.method), problem)
    for each, prefix in _scaled(method):
        each.scaler = FeatureScaler(*(state[f"{prefix}scaler.{part}"] for part in ("shift", "factor", "limit", "root")))
    method.load_state_dict(state)
    return method.eval()


def _scaled(method: CrowdMethod) -> list[tuple[CrowdMethod, str]]:
    """The parts of the method that have a scaler, and the prefixes of their tensors."""
    if isinstance(method, Ensemble):
        return [(method, ""), *((member, f"members.{k}.") for k, member in enumerate(method.each))]
    return [(method, "")]
