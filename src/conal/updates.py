"""Aggregators in folders, for plans and updates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import FloatArray, IntArray
from conal.aggregation.base import Aggregator, make
from conal.data.annotations import Annotations
from conal.data.annotator_info import in_order_of
from conal.data.encoding import MISSING, Names
from conal.data.joining import TrainingRecord
from conal.errors import InputError, ModelFolderError
from conal.io.model_folder import (
    AGGREGATOR,
    TASKS,
    ModelFolder,
    Tensors,
    annotator_info_from_json,
    annotator_info_to_json,
    columns_of,
    names_from_json,
    names_to_json,
    write_model,
)
from conal.parameters import check_parameters

# Aggregators to folders and back: labels, posterior, and every fitted attribute that is an array or plain value.

FOLDER_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, pa.ArrowException)
"""What happens where values of a folder have unexpected types or sizes."""
SUM_TOLERANCE = 1e-6
FITTED = "fitted."
"""How the names of tensors begin that are fitted attributes."""
ATTRIBUTE = re.compile(r"[a-z][a-z0-9_]*_")
COMMON_ATTRIBUTES = {
    *("annotations_", "classes_", "task_ids_", "annotator_ids_", "probas_", "codes_", "labels_"),
    *("known_codes_", "inclusion_", "annotator_info_", "learned_from_", "results_", "columns_"),
}
"""Attributes that every aggregator has, and that are stored or made otherwise."""


def save(fitted: Aggregator, folder: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write a fitted aggregator as a folder that can be updated."""
    from conal import __version__

    if not hasattr(fitted, "annotations_"):
        raise InputError(f"{fitted.name} is not fitted yet; fit it first, and save it then")
    crowd = fitted.annotations_
    if crowd.abstentions is not None:
        raise InputError("abstentions cannot be kept for updates; leave out --save, and fit all labels together")
    own = {name: value for name, value in vars(fitted).items() if name.endswith("_") and name not in COMMON_ATTRIBUTES}
    config = {
        "conal_version": __version__,
        "method": fitted.name,
        "parameters": _plain_parameters(fitted),
        "classes": names_to_json(crowd.classes),
        "annotator_ids": names_to_json(crowd.annotator_ids),
        "ordinal": crowd.ordinal,
        "fitted": {name: value for name, value in own.items() if _is_plain(value)},
        "learned_from": list(fitted.learned_from_),
        **annotator_info_to_json(fitted.annotator_info_),
        "columns": dict(fitted.columns_),
    }
    tensors: dict[str, npt.NDArray[Any]] = {
        **labels_to(crowd),
        "probas": fitted.probas_,
        "known": fitted.known_codes_,
        **{FITTED + name: value for name, value in own.items() if isinstance(value, np.ndarray)},
    }
    if fitted.inclusion_ is not None:
        tensors["inclusion"] = fitted.inclusion_
    figures = {"n_tasks": crowd.n_tasks, "n_annotators": crowd.n_annotators, "n_annotations": crowd.n_annotations}
    documents = {TASKS: {"task_ids": names_to_json(crowd.task_ids)}}
    write_model(folder, tensors, config, figures, {}, documents, format=AGGREGATOR, overwrite=overwrite)


def _plain_parameters(fitted: Aggregator) -> dict[str, Any]:
    """The parameters as JSON values; groups that were given by name are listed in the order of the annotators."""
    parameters = fitted.get_params()
    groups = parameters.get("groups")
    if isinstance(groups, Mapping):
        names = list(groups.values())
        parameters["groups"] = [names[k] for k in in_order_of(fitted.annotations_, list(groups), "groups")]
    return {name: value.item() if hasattr(value, "item") else value for name, value in parameters.items()}


def _is_plain(value: Any) -> bool:
    """Whether a value is one of JSON, or a list of these."""
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, str | bool | int | float)


def load(folder: str | PathLike[str]) -> Aggregator:
    """Load an aggregator that :func:`save` wrote.

    A folder may come from anybody: it is checked, and no code in it is run.
    """
    found = ModelFolder(folder)
    found.expect(AGGREGATOR)
    found.check_complete()
    try:
        return _restore(found)
    except ModelFolderError:
        raise
    except FOLDER_ERRORS as error:
        raise ModelFolderError(f"{folder}: does not match this version of conal: {error}; fit again") from error


