"""Estimators to model folders and back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from math import prod
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from conal.data.encoding import Names, as_names
from conal.errors import InputError, ModelFolderError, examples
from conal.estimator.classifier import CrowdClassifier, make
from conal.estimator.fitting import build_members, groups_of
from conal.estimator.kept_data import (
    ASKED_TENSOR,
    TrainingData,
    asked_of,
    data_tensors,
    restored,
    to_tensors,
)
from conal.estimator.results import CUSTOM, StoredResults, plain_parameters
from conal.io.model_folder import (
    FORMAT,
    METRICS,
    REPORT,
    TASKS,
    TEXT,
    ModelFolder,
    annotator_info_from_json,
    annotator_info_to_json,
    columns_of,
    names_from_json,
    names_to_json,
    proba_columns,
    with_own_names,
    write_model,
)
from conal.methods import CrowdMethod, Problem
from conal.methods.ensemble import Ensemble
from conal.networks import FeatureScaler, build_backbone
from conal.networks.draws import drawing_from
from conal.parameters import check_parameters, is_whole
from conal.report.findings import read_tables
from conal.text import TextFeatures
from conal.updates import training_records

# What a configuration describes, compared with the weights that are there, before the model is built.
#
# A model folder can come from anywhere. Its configuration says how large the networks are, and building them would
# allocate whatever it says. So they are built on torch's "meta" device first, where tensors have shapes but no memory.

SCALER = ("shift", "factor", "limit", "root")
"""Tensors of a scaler. The first two have a value for every feature, or one for all."""
MAX_FEATURES = 2**31
"""Numbers in one instance."""
Shapes = Mapping[str, tuple[int, ...]]


def checked_instance_shape(shape: Any, where: str) -> tuple[int, ...]:
    """The shape of an instance, if it can be one."""
    whole = isinstance(shape, list) and len(shape) <= 8 and all(is_whole(size) and size >= 1 for size in shape)
    if not whole or prod(shape) > MAX_FEATURES:
        raise ModelFolderError(f"{where}: instance_shape is {examples([shape])}, which no instance has; fit again")
    return tuple(shape)


def check_shapes(made: CrowdClassifier, problem: Problem, shapes: Shapes, where: str) -> None:
    """Reject weights that are not those of the networks that an estimator's parameters describe.

    Parameters
    ----------
    problem : Problem
        The sizes; its tensors are on the meta device.
    shapes : mapping
        Name to shape of all tensors of the model, from the header of the file.
    """
    built = _on_meta_device(made, problem, len(shapes), where).state_dict()
    wanted = {name: tuple(tensor.shape) for name, tensor in built.items() if not _is_of_scaler(name)}
    wanted |= {name: _scaler_shape(name, shape, problem.shape) for name, shape in shapes.items() if _is_of_scaler(name)}
    wanted["labels_per_annotator"] = (problem.n_annotators,)
    different = [name for name in wanted.keys() | shapes.keys() if wanted.get(name) != shapes.get(name)]
    if different:
        name = min(different)
        raise ModelFolderError(
            f"{where}: does not match this version of {made.method!r}: the tensor {name!r} has shape "
            f"{shapes.get(name, 'missing')}, its configuration describes {wanted.get(name, 'none')}; fit again"
        )


def scaled(method: CrowdMethod) -> list[tuple[CrowdMethod, str]]:
    """The parts of the method that have a scaler, and the prefixes of their tensors."""
    if isinstance(method, Ensemble):
        each = ((member, f"members.{k}.scaler.") for k, member in enumerate(method.each))
        return [(method, "scaler."), *each]
    return [(method, "scaler.")]


def _on_meta_device(made: CrowdClassifier, problem: Problem, n_tensors: int, where: str) -> CrowdMethod:
    """The method without memory. A number may stand for a million networks, each of which would have weights."""
    folds = getattr(made, "folds", 1)
    if made.ensemble * (folds if is_whole(folds) else 1) * max(len(made.hidden), 1) > n_tensors:
        raise ModelFolderError(
            f"{where}: does not match its weights: it describes more networks than there are weights for; fit again"
        )
    sketch = copy.copy(made)
    if not isinstance(made.backbone, str):  # the user's own, and real: only its shapes are needed
        sketch.backbone = build_backbone(made.backbone, problem.shape, problem.n_classes).to("meta")
    with drawing_from(torch.Generator(), torch_too=True), torch.device("meta"):
        return build_members(sketch, problem)


def _is_of_scaler(name: str) -> bool:
    return name.startswith("scaler.") or (name.startswith("members.") and name.split(".")[2:3] == ["scaler"])


def _scaler_shape(name: str, found: tuple[int, ...], instance: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that a scaler's tensor must have, which is the one found where several are possible."""
    per_feature = name.endswith((".shift", ".factor")) and len(found) <= len(instance)
    fits = all(size in (1, wanted) for size, wanted in zip(reversed(found), reversed(instance), strict=False))
    return found if per_feature and fits else ()


