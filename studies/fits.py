"""One fit of a classifier to a crowd, as most studies need it, and what is measured of it."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.metrics import accuracy_score

from conal import methods, metrics, theory
from conal._arrays import BoolArray
from conal.aggregation import DawidSkene
from conal.datasets import CrowdDataset
from conal.errors import InputError
from conal.estimator import CrowdClassifier, make
from studies.crowds import load
from studies.runs import Setting
from studies.tables import Row

PAPER_METHODS = ("dl-mv", "dl-cl", "doctor-net", "anno-reg", "max-mig", "dl-glad", "dl-wc", "aggnet", "conal")
"""The methods of the paper's Table 1, in its order."""
BASELINES = PAPER_METHODS[:-1]
PAPER: dict[str, dict[str, Any]] = {"conal": {"omega_scale": 1.0}}
"""Where the paper's settings differ from the defaults."""
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {"xaggnet": ("xconal", {"confusion": "pooled"})}
"""Rows that are a method with other settings. "xaggnet" is AggNet, cross-fitted: one matrix per annotator from the
first labels on, and all parts of xconal but the paper's two sources."""
TWO_STAGES = "ds-lda"
"""Dawid-Skene, and then scikit-learn's linear discriminant analysis with shrinkage."""
EPOCHS = 100
"""Passes over the data, unless a setting has another number."""
SELECTION = {"gold": "gold", "test": "gold", "annotations": "annotations", "last": "last", "own": "auto"}
"""How each protocol chooses the epoch: by gold validation labels; by the test set, as published code on Music does, no
fair figure; by held-out annotations; not at all; or by the method's own rule."""


def every_method() -> list[str]:
    """Gold labels as the ceiling, the paper's methods in its order, then every other registered method and variant."""
    known = ["gold", *PAPER_METHODS]
    return known + [name for name in (*methods.names(), *VARIANTS) if name not in known]


class Fit(NamedTuple):
    """A fitted classifier, its data, and the CPU seconds of the fit."""

    clf: CrowdClassifier
    data: CrowdDataset
    seconds: float


def fit(setting: Setting, *, monitor: bool = False) -> Fit:
    """Fit ``method`` to ``dataset`` with ``data``, ``parameters``, ``seed`` and ``protocol``.

    With ``monitor``, accuracies on training and test data after every epoch are in ``history_``; they select nothing.
    """
    data, protocol = load(setting["dataset"], setting.get("data", {})), setting["protocol"]
    method, own = VARIANTS.get(setting["method"], (setting["method"], {}))
    parameters = {"selection": SELECTION[protocol], "epochs": EPOCHS, **own, **setting["parameters"]}
    clf = make(method, **parameters, seed=setting["seed"], verbose=False)
    target = data.classes[data.y_true] if methods.get(method).takes == "gold" else data.annotations
    watched = {"training": (data.x, data.classes[data.y_true])} if monitor else {}
    if monitor and data.test is not None:
        watched["test"] = data.test.x, data.classes[data.test.y]
    began = time.process_time()  # CPU time: other programs may be running
    clf.fit(data.x, target, validation=_validation(data, protocol), monitor=watched)
    return Fit(clf, data, time.process_time() - began)


def _validation(data: CrowdDataset, protocol: str) -> tuple[Any, Any] | None:
    if SELECTION[protocol] != "gold":
        return None
    split = data.test if protocol == "test" else data.valid
    if split is None or not len(split):
        raise InputError(f"{data.name}: has no gold validation labels; choose protocol 'annotations'")
    return split.x, data.classes[split.y]


