"""How a model was made: parameters, software versions, and the command that fits such a model."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from torch import nn

from conal._system import versions
from conal.data.scales import scale_options
from conal.parameters.training import ClassifierParameters
from conal.report.sections.model import Metrics, ModelSection

if TYPE_CHECKING:
    from conal.estimator.fitted import FittedClassifier

__all__ = ["CUSTOM", "ENCODER", "model_section", "plain_parameters"]

CUSTOM = "custom"
"""Placeholder for a custom backbone, of which only the weights are stored."""
ENCODER = "ENCODER"
"""Placeholder for an encoder's folder: where it lies is nobody else's business."""
LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn")
"""Libraries that figures depend on, beside conal itself."""


def model_section(fitted: FittedClassifier) -> ModelSection:
    """The model section of the report."""
    parameters = plain_parameters(fitted)
    return {
        "method": fitted.method,
        "separates_noise": fitted.model_.separates_noise,
        "metrics": cast(Metrics, fitted.metrics_),
        "history": fitted.history_,
        "parameters": parameters,
        "versions": versions(*LIBRARIES),
        "command": _command(fitted, parameters),
    }


def plain_parameters(estimator: FittedClassifier) -> dict[str, Any]:
    """The parameters as JSON values."""
    parameters = estimator.get_params(deep=False)
    if isinstance(parameters["backbone"], nn.Module) or callable(parameters["backbone"]):
        parameters["backbone"] = CUSTOM
    parameters["hidden"] = [int(units) for units in parameters["hidden"]]
    if parameters["encoder"] is not None:
        parameters["encoder"] = ENCODER
    if not isinstance(parameters["class_prior"], str):
        pairs = dict(parameters["class_prior"]).items()
        parameters["class_prior"] = [[_plain(name), float(share)] for name, share in pairs]
    return {name: _plain(value) for name, value in parameters.items()}


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _command(fitted: FittedClassifier, parameters: Mapping[str, Any]) -> str:
    """The command that fits such a model; users fill in the names of their files."""
    kind = "features" if fitted.text_features_ is None else "text"
    words = ["conal", "fit", "LABELS", f"--{kind}", kind.upper(), "--out", "FOLDER", "--method", fitted.method]
    if fitted.metrics_["selection"] == "validation_accuracy":
        words += [f"--valid-{kind}", f"VALID_{kind.upper()}", "--valid-labels", "VALID_LABELS"]
    if "n_true_labels" in fitted.metrics_:
        words += ["--true-labels", "TRUE_LABELS"]
    if fitted.ordinal_:
        words += scale_options(fitted.classes_)
    if fitted.annotator_info_ is not None:
        words += ["--annotator-info", "ANNOTATORS"]
    usual = {name: declared.default for name, declared in fitted.declared.items()}
    for name, value in parameters.items():
        if name != "verbose" and (name == "seed" or not _is_same(value, usual.get(name))):
            words += _option(name, value)
    return shlex.join(words)


def _option(name: str, value: Any) -> list[str]:
    """The parameter's own option if it accepts the value, ``--set`` otherwise."""
    declared = ClassifierParameters.declared.get(name)
    option = None if declared is None else declared.option
    if option is not None and (option.parse is None or isinstance(value, int | str)):
        return [option.flag or f"--{name.replace('_', '-')}", str(value)]
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return ["--set", f"{name}={shown}"]


def _is_same(value: Any, usual: Any) -> bool:
    return bool(value == (list(usual) if isinstance(usual, tuple) else usual))
