"""What a model folder says beside the model: cleaned labels, annotators, confusion, history, and the report."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.findings import Evidence, findings_of
from conal.findings.people import common_column, quality_table
from conal.findings.tasks import add_texts
from conal.io.results import label_table, name_column

if TYPE_CHECKING:
    from conal.estimator.base import CrowdClassifier

__all__ = ["Seen", "described", "evidence_of", "summary_tables"]

FloatArray = npt.NDArray[np.float64]

LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn")
"""What figures depend on, beside conal itself."""
SHORT_OPTIONS = ("epochs", "batch_size", "lr", "patience", "scaling", "ensemble", "seed")
"""Parameters that have an option of their own on the command line."""


class Seen(NamedTuple):
    """What a fitted estimator remembers of its training data, for the findings that are made when it is saved."""

    crowd: Annotations
    classifier: FloatArray
    omega: FloatArray | None


def summary_tables(fitted: CrowdClassifier, crowd: Annotations, omega: FloatArray | None) -> dict[str, pa.Table]:
    """File name to table, for a fitted estimator and its training annotations."""
    return {
        "labels.csv": label_table(fitted.task_ids_, fitted.probas_, fitted.classes_),
        "annotators.csv": _annotators(fitted, crowd, omega),
        "common_confusion.csv": _common_confusion(fitted),
        "history.csv": _history(fitted),
    }


def described(fitted: CrowdClassifier, config: Mapping[str, Any]) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """The tables with all that was found, and the report; a loaded estimator has both already.

    ``config`` is what the folder says about the model.
    """
    if fitted._seen is None:
        return fitted.tables_, fitted._report or {}
    found = findings_of(evidence_of(fitted), seed=int(fitted.seed))
    if fitted._texts is not None:
        add_texts(found.report, fitted._texts)
    report = found.report | {"model": _model(fitted, config)}
    return fitted.tables_ | found.tables, report


def evidence_of(fitted: CrowdClassifier) -> Evidence:
    """What findings about the training data are made of; a loaded estimator has the findings alone."""
    if fitted._seen is None:
        raise InputError("a loaded model does not remember the annotations; its findings are in its folder's tables")
    return _evidence(fitted, *fitted._seen)


def _evidence(
    fitted: CrowdClassifier, crowd: Annotations, classifier: FloatArray, omega: FloatArray | None
) -> Evidence:
    return Evidence(crowd, fitted.probas_, classifier, fitted.common_confusion_, fitted.annotator_confusion_, omega)


def _annotators(fitted: CrowdClassifier, crowd: Annotations, omega: FloatArray | None) -> pa.Table:
    """Quality of each annotator, and how common his or her mistakes are; intervals are added when a model is saved."""
    evidence = _evidence(fitted, crowd, fitted.probas_, omega)
    return quality_table(evidence).append_column("common_mistake_share", common_column(evidence))


def _common_confusion(fitted: CrowdClassifier) -> pa.Table:
    """Rows are true classes, columns observed ones; the first column names the true class."""
    confusion = fitted.common_confusion_
    observed = {str(name): confusion[:, k] for k, name in enumerate(fitted.classes_.tolist())}
    first = "true"
    while first in observed:  # a class may be called so
        first += "_"
    return pa.table({first: name_column(fitted.classes_), **observed})


def _history(fitted: CrowdClassifier) -> pa.Table:
    names = list(dict.fromkeys(name for row in fitted.history_ for name in row))
    return pa.table({name: [row.get(name) for row in fitted.history_] for name in names})


def _model(fitted: CrowdClassifier, config: Mapping[str, Any]) -> dict[str, Any]:
    """How the model came about, and how to make it again."""
    versions = {"conal": config["conal_version"], "python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in LIBRARIES}
    return {
        "method": fitted.method,
        "separates_noise": fitted.model_.separates_noise,
        "metrics": fitted.metrics_,
        "history": fitted.history_,
        "parameters": config["parameters"],
        "versions": versions,
        "command": _command(fitted, config["parameters"]),
    }


def _command(fitted: CrowdClassifier, parameters: Mapping[str, Any]) -> str:
    """The command that fits such a model; the names of files are the user's to fill in."""
    import json

    usual = type(fitted)().get_params(deep=False)
    kind = "features" if fitted.text_features_ is None else "text"
    words = ["conal", "fit", "LABELS", f"--{kind}", kind.upper(), "--out", "FOLDER", "--method", fitted.method]
    if fitted.metrics_["selection"] == "validation_accuracy":
        words += [f"--valid-{kind}", f"VALID_{kind.upper()}", "--valid-labels", "VALID_LABELS"]
    for name, value in parameters.items():
        if name == "verbose" or (name != "seed" and _same(value, usual.get(name))):
            continue
        if name in SHORT_OPTIONS:
            words += [f"--{name.replace('_', '-')}", str(value)]
        else:
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            words += ["--set", f"{name}={shown}"]
    return shlex.join(words)


def _same(value: Any, usual: Any) -> bool:
    return bool(value == (list(usual) if isinstance(usual, tuple) else usual))
