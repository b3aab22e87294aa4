"""Runs with true labels of a few training tasks: which tasks are drawn, what learns from them, what is measured."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal import aggregation
from conal.data.encoding import decode_position
from conal.datasets import CrowdDataset
from conal.estimator import CrowdClassifier, make
from conal.experiments.gold_draws import Draw, planned_draw, random_draw
from conal.experiments.measurements import MEASUREMENTS
from conal.experiments.runs import Run, load_data, settings_of
from conal.experiments.stacked_votes import stacked_votes
from conal.text import TextFeatures

__all__ = ["GOLD_ONLY", "STACKED", "execute_gold"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

GOLD_ONLY = "gold"
"""The method that learns from true labels alone."""
STACKED = "stacked-votes"


class _Answer(NamedTuple):
    """What a method says: (N, C) class probabilities of the tasks, and (n, C) of the test data if it can."""

    probas: FloatArray
    test: FloatArray | None
    seconds: float
    fitted: CrowdClassifier | None = None


def execute_gold(run: Run) -> dict[str, Any]:
    """Draw the run's true labels by its seed, learn with them, and measure on test data and on all other tasks.

    Returns
    -------
    dict of float, int and None
        Accuracy on test data, None where there are none; accuracy of the cleaned labels of the tasks without a true
        label, ``claimed``, what the method says that it is, and ``label_accuracy_before``, what it is on the same tasks
        if the same method gets no true label; the time, and what the run keeps.
    """
    data = load_data(run)
    drawn = _drawn(run, data)
    answer = _answer(run, data, drawn)
    others = data.annotations.labels_per_task() > 0
    others[drawn.rows] = False
    figures: dict[str, Any] = {
        "test_accuracy": None,
        "label_accuracy": float((answer.probas.argmax(1) == data.y_true)[others].mean()),
        "claimed": float(answer.probas.max(1)[others].mean()),
        "n_gold": len(drawn.rows),
        "seconds": answer.seconds,
    }
    if answer.test is not None and data.test is not None:
        figures["test_accuracy"] = float((answer.test.argmax(1) == data.test.y).mean())
    if answer.fitted is not None:
        before = _without_gold(run).probas.argmax(1)
        figures["label_accuracy_before"] = float((before == data.y_true)[others].mean())
    return figures | {name: MEASUREMENTS[name](answer.fitted, data) for name in run.keep if answer.fitted is not None}


def _drawn(run: Run, data: CrowdDataset) -> Draw:
    """The run's tasks with a true label; a plan is that of the same method without true labels."""
    n = int(run.gold["n"])
    if run.gold["design"] == "random":
        return random_draw(data, n, run.seed)
    fitted = _without_gold(run).fitted
    assert fitted is not None  # noqa: S101 - only crowd classifiers plan
    return planned_draw(fitted, data, n, run.seed)


def _answer(run: Run, data: CrowdDataset, drawn: Draw) -> _Answer:
    if run.method == STACKED or run.method in aggregation.names():
        return _labels_only(run, data, drawn)
    if run.method == GOLD_ONLY:
        return _gold_only(run, data, drawn.rows)
    return _fit(run, data, drawn) if len(drawn.rows) else _without_gold(run)


def _without_gold(run: Run) -> _Answer:
    """The same method with the same data and seed, without true labels; the next runs of the process need it again."""
    return _cached_fit(json.dumps(replace(run, gold={}, keep=(), protocol="own").config, sort_keys=True))


@lru_cache(maxsize=8)
def _cached_fit(config: str) -> _Answer:
    run = Run(**json.loads(config))
    return _fit(run, load_data(run), Draw(np.empty(0, dtype=np.int64)))


def _fit(run: Run, data: CrowdDataset, drawn: Draw) -> _Answer:
    """True labels in training; under the protocol "gold", they choose the epoch instead."""
    judging = {} if "pipeline_rates" in run.keep else {"refits": 0}  # which only rates need
    clf = make(run.method, **judging, **settings_of(run))
    selecting = run.protocol == "gold"
    known = data.x[drawn.rows], data.classes[data.y_true[drawn.rows]]
    began = time.process_time()
    clf.fit(
        data.x,
        data.annotations,
        validation=known if selecting else None,
        true_labels=None if selecting else drawn.table(data),
    )
    seconds = time.process_time() - began
    return _Answer(clf.probas_, None if data.test is None else clf.predict_proba(data.test.x), seconds, clf)


def _gold_only(run: Run, data: CrowdDataset, rows: IntArray) -> _Answer:
    """A classifier that sees the tasks with a true label, and nothing of the crowd."""
    began = time.process_time()
    x: Any = data.x
    if x.dtype == object:  # the vocabulary is that of all texts
        x = _text_features(tuple(x.tolist()), run.seed)
    y = data.y_true[rows]
    if len(np.unique(y)) < 2:  # a classifier needs two classes
        always = np.eye(len(data.classes))[y[0]]
        test = None if data.test is None else np.tile(always, (len(data.test), 1))
        return _Answer(np.tile(always, (len(data.x), 1)), test, time.process_time() - began)
    clf = make(run.method, **settings_of(run)).fit(x[rows], data.classes[y])
    seconds = time.process_time() - began

    def predicted(features: Any) -> FloatArray:
        probas = np.zeros((len(features), len(data.classes)))
        probas[:, decode_position(data.classes, clf.classes_)] = clf.predict_proba(features)
        return probas

    return _Answer(predicted(x), None if data.test is None else predicted(data.test.x), seconds)


@lru_cache(maxsize=8)
def _text_features(texts: tuple[str, ...], seed: int) -> FloatArray:
    """The features of all texts of a crowd, which runs with other numbers of true labels need again."""
    return np.asarray(TextFeatures(seed=seed).fit_transform(list(texts)))


def _labels_only(run: Run, data: CrowdDataset, drawn: Draw) -> _Answer:
    """An aggregator with the true labels as certain, or votes stacked by them."""
    began = time.process_time()
    if run.method == STACKED:
        probas = stacked_votes(data.annotations, drawn.rows, data.y_true[drawn.rows])
    else:
        aggregator = aggregation.make(run.method, **run.parameters)
        probas = aggregator.fit(data.annotations, true_labels=drawn.table(data)).probas_
    return _Answer(probas, None, time.process_time() - began)