# Estimators to model folders and back.

TEXT_TENSOR = "text."
"""How the names of tensors for texts begin."""
LABELS_OF_ANNOTATORS = "labels_per_annotator"
FEATURES_OF_ANNOTATORS = ("auxiliary.annotator_features", "members.0.auxiliary.annotator_features")
"""The tensor's name in a single model and in an ensemble."""
IN_PROBLEM = {LABELS_OF_ANNOTATORS, *FEATURES_OF_ANNOTATORS}
UNFIT = (LookupError, TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError, pa.ArrowException)
"""What happens where values of a folder have unexpected types or sizes."""


def save(
    fitted: CrowdClassifier,
    folder: str | PathLike[str],
    *,
    page: str | None = None,
    keep_data: bool = False,
    overwrite: bool = False,
) -> None:
    """Write a fitted estimator as a model folder, with its report as HTML if ``page`` is given."""
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
    if fitted.learned_from_:
        config["learned_from"] = list(fitted.learned_from_)
    if problem.n_true_labels:
        config["n_true_labels"] = problem.n_true_labels
    if fitted.ordinal_:
        config["ordinal"] = True
    if fitted.columns_:
        config["columns"] = dict(fitted.columns_)
    config |= annotator_info_to_json(fitted.annotator_info_)
    tensors = {name: tensor.detach().numpy() for name, tensor in fitted.model_.state_dict().items()}
    tensors |= to_tensors(asked_of(fitted))
    documents: dict[str, Mapping[str, Any]] = {REPORT: fitted.results_.report}
    with suppress(InputError):  # ids of a type without a JSON form are text in a loaded model
        documents[TASKS] = {"task_ids": names_to_json(fitted.task_ids_)}
    if fitted.text_features_ is not None:
        numbers, documents[TEXT] = fitted.text_features_.state()
        tensors |= {TEXT_TENSOR + name: array for name, array in numbers.items()}
    data = data_tensors(fitted) if keep_data else None
    figures, tables = fitted.metrics_, dict(fitted.tables_)
    tables["labels.csv"] = with_own_names(tables["labels.csv"], fitted.columns_)
    write_model(folder, tensors, config, figures, tables, documents, page=page, data=data, overwrite=overwrite)


def load(folder: str | PathLike[str], *, backbone: Any = None) -> CrowdClassifier:
    """Load a model folder that :meth:`CrowdClassifier.save` or ``conal fit`` wrote.

    A folder may come from anybody: it is checked before anything is built, and no code in it is run.

    Parameters
    ----------
    folder : path
    backbone : nn.Module or callable, optional
        The architecture, for a model whose backbone was the user's own: only its weights are stored.
    """
    found = ModelFolder(folder)
    found.expect(FORMAT)
    found.check_complete()
    try:
        return _restore(found, backbone)
    except InputError:
        raise
    except UNFIT as error:
        name = examples([found.config.get("method")])
        raise ModelFolderError(f"{folder}: does not match this version of {name}: {error}") from error


def _restore(folder: ModelFolder, backbone: Any) -> CrowdClassifier:
    config = folder.config
    made = _restore_parameters(folder, backbone)
    check_parameters(made)
    made.classes_ = names_from_json(_listed(config, "classes"))
    made.ordinal_ = config.get("ordinal", False) is True
    made.annotator_ids_ = names_from_json(_listed(config, "annotator_ids"))
    made.columns_ = columns_of(config)
    made.annotator_info_ = annotator_info_from_json(config, made.annotator_ids_)
    made.instance_shape_ = checked_instance_shape(config["instance_shape"], str(folder.path))
    made.n_features_in_ = prod(made.instance_shape_)
    made.feature_names_in_ = _feature_names(config, made.n_features_in_)
    beside = (TEXT_TENSOR, ASKED_TENSOR)
    shapes = {name: shape for name, shape in folder.shapes().items() if not name.startswith(beside)}
    sketched = {name: torch.empty(shape, device="meta") for name, shape in shapes.items() if name in IN_PROBLEM}
    check_shapes(made, _problem(made, config, sketched), shapes, str(folder.path))
    tensors = folder.tensors()
    made.text_features_ = _restore_texts(folder, tensors)
    made.metrics_ = folder.document(METRICS)
    task_ids = names_from_json(folder.document(TASKS)["task_ids"]) if TASKS in folder.files else None
    made.results_ = _stored_results(folder, made, task_ids)
    made.history_ = made.tables_["history.csv"].to_pylist()
    _restore_labels(made, task_ids)
    made.asked_ = restored(tensors, len(made.task_ids_), len(made.annotator_ids_))
    state = {name: torch.from_numpy(array) for name, array in tensors.items() if name in shapes}
    made.model_ = _rebuild(made, _problem(made, config, state), state)
    made.learned_from_ = training_records(config)
    made.kept_ = TrainingData.stored(folder, made)
    return made


