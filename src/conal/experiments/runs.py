"""One run of an experiment: a fit and its measurements."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np

from conal import datasets, methods, metrics
from conal.datasets import CrowdDataset
from conal.datasets.base import dataset_registry
from conal.datasets.label_sets import JUDGES
from conal.datasets.llm_jury import llm_jury
from conal.datasets.sampling import sampled
from conal.errors import InputError
from conal.estimator import CrowdClassifier, make
from conal.experiments.bayes_labels import bayes_label_accuracy
from conal.experiments.fingerprint import REPORTED, ROOMS, findings_roots, fingerprint, uses_findings
from conal.experiments.measurements import MEASUREMENTS

__all__ = ["PROTOCOLS", "Protocol", "Run", "execute", "load_data", "run_of", "settings_of"]

Protocol = Literal["gold", "own", "annotations", "last", "test"]

PROTOCOLS: dict[str, str] = {
    "gold": "epoch chosen on gold validation labels",
    "annotations": "epoch chosen by held-out annotations, no gold label",
    "own": "gold-free, by the method's own rule",
    "last": "last epoch",
    "test": "epoch chosen on the test set, as published code does: no fair figure",
}
"""How the epoch is chosen, in words for the tables."""

EPOCHS = 100
"""Passes over the data, unless a run says otherwise. Published figures are of a stated number."""

ROOTS = [
    "conal.estimator.compute",
    "conal.estimator.fitting",
    "conal.estimator.members",
    "conal.estimator.preparation",
    "conal.training.loop",
    "conal.experiments.runs",
    "conal.experiments.bayes_labels",
    "conal.experiments.right_answers",
]
"""Modules that every run uses, beside its method and its dataset."""

GOLD_ROOTS = [
    "conal.estimator.refits",
    "conal.experiments.gold_runs",
    "conal.experiments.gold_draws",
    "conal.experiments.gold_measurements",
    "conal.experiments.stacked_votes",
    "conal.findings.expert_plan",
    "conal.findings.tasks",
]
"""Modules that runs with true labels use beyond these; they import all aggregators."""

FORMAT = 1
"""Increased when the meaning of a run changes, so that stored results are not mistaken for it."""


@dataclass(frozen=True)
class Run:
    """A method with its parameters, a dataset with its settings, a seed and a way to choose the epoch.

    Everything is plain data, so that the hash of a run, its name, is the same in every process. ``data["sample"]`` are
    the arguments of :func:`conal.datasets.sampling.sampled`, for a run on a part of the dataset.

    >>> run = Run("synthetic", "dl-mv", seed=1, data={"n_train": 100})
    >>> run.hash == Run("synthetic", "dl-mv", seed=1, data={"n_train": 100}).hash
    True
    """

    dataset: str
    method: str
    seed: int = 0
    protocol: Protocol = "gold"
    data: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    """Measurements to keep beyond the metrics; see :data:`conal.experiments.measurements.MEASUREMENTS`."""
    gold: Mapping[str, Any] = field(default_factory=dict)
    """True labels of some training tasks: their number ``n``, and the ``design`` by which the seed draws the tasks.

    Such runs are those of :mod:`conal.experiments.gold_runs`.
    """

    @property
    def config(self) -> dict[str, Any]:
        """The run as a plain dict; without true labels, it does not mention them."""
        return {name: value for name, value in asdict(self).items() if name != "gold" or value}

    @property
    def hash(self) -> str:
        """A name that identifies the run."""
        text = json.dumps({"format": FORMAT, **self.config}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def code(self) -> str:
        """A fingerprint of the code that can change its results, as it is now."""
        return _code(self.method, self.dataset, self.keep, bool(self.gold))


def run_of(config: Mapping[str, Any]) -> Run:
    """The run of a plain dict, such as :attr:`Run.config`; what is left out has its default.

    >>> run = Run("synthetic", "dl-mv", data={"n_train": 100}, keep=("right",))
    >>> run_of(run.config).hash == run.hash
    True
    """
    given: dict[str, Any] = dict(config)
    return Run(**given | {"keep": tuple(given.get("keep", ()))})


def execute(run: Run) -> dict[str, Any]:
    """Fit the run's method and measure it; test labels are used for selection in the protocol "test" alone.

    Returns
    -------
    dict of float, int, str and None
        Accuracy on test data and of the cleaned training labels, how the epoch was chosen, the time of the fit, and,
        where the truth behind the crowd is known, how well confusion and omega were recovered.
    """
    data = load_data(run)
    if data.test is None:
        raise InputError(f"{run.dataset}: has no test data to measure on")
    clf = make(run.method, **settings_of(run))
    target = data.classes[data.y_true] if methods.get(run.method).takes == "gold" else data.annotations
    began = time.process_time()  # CPU time: other programs may be running
    clf.fit(data.x, target, validation=_validation(data, run.protocol), monitor=_monitor(data, run))
    seconds = time.process_time() - began
    truth, probas = data.classes[data.test.y], clf.predict_proba(data.test.x)
    predicted = clf.classes_[probas.argmax(1)]  # by name: a model of gold labels may order the classes differently
    figures = {
        "test_accuracy": metrics.accuracy(truth, predicted),
        "test_macro_f1": metrics.macro_f1(truth, predicted),
        "test_calibration_error": metrics.calibration_error(truth, probas, classes=clf.classes_),
        "label_accuracy": metrics.accuracy(data.classes[data.y_true], clf.labels_),
        "selection": clf.metrics_["selection"],
        "best_epoch": clf.metrics_["best_epoch"],
        "best_score": clf.metrics_["best_score"],
        "restarts": clf.metrics_["restarts"],
        "seconds": seconds,
    }
    return figures | _recovery(clf, data) | {name: MEASUREMENTS[name](clf, data) for name in run.keep}


def settings_of(run: Run) -> dict[str, Any]:
    """The estimator's parameters.

    >>> settings_of(Run("labelme", "conal", parameters={"lr": 0.02}))
    {'selection': 'gold', 'epochs': 100, 'lr': 0.02, 'seed': 0, 'verbose': False}
    """
    stated = {"selection": _selection(run.protocol), "epochs": EPOCHS, **run.parameters}
    return {**stated, "seed": run.seed, "verbose": False}


def load_data(run: Run) -> CrowdDataset:
    """The run's dataset, cached for the next run in this process."""
    return _load(run.dataset, json.dumps(dict(run.data), sort_keys=True))


