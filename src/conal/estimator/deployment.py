"""Fitted estimators for use without conal: one torch module, or one file."""

from __future__ import annotations

import copy
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from conal._files import atomic_file, check_file_place
from conal.errors import InputError
from conal.estimator.export_formats import BATCH, INPUT, OUTPUT, FloatArray, quiet_torch, reason, writer_for
from conal.io import FeatureTable
from conal.io.model_folder import names_to_json

if TYPE_CHECKING:
    from conal.estimator.fitted import FittedClassifier

__all__ = ["Exported", "check_text_choice", "export", "to_torch"]

N_ROWS = 16
"""Random rows on which an export is compared with ``predict_proba``: one alone, then the others."""
TOLERANCE = 1e-5
"""The largest difference of a probability between a file and ``predict_proba``."""


class Exported(NamedTuple):
    """What was written, and how far it differs from ``predict_proba`` on random rows."""

    path: Path
    format: str
    metadata: dict[str, Any]
    rows: int
    largest_difference: float


def to_torch(fitted: FittedClassifier, *, features_only: bool = False) -> nn.Module:
    """A copy of the trained networks as one module; see :meth:`CrowdClassifier.to_torch`."""
    check_text_choice(fitted, features_only)
    module = copy.deepcopy(fitted.model_.predictor()).cpu().eval().requires_grad_(False)
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.data = tensor.detach().clone()  # networks that were trained as one share memory
    with torch.no_grad():
        rows = random_rows(fitted)
        _compare(fitted, module(torch.from_numpy(rows)).numpy(), rows, "the module")
    return module


def export(
    fitted: FittedClassifier,
    path: str | PathLike[str],
    to: str | None = None,
    *,
    features_only: bool = False,
    overwrite: bool = False,
) -> Exported:
    """Write a file that predicts without conal; see :meth:`CrowdClassifier.export`."""
    place = Path(path)
    writer = writer_for(place, to)
    check_file_place(place, overwrite=overwrite)
    module = to_torch(fitted, features_only=features_only)
    writer.check_size(module)
    metadata = describe(fitted)
    program = _program(module, torch.zeros(2, *fitted.instance_shape_, dtype=fitted.model_.scaler.dtype))
    rows = random_rows(fitted)
    with atomic_file(place) as temporary:
        writer.write(program, metadata, temporary)
        found = writer.run(temporary, [rows[:1], rows[1:]])  # two sizes: the batch must not be fixed
        difference = _compare(fitted, np.concatenate(found), rows, f"{place}: the file")
    return Exported(place, writer.name, metadata, len(rows), difference)


def describe(fitted: FittedClassifier) -> dict[str, Any]:
    """What users of a file need to know, as plain data."""
    from conal import __version__

    return {
        "conal_version": __version__,
        "method": fitted.method,
        "classes": names_to_json(fitted.classes_),
        "input": INPUT,
        "input_type": str(fitted.model_.scaler.dtype).removeprefix("torch."),
        "output": OUTPUT,
        "takes": "features" if fitted.text_features_ is None else "text features",
        "n_features": fitted.n_features_in_,
        "instance_shape": list(fitted.instance_shape_),
        "feature_names": list(getattr(fitted, "feature_names_in_", ())),
    }


def check_text_choice(fitted: FittedClassifier, features_only: bool) -> None:
    """Texts are made into features by conal's own code, which no export contains: the user must know that."""
    if fitted.text_features_ is None:
        if features_only:
            raise InputError(
                "features_only=True (--features-only) is for models of texts; this one was trained on features, so "
                "leave it out"
            )
        return
    if not features_only:
        raise InputError(
            "the model takes texts, and what makes features of them (terms and SVD, or an encoder) is not a part of "
            "the exported classifier. With features_only=True (--features-only), only the classifier of these "
            f"{fitted.n_features_in_:,} features is exported; compute them by "
            "conal.load(folder).text_features_.transform(texts)"
        )


def random_rows(fitted: FittedClassifier) -> FloatArray:
    """Instances about as far apart as those that the model was trained on, from its scaling and in its precision."""
    scaler = fitted.model_.scaler
    z = np.random.default_rng(0).normal(size=(N_ROWS, *fitted.instance_shape_))
    x = torch.from_numpy(z) / scaler.factor.double() + scaler.shift.double()
    rows: FloatArray = (x.clamp(min=0).square() if scaler.root else x).to(scaler.dtype).cpu().numpy()
    return rows


def _compare(fitted: FittedClassifier, found: FloatArray, rows: FloatArray, what: str) -> float:
    wanted = fitted.predict_proba(FeatureTable(rows, checked=True))
    difference = float(np.abs(found - wanted).max()) if found.shape == wanted.shape else float("nan")
    if not difference <= TOLERANCE:
        raise InputError(
            f"{what} does not give what predict_proba gives: probabilities of random rows differ by {difference:.2g}, "
            f"which is more than {TOLERANCE:g}. A network cannot be exported if it draws random numbers in evaluation "
            "mode, or if its forward depends on anything but its input"
        )
    return difference


def _program(module: nn.Module, example: Tensor) -> ExportedProgram:
    """The module's computation for any number of instances, without the Python code that it came from."""
    batch = torch.export.Dim(BATCH)
    problems: list[str] = []
    for strict in (False, True):  # the second reads Python code, and understands len(x) of a batch
        try:
            with quiet_torch(), torch.no_grad():
                program = torch.export.export(module, (example,), dynamic_shapes=({0: batch},), strict=strict)
        except Exception as error:  # whatever the user's network, or torch, raises
            problems.append(reason(error))
        else:
            return _without_paths(program)
    raise InputError(
        f"the network cannot be exported by torch.export: {problems[0]}. Its forward must be made of torch operations, "
        "must not decide by the values of tensors, and must take any number of instances"
    )


def _without_paths(program: ExportedProgram) -> ExportedProgram:
    """torch notes the source lines of every operation, with the names of folders; files go to strangers."""
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)
    return program