def _restore_parameters(folder: ModelFolder, backbone: Any) -> CrowdClassifier:
    parameters = dict(folder.config["parameters"])
    if parameters["backbone"] == CUSTOM:
        if backbone is None:
            raise InputError(
                f"{folder.path}: the model has a custom backbone, of which only the weights are stored; in Python, "
                "pass it as conal.load(folder, backbone=...)"
            )
        parameters["backbone"] = backbone
    parameters["hidden"] = tuple(parameters["hidden"])
    if "witness" in parameters:  # of 0.2.0, as is n_jobs
        parameters["second_classifier"] = "lda" if parameters.pop("witness") == "gaussian" else "none"
        parameters.pop("n_jobs", None)
    if parameters.pop("encoder", None) is not None:  # of 0.2.0, too
        raise InputError(
            f"{folder.path}: the model takes embeddings of texts by an encoder, which conal no longer runs; fit again, "
            "with the embeddings as --features"
        )
    return make(folder.config["method"], **parameters)


def _listed(config: Mapping[str, Any], name: str) -> list[Any]:
    if not isinstance(config[name], list) or not config[name]:
        raise TypeError(f"{name} must be a list, not {examples([config[name]])}")
    return list(config[name])


def _feature_names(config: Mapping[str, Any], count: int) -> list[str]:
    names = config["feature_names"]
    if not isinstance(names, list) or len(names) not in (0, count) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"feature_names must be {count:,} names or none")
    return names


def _restore_texts(folder: ModelFolder, tensors: dict[str, Any]) -> TextFeatures | None:
    if TEXT not in folder.files:
        return None
    numbers = {name.removeprefix(TEXT_TENSOR): array for name, array in tensors.items() if name.startswith(TEXT_TENSOR)}
    document = folder.document(TEXT)
    features = TextFeatures.from_state(numbers, document)
    if (features.n_features,) != tuple(folder.config["instance_shape"]):
        raise ModelFolderError(f"{folder.path / TEXT}: makes features that do not match the model; fit the model again")
    return features


def _stored_results(folder: ModelFolder, made: CrowdClassifier, task_ids: Names | None) -> StoredResults:
    """Tables and report, read immediately: the folder may be removed or replaced later."""
    report = folder.document(REPORT) if REPORT in folder.files else {}
    names = {"class": made.classes_, "annotator": made.annotator_ids_}
    names |= {} if task_ids is None else {"task": task_ids}
    tables = [folder.checked(name).name for name in folder.files if name.endswith(".csv")]
    return StoredResults(read_tables(folder.path, tables, names, made.columns_), report)


def _restore_labels(made: CrowdClassifier, task_ids: Names | None) -> None:
    """What was inferred about the training tasks, from labels.csv; without stored ids, these are as CSV has them."""
    table = made.tables_["labels.csv"]
    made.task_ids_ = as_names(table["task"].to_pylist()) if task_ids is None else task_ids
    made.probas_ = np.column_stack([table[name].to_numpy() for name in proba_columns(made.classes_)])
    made.labels_ = made.classes_[made.probas_.argmax(1)]
    if len(made.task_ids_) != len(made.probas_):
        raise ModelFolderError(f"{TASKS}: lists {len(made.task_ids_):,} tasks, labels.csv {len(made.probas_):,}")


def _problem(made: CrowdClassifier, config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Problem:
    counts = {"n_true_labels": 0, **config}
    for name in ("n_tasks_trained_on", "n_true_labels"):
        if not is_whole(counts[name]) or not 0 <= counts[name] < 2**53:
            raise TypeError(f"{name} must be a number of tasks, not {examples([counts[name]])}")
    groups = groups_of(made)
    return Problem(
        shape=made.instance_shape_,
        n_classes=len(made.classes_),
        n_annotators=len(made.annotator_ids_),
        n_tasks=counts["n_tasks_trained_on"],
        labels_per_annotator=tensors[LABELS_OF_ANNOTATORS],
        annotator_features=next((tensors[name] for name in FEATURES_OF_ANNOTATORS if name in tensors), None),
        annotator_groups=None if groups is None else torch.from_numpy(groups),
        n_true_labels=counts["n_true_labels"],
    )


def _rebuild(made: CrowdClassifier, problem: Problem, state: dict[str, torch.Tensor]) -> CrowdMethod:
    with drawing_from(torch.Generator(), torch_too=True):  # initial weights are drawn and thrown away
        method = build_members(made, problem)
    for each, prefix in scaled(method):
        each.scaler = FeatureScaler(*(state[prefix + part] for part in SCALER))
    method.load_state_dict(state)
    return method.eval()