def _selection(protocol: Protocol) -> str:
    return {"test": "gold", "own": "auto"}.get(protocol, protocol)


def _validation(data: CrowdDataset, protocol: Protocol) -> tuple[Any, Any] | None:
    if protocol not in ("gold", "test"):
        return None
    split = data.test if protocol == "test" else data.valid
    if split is None or not len(split):
        raise InputError(f"{data.name}: has no gold validation labels; choose protocol 'annotations'")
    return split.x, data.classes[split.y]


def _monitor(data: CrowdDataset, run: Run) -> dict[str, tuple[Any, Any]]:
    """Data on which to measure accuracy after every epoch, if the history is kept; not used for selection."""
    if "history" not in run.keep or data.test is None:
        return {}
    return {"training": (data.x, data.classes[data.y_true]), "test": (data.test.x, data.classes[data.test.y])}


def _recovery(clf: CrowdClassifier, data: CrowdDataset) -> dict[str, float]:
    """Distance from the truth behind a simulated crowd; nothing for a crowd of people."""
    if data.truth is None or methods.get(clf.method).takes == "gold":
        return {}
    figures = {
        "bayes_label_accuracy": bayes_label_accuracy(data),
        "common_confusion_error": metrics.confusion_recovery_error(data.truth.pi_g, clf.common_confusion_),
        "annotator_confusion_error": metrics.confusion_recovery_error(data.truth.pi_r, clf.annotator_confusion_),
    }
    if clf.model_.separates_noise:
        omega = clf.common_noise_rate(data.x, data.annotations)
        if omega.std() > 0 and data.truth.omega.std() > 0:
            figures["omega_correlation"] = float(np.corrcoef(omega, data.truth.omega)[0, 1])
    return figures


@cache
def _code(method: str, dataset: str, keep: tuple[str, ...], gold: bool) -> str:
    roots, rooms = counted(method, dataset, keep, gold=gold)
    return fingerprint(roots, rooms=rooms)


def counted(method: str, dataset: str, keep: tuple[str, ...], *, gold: bool) -> tuple[list[str], tuple[str, ...]]:
    """Roots and rooms of the modules that can change a run; findings only if what reports say is measured."""
    data = llm_jury.__module__ if dataset in JUDGES else dataset_registry.get(dataset).__module__
    trained = [methods.get(method).__module__] if method in methods.names() else []  # or an aggregator, of GOLD_ROOTS
    measured = [MEASUREMENTS[name].__module__ for name in keep]
    roots = [*trained, data, *ROOTS, *measured, *(GOLD_ROOTS if gold else [])]
    if gold or any(map(uses_findings, measured)):
        return [*roots, *findings_roots()], (*ROOMS, REPORTED)
    return roots, ROOMS


@lru_cache(maxsize=4)
def _load(name: str, settings: str) -> CrowdDataset:
    options = json.loads(settings)
    part = options.pop("sample", None)
    data = llm_jury(jury=name, **options) if name in JUDGES else datasets.load(name, **options)
    return data if part is None else sampled(data, **part)
