"""Numbers of the golden set: posteriors of every aggregator, and of every method after three epochs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import conal
from conal import Annotations, aggregation

__all__ = ["CROWDS", "METHOD_SETTINGS", "aggregator_names", "classifier_posteriors", "crowd_posteriors", "method_names"]

FloatArray = npt.NDArray[np.float64]

METHOD_SETTINGS: dict[str, Any] = {"epochs": 3, "seed": 0, "batch_size": 32, "hidden": (16,), "verbose": False}


def _crowd(seed: int, n_tasks: int, n_annotators: int, n_classes: int, share: float, confusion: str) -> Annotations:
    """Annotators of accuracy 0.4 to 0.95 label a share of the tasks; wrong labels are random or the next class."""
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n_tasks)
    right = rng.random((n_tasks, n_annotators)) < np.linspace(0.4, 0.95, n_annotators)
    shift = 1 if confusion == "common" else rng.integers(1, n_classes, size=right.shape)
    labels = np.where(right, z[:, None], (z[:, None] + shift) % n_classes)
    labels[rng.random(right.shape) >= share] = -1
    labels[0, :2] = [0, 1]
    return Annotations.from_matrix(labels, classes=range(n_classes))


def _one_annotator() -> Annotations:
    labels = np.random.default_rng(4).integers(3, size=(12, 1))
    return Annotations.from_matrix(labels, classes=range(3))


def _with_holes() -> Annotations:
    """A task without labels, an annotator without labels and a class without labels."""
    labels = np.random.default_rng(5).integers(2, size=(20, 5))
    labels[3], labels[:, 2] = -1, -1
    return Annotations.from_matrix(labels, classes=range(3))


CROWDS: dict[str, Callable[[], Annotations]] = {
    "two-classes": lambda: _crowd(0, 30, 7, 2, 0.7, "random"),
    "four-classes": lambda: _crowd(1, 30, 8, 4, 0.6, "random"),
    "common-confusion": lambda: _crowd(2, 30, 8, 3, 0.6, "common"),
    "sparse": lambda: _crowd(3, 40, 10, 3, 0.15, "random"),
    "one-annotator": _one_annotator,
    "holes": _with_holes,
}


def aggregator_names() -> list[str]:
    """All aggregators."""
    return list(aggregation.names())


def crowd_posteriors(name: str) -> dict[str, FloatArray]:
    """(N, C) probabilities of an aggregator with its defaults, for every crowd."""
    found = {}
    for crowd, make in CROWDS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[crowd] = np.asarray(aggregation.make(name).fit(make()).probas_, dtype=np.float64)
    return found


def method_names() -> list[str]:
    """All methods that train a classifier on crowd labels."""
    return [name for name in conal.methods.names() if name != "gold"]


def classifier_posteriors(name: str) -> dict[str, FloatArray]:
    """Predictions for features, and probabilities of the training tasks' classes given their labels too."""
    data = conal.datasets.synthetic(
        n_train=60,
        n_valid=4,
        n_test=4,
        n_features=6,
        n_classes=3,
        n_annotators=6,
        seed=0,
        gate="interaction",
        gate_scale="wide",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = conal.make(name, **METHOD_SETTINGS).fit(data.x, data.annotations)
        predicted, inferred = fitted.predict_proba(data.x), fitted.infer(data.x, data.annotations)
    return {"predict_proba": np.asarray(predicted, np.float64), "infer": np.asarray(inferred, np.float64)}