def _restore(folder: ModelFolder) -> Aggregator:
    config = folder.config
    if "fitted" not in config:
        raise ModelFolderError(
            f"{folder.path}: was written by conal 0.2, whose folders of aggregators are not read; aggregate the labels "
            "again, or update them with conal 0.2.0"
        )
    parameters = {name: _as_declared(value) for name, value in dict(config["parameters"]).items()}
    made = make(config["method"], **parameters)
    check_parameters(made)
    classes, annotator_ids = (names_from_json(list(config[name])) for name in ("classes", "annotator_ids"))
    tensors = folder.tensors()
    task_ids = names_from_json(folder.document(TASKS)["task_ids"])
    crowd = labels_from(tensors, (task_ids, annotator_ids, classes), config["ordinal"] is True)
    probas, made.known_codes_, made.inclusion_ = _posterior(tensors, crowd)
    made.annotator_info_ = annotator_info_from_json(config, annotator_ids)
    made.columns_ = columns_of(config)
    arrays = {name.removeprefix(FITTED): array for name, array in tensors.items() if name.startswith(FITTED)}
    for name, value in {**dict(config["fitted"]), **arrays}.items():
        if not ATTRIBUTE.fullmatch(name) or name in COMMON_ATTRIBUTES:
            raise ValueError(f"{name} is no attribute that a fit learns")
        setattr(made, name, _as_declared(value))
    made.learned_from_ = training_records(config)
    made._store(crowd, probas, made._winners(probas))
    return made


def _as_declared(value: Any) -> Any:
    """JSON has lists where parameters and attributes are tuples."""
    return tuple(value) if isinstance(value, list) else value


def _posterior(tensors: Tensors, crowd: Annotations) -> tuple[FloatArray, IntArray, FloatArray | None]:
    """Probabilities of all tasks, their known classes, and how likely each was to be drawn for one."""
    probas, known, drawn = tensors["probas"], tensors["known"], tensors.get("inclusion")
    if probas.dtype != np.float64 or probas.shape != (crowd.n_tasks, crowd.n_classes):
        raise ValueError("there must be a probability for every task and class")
    if not (probas.min(initial=0.0) >= 0 and np.abs(probas.sum(1) - 1).max(initial=0) < SUM_TOLERANCE):
        raise ValueError("probabilities must sum to 1")
    is_class = (known >= MISSING) & (known < crowd.n_classes)
    if known.dtype != np.int64 or known.shape != (crowd.n_tasks,) or not is_class.all():
        raise ValueError("known true labels must be classes")
    if drawn is not None and (drawn.dtype != np.float64 or drawn.shape != known.shape):
        raise ValueError("there must be a probability for every task with a true label")
    if drawn is not None and not ((drawn > 0) & (drawn <= 1))[known >= 0].all():
        raise ValueError("probabilities by which tasks were drawn must be above 0 and at most 1")
    return probas, known, drawn


def labels_to(crowd: Annotations) -> dict[str, npt.NDArray[Any]]:
    """The codes of annotations as tensors."""
    tensors: dict[str, npt.NDArray[Any]] = {
        "tasks": crowd.tasks,
        "annotators": crowd.annotators,
        "labels": crowd.labels,
    }
    return tensors if crowd.times is None else tensors | {"times": crowd.times.view(np.int64)}


def labels_from(tensors: Tensors, names: tuple[Names, Names, Names], ordinal: bool) -> Annotations:
    """The annotations of :func:`labels_to`; codes that are not those of the names are an error."""
    columns, times = [tensors[name] for name in ("tasks", "annotators", "labels")], tensors.get("times")
    when = None if times is None else times.view("datetime64[us]")
    tasks, annotators, classes = names
    return Annotations(*columns, task_ids=tasks, annotator_ids=annotators, classes=classes, ordinal=ordinal, times=when)


def training_records(config: Mapping[str, Any]) -> tuple[TrainingRecord, ...]:
    """What a folder has learned from; empty for folders without a history."""
    return tuple(
        TrainingRecord(
            kind=str(entry["kind"]),
            when=str(entry["when"]),
            labels=int(entry["labels"]),
            tasks=int(entry["tasks"]),
            annotators=int(entry["annotators"]),
        )
        for entry in config.get("learned_from", [])
    )