def two_stages(data: CrowdDataset) -> tuple[Row, npt.NDArray[np.int64]]:
    """What :func:`figures_of` says of a fit, of :data:`TWO_STAGES`, and the classes of the test data.

    Nothing is random, no label is true and nothing is selected.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    assert data.test is not None
    began = time.process_time()
    codes = DawidSkene(verbose=False).fit(data.annotations).codes_
    x, test = (split.reshape(len(split), -1) for split in (data.x, data.test.x))
    if len(np.unique(codes)) > 1:
        predicted = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x, codes).predict(test)
    else:
        predicted = np.full(len(test), codes[0])
    row = {"test_accuracy": float(np.mean(predicted == data.test.y)), "label_accuracy": np.mean(codes == data.y_true)}
    none = {"selection": "none", "best_epoch": 0, "best_score": 0.0}
    return row | none | {"seconds": time.process_time() - began}, predicted


def figures_of(found: Fit) -> Row:
    """Accuracy on test data and of the cleaned training labels, how the epoch was chosen, and the time of the fit."""
    clf, data, seconds = found
    row: Row = {"test_accuracy": None, "label_accuracy": accuracy_score(data.classes[data.y_true], clf.labels_)}
    if data.test is not None:
        row["test_accuracy"] = accuracy_score(data.classes[data.test.y], clf.predict(data.test.x))
    kept = {name: clf.metrics_[name] for name in ("selection", "best_epoch", "best_score")}
    return row | kept | {"seconds": seconds}


def recovery_of(found: Fit) -> Row:
    """Distance from the truth behind a simulated crowd; nothing for a crowd of people."""
    clf, data, _ = found
    if data.truth is None or methods.get(clf.method).takes == "gold":
        return {}
    row: Row = {
        "bayes_label_accuracy": bayes_label_accuracy(data),
        "bayes_without_gate": bayes_label_accuracy(data, gate=False),
        "common_confusion_error": metrics.confusion_recovery_error(data.truth.pi_g, clf.common_confusion_),
    }
    if clf.model_.separates_noise:
        omega = clf.common_noise_rate(data.x, data.annotations)
        if omega.std() > 0 and data.truth.omega.std() > 0:
            row["omega_correlation"] = float(np.corrcoef(omega, data.truth.omega)[0, 1])
    return row


def bayes_label_accuracy(data: CrowdDataset, *, gate: bool = True) -> float:
    """Share of training labels that the Bayes-optimal decision infers correctly from a simulated crowd's annotations.

    Without ``gate``, omega is known on average for every annotator only. The difference is what can be gained, beyond a
    confusion matrix per annotator, by knowing which labels come from common noise.

    >>> data = load("synthetic", {"n_train": 500, "gate_scale": 0})  # a constant omega
    >>> bayes_label_accuracy(data) == bayes_label_accuracy(data, gate=False)
    True
    """
    crowd, truth = data.annotations, data.truth
    if truth is None:
        raise InputError(f"{data.name}: the true parameters of this crowd are unknown")
    known = truth.omega
    if not gate:
        sums = np.bincount(crowd.annotators, weights=known, minlength=crowd.n_annotators)
        known = (sums / np.maximum(crowd.labels_per_annotator(), 1))[crowd.annotators]
    omega = np.zeros((crowd.n_tasks, crowd.n_annotators))
    omega[crowd.tasks, crowd.annotators] = known
    rho = np.bincount(truth.z, minlength=crowd.n_classes) / len(truth.z)
    best = theory.posterior(crowd.to_matrix(), rho, truth.pi_g, truth.pi_r, omega).argmax(axis=1)
    return float((best == truth.z).mean())


def packed(right: npt.ArrayLike) -> str:
    """Which instances are right, eight per byte, as base64.

    >>> packed([True, False, True])
    'oA=='
    """
    return base64.b64encode(np.packbits(np.asarray(right, bool)).tobytes()).decode()


def unpacked(texts: Iterable[str], n: int) -> BoolArray:
    """(S, n) which of n instances each of S fits gets right.

    >>> unpacked(["oA=="], 3)
    array([[ True, False,  True]])
    """
    rows = [np.frombuffer(base64.b64decode(text), np.uint8) for text in texts]
    return np.array([np.unpackbits(row, count=n).astype(bool) for row in rows])
