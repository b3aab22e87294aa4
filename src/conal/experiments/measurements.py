"""Measurements that a run can keep beyond its metrics: matrices, classes by omega, the course of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from conal import aggregation
from conal.datasets import CrowdDataset
from conal.estimator import CrowdClassifier, compute
from conal.estimator.members import members_of
from conal.experiments.cleaned_labels import cleaned_labels
from conal.experiments.gold_measurements import annotator_intervals, pipeline_rates, replayed_rates
from conal.experiments.report_measurements import commonness, coverage
from conal.experiments.right_answers import packed, right_answers
from conal.training import CrowdBatches, Instances

__all__ = ["MEASUREMENTS", "N_SHOWN", "TWO_STAGE", "omega_halves"]

FloatArray = npt.NDArray[np.float64]

TWO_STAGE = ("dawid-skene", "majority-vote")
"""Aggregators before a logistic regression, to compare with."""
N_SHOWN = 5
"""Annotators whose matrices are kept: those with the most labels, the first of equals."""


def _confusion(clf: CrowdClassifier, data: CrowdDataset) -> dict[str, Any]:
    """The common matrix and those of a few annotators, as learned and, where it is known, in truth."""
    most = np.argsort(-data.annotations.labels_per_annotator(), kind="stable")[:N_SHOWN]
    kept: dict[str, Any] = {
        "classes": [str(name) for name in clf.classes_.tolist()],
        "annotators": [str(name) for name in clf.annotator_ids_[most].tolist()],
        "common": clf.common_confusion_.tolist(),
        "individual": clf.annotator_confusion_[most].tolist(),
    }
    if data.truth is not None:
        kept |= {"true_common": data.truth.pi_g.tolist(), "true_individual": data.truth.pi_r[most].tolist()}
    return kept


def _omega(clf: CrowdClassifier, data: CrowdDataset) -> dict[str, Any]:
    omega = clf.common_noise_rate(data.x, data.annotations)
    top, bottom = omega_halves(omega, data)
    return {"classes": [str(name) for name in data.classes.tolist()], "top": top.tolist(), "bottom": bottom.tolist()}


def omega_halves(omega: FloatArray, data: CrowdDataset) -> list[FloatArray]:
    """(C,) shares of the true classes among the instances with the higher mean omega, and among the other half.

    The mean is over the annotators who labelled an instance.
    """
    crowd = data.annotations
    given = crowd.labels_per_task()
    labelled = np.flatnonzero(given)
    means = np.bincount(crowd.tasks, weights=omega, minlength=crowd.n_tasks)[labelled] / given[labelled]
    order = labelled[np.argsort(-means, kind="stable")]
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    counts = [np.bincount(data.y_true[half], minlength=crowd.n_classes) for half in halves]
    return [count / max(count.sum(), 1) for count in counts]


def _history(clf: CrowdClassifier, data: CrowdDataset) -> list[dict[str, float]]:
    return [{name: row[name] for name in ("epoch", "training_accuracy", "test_accuracy")} for row in clf.history_]


def _members(clf: CrowdClassifier, data: CrowdDataset) -> list[dict[str, Any]]:
    """Accuracy of every member of an ensemble, on test data and of the cleaned training labels."""
    if data.test is None:
        return []
    test, batches = Instances(data.test.x), CrowdBatches(Instances(data.x), data.annotations, clf.batch_size)
    truth = {"test_accuracy": data.classes[data.test.y], "label_accuracy": data.classes[data.y_true]}
    found: list[dict[str, Any]] = []
    for member in members_of(clf.model_):
        probas = {
            "test_accuracy": compute.class_probas(member, test),
            "label_accuracy": compute.training_posterior(member, batches),
        }
        # by name: a model of gold labels may order the classes differently
        right = {name: clf.classes_[p.argmax(1)] == truth[name] for name, p in probas.items()}
        shares = {name: float(each.mean()) for name, each in right.items()}
        found.append(shares | {"right": packed(right["test_accuracy"])})
    return found


def _validation(clf: CrowdClassifier, data: CrowdDataset) -> float | None:
    """Accuracy on the validation data, for runs whose epoch is not chosen on them."""
    if data.valid is None:
        return None
    return float((clf.predict(data.valid.x) == data.classes[data.valid.y]).mean())


def _two_stage(clf: CrowdClassifier, data: CrowdDataset) -> dict[str, dict[str, float]]:
    """What a user would do instead: aggregate, then train scikit-learn's LogisticRegression on the same features."""
    from sklearn.linear_model import LogisticRegression

    if data.test is None:
        return {}
    made = clf.text_features_
    x, test = (each if made is None else made.transform(list(each)) for each in (data.x, data.test.x))
    found = {}
    for name in TWO_STAGE:
        codes = aggregation.make(name).fit(data.annotations).codes_
        classifier = LogisticRegression(max_iter=1000)
        predicted = classifier.fit(x, codes).predict(test) if len(set(codes)) > 1 else np.full(len(test), codes[0])
        found[name] = {
            "label_accuracy": float((codes == data.y_true).mean()),
            "test_accuracy": float((predicted == data.test.y).mean()),
        }
    return found


MEASUREMENTS: dict[str, Callable[[CrowdClassifier, CrowdDataset], Any]] = {
    "confusion": _confusion,
    "omega": _omega,
    "history": _history,
    "members": _members,
    "validation": _validation,
    "coverage": coverage,
    "commonness": commonness,
    "annotator_intervals": annotator_intervals,
    "pipeline_rates": pipeline_rates,
    "replayed_rates": replayed_rates,
    "two_stage": _two_stage,
    "right": right_answers,
    "cleaned_labels": cleaned_labels,
}
