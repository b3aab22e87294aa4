"""Rates of a crowd from a few true labels: the size of every class, and how many labels are right."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.data.true_labels import known_codes
from conal.metrics.difference_estimator import Learned, Rate, Sample, gold_rate, learn, rate_of
from conal.metrics.validation import task_posterior

__all__ = ["GoldRates", "gold_rates"]

FloatArray = npt.NDArray[np.float64]


class GoldRates(NamedTuple):
    """Rates of a crowd, each for the tasks that have labels.

    Attributes
    ----------
    classes : list of Rate
        Share of every class.
    cleaned : Rate
        Share of the cleaned labels that are right.
    crowd : Rate
        Share of the crowd's labels that are right.
    annotators : list of Rate
        Share of every annotator's labels that are right.
    """

    classes: list[Rate]
    cleaned: Rate
    crowd: Rate
    annotators: list[Rate]


def gold_rates(
    data: Any,
    posterior: npt.ArrayLike,
    true_labels: Any,
    *,
    cleaned: npt.ArrayLike | None = None,
    inclusion: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> GoldRates:
    """How large every class is, and how many labels are right: of a crowd, of its cleaned labels, of each annotator.

    Every rate is that of :func:`gold_rate`, about the tasks that have labels. How far predictions can be trusted about
    single annotators is learned from the labels of all: few true labels fall on one person's tasks.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    posterior : (n_tasks, n_classes) array
        Class probabilities of all tasks, by a model that does not know the true labels.
    true_labels : dict, Series or DataFrame
        True labels of some tasks.
    cleaned : (n_tasks,) array of int, optional
        Classes of the cleaned labels, as columns of ``posterior``; by default the most probable ones.
    inclusion : (n_tasks,) array, optional
        Probability with which each task was drawn for a true label; by default the tasks are a random sample.

    Examples
    --------
    >>> import conal
    >>> data = conal.datasets.synthetic(n_train=400, n_classes=3, seed=0)
    >>> found = conal.aggregation.DawidSkene().fit(data.annotations)
    >>> gold = dict(enumerate(data.classes[data.y_true[:60]]))
    >>> rates = conal.metrics.gold_rates(data.annotations, found.probas_, gold)
    >>> right = (found.codes_ == data.y_true).mean()
    >>> rates.cleaned.n_gold, bool(rates.cleaned.low <= right <= rates.cleaned.high)
    (60, True)
    """
    crowd = Annotations.of(data)
    q = task_posterior(posterior, crowd)
    truth = known_codes(crowd, true_labels)
    best = q.argmax(1) if cleaned is None else np.asarray(cleaned)
    tasks = np.flatnonzero(crowd.labels_per_task() > 0)
    known = tasks[truth[tasks] != MISSING]
    at = np.searchsorted(tasks, known)
    drawn = None if inclusion is None else np.asarray(inclusion, float)[known]

    def rate(predicted: FloatArray, observed: npt.NDArray[Any]) -> Rate:
        return gold_rate(predicted[tasks], at, observed[known], inclusion=drawn, confidence=confidence)

    return GoldRates(
        [rate(q[:, c], truth == c) for c in range(crowd.n_classes)],
        rate(q[np.arange(len(q)), best], best == truth),
        *_label_rates(crowd, q, truth, inclusion, confidence),
    )


def _label_rates(
    crowd: Annotations,
    q: FloatArray,
    truth: npt.NDArray[np.int64],
    inclusion: npt.ArrayLike | None,
    confidence: float,
) -> tuple[Rate, list[Rate]]:
    """Rates of the crowd's labels: of all together, and of each annotator."""
    f = q[crowd.tasks, crowd.labels]
    right = (crowd.labels == truth[crowd.tasks]).astype(float)
    known = truth != MISSING
    here = known[crowd.tasks]
    if not here.any():
        return Rate.unknown(), [Rate.unknown()] * crowd.n_annotators
    pi = None if inclusion is None else np.asarray(inclusion, float)
    whole = _task_sample(crowd, f, right, known, pi)
    labels = Sample(f[here], right[here], np.full(here.sum(), here.mean()) if pi is None else pi[crowd.tasks[here]])
    return (
        rate_of(float(f.mean()), whole, learn(whole), confidence),
        _annotator_rates(crowd, f, right, here, pi, learn(labels), confidence),
    )


def _task_sample(
    crowd: Annotations, f: FloatArray, right: FloatArray, known: npt.NDArray[np.bool_], pi: FloatArray | None
) -> Sample:
    """Labels of known tasks, summed per task, because tasks are drawn; one label of the mean task counts 1."""
    counts = crowd.labels_per_task()
    tasks = np.flatnonzero(known & (counts > 0))
    size = counts[counts > 0].mean()
    expected, found = (np.bincount(crowd.tasks, values, crowd.n_tasks)[tasks] / size for values in (f, right))
    return Sample(expected, found, np.full(len(tasks), len(tasks) / (counts > 0).sum()) if pi is None else pi[tasks])


def _annotator_rates(
    crowd: Annotations,
    f: FloatArray,
    right: FloatArray,
    here: npt.NDArray[np.bool_],
    pi: FloatArray | None,
    learned: Learned,
    confidence: float,
) -> list[Rate]:
    order = np.argsort(crowd.annotators, kind="stable")
    ends = np.cumsum(crowd.labels_per_annotator())
    found = []
    for own in np.split(order, ends[:-1]):
        known = own[here[own]]
        if not len(known):
            found.append(Rate.unknown())
            continue
        drawn = np.full(len(known), len(known) / len(own)) if pi is None else pi[crowd.tasks[known]]
        found.append(rate_of(float(f[own].mean()), Sample(f[known], right[known], drawn), learned, confidence))
    return found
