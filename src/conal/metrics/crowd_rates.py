"""Rates of a crowd from a few true labels: the size of every class, and how many labels are right."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.data.true_labels import known_codes
from conal.metrics.difference_estimator import (
    Difference,
    Learned,
    Rate,
    Sample,
    difference_of,
    gold_rate,
    learn,
    rate_of,
)
from conal.metrics.validation import task_posterior

__all__ = ["MIN_OF_ANNOTATOR", "GoldRates", "gold_rates"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MIN_OF_ANNOTATOR = 10
"""An annotator is compared with the cleaned labels from so many labels on tasks with a true label on."""


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
    majority : Rate
        Share of the majority votes that are right; ties are drawn.
    above_majority : Difference
        Cleaned labels minus majority votes.
    above_annotators : list of Difference
        Cleaned labels minus each annotator's labels of the same tasks, for annotators with ten true labels or more.
        These intervals and that of ``above_majority`` hold together, so that the best annotator may be picked by them.
    """

    classes: list[Rate]
    cleaned: Rate
    crowd: Rate
    annotators: list[Rate]
    majority: Rate
    above_majority: Difference
    above_annotators: list[Difference]


def gold_rates(
    data: Any,
    posterior: npt.ArrayLike | None,
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
    posterior : (n_tasks, n_classes) array or None
        Class probabilities of all tasks, by a model that does not know the true labels. Without one, only classes,
        annotators and majority votes have rates, by the true labels alone.
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
    q = np.full((crowd.n_tasks, crowd.n_classes), 1 / crowd.n_classes)
    if posterior is not None:
        q = task_posterior(posterior, crowd)
    truth = known_codes(crowd, true_labels)
    best = q.argmax(1) if cleaned is None else np.asarray(cleaned)
    tasks = np.flatnonzero(crowd.labels_per_task() > 0)
    known = tasks[truth[tasks] != MISSING]
    at = np.searchsorted(tasks, known)
    drawn = None if inclusion is None else np.asarray(inclusion, float)[known]

    def rate(predicted: FloatArray, observed: npt.NDArray[Any]) -> Rate:
        return gold_rate(predicted[tasks], at, observed[known], inclusion=drawn, confidence=confidence)

    votes = _votes(crowd)
    of_votes = (votes * q).sum(1), votes[np.arange(len(votes)), truth]
    of_cleaned = q[np.arange(len(q)), best], (best == truth).astype(float)
    of_all, of_each = _label_rates(crowd, q, truth, inclusion, confidence)
    above: tuple[Difference, list[Difference]] = Difference.unknown(), [Difference.unknown()] * crowd.n_annotators
    if posterior is not None and len(known):
        above = _above(crowd, q, truth, inclusion, (of_cleaned, of_votes), confidence)
    return GoldRates(
        [rate(q[:, c], truth == c) for c in range(crowd.n_classes)],
        Rate.unknown() if posterior is None else rate(*of_cleaned),
        of_all,
        of_each,
        rate(*of_votes),
        *above,
    )


def _votes(crowd: Annotations) -> FloatArray:
    """(N, C) probability with which each class wins the vote, if ties are drawn; 0 without votes."""
    votes = crowd.votes()
    won = (votes == votes.max(1, initial=0, keepdims=True)) & (votes > 0)
    return np.asarray(won / np.maximum(won.sum(1, keepdims=True), 1))


Predicted = tuple[FloatArray, FloatArray]
"""(N,) what is expected of each task, and what is observed, where it is known."""


def _above(
    crowd: Annotations,
    q: FloatArray,
    truth: IntArray,
    inclusion: npt.ArrayLike | None,
    labels: tuple[Predicted, Predicted],
    confidence: float,
) -> tuple[Difference, list[Difference]]:
    """Cleaned labels minus majority votes, and minus each annotator's; all intervals hold together (Bonferroni)."""
    known = truth != MISSING
    pi = None if inclusion is None else np.asarray(inclusion, float)

    def estimated(values: Predicted, tasks: IntArray, learned: Learned | None = None) -> tuple[float, Sample, Learned]:
        here = tasks[known[tasks]]
        drawn = np.full(len(here), len(here) / len(tasks)) if pi is None else pi[here]
        sample = Sample(values[0][here], values[1][here], drawn)
        return float(values[0][tasks].mean()), sample, learn(sample) if learned is None else learned

    everywhere = np.flatnonzero(crowd.labels_per_task() > 0)
    cleaned, votes = (estimated(each, everywhere) for each in labels)
    order = np.argsort(crowd.annotators, kind="stable")
    own = np.split(crowd.tasks[order].astype(np.int64), np.cumsum(crowd.labels_per_annotator())[:-1])
    compared = [r for r, tasks in enumerate(own) if known[tasks].sum() >= MIN_OF_ANNOTATOR]
    level = 1 - (1 - confidence) / (1 + len(compared))
    of_labels = _learned_from_labels(crowd, q, truth, pi)
    found = [Difference.unknown()] * crowd.n_annotators
    for r in compared:
        given = np.zeros(crowd.n_tasks, np.int64)
        given[own[r]] = crowd.labels[crowd.annotators == r]
        values = q[np.arange(len(q)), given], (given == truth).astype(float)
        first, second = estimated(labels[0], own[r], cleaned[2]), estimated(values, own[r], of_labels)
        found[r] = difference_of(first, second, level)
    return difference_of(cleaned, votes, level), found


def _learned_from_labels(crowd: Annotations, q: FloatArray, truth: IntArray, pi: FloatArray | None) -> Learned:
    """How far predictions can be trusted about single labels, by those of all annotators."""
    here = (truth != MISSING)[crowd.tasks]
    tasks, labels = crowd.tasks[here], crowd.labels[here]
    drawn = np.full(len(tasks), here.mean()) if pi is None else pi[tasks]
    return learn(Sample(q[tasks, labels], (labels == truth[tasks]).astype(float), drawn))


def _label_rates(
    crowd: Annotations,
    q: FloatArray,
    truth: IntArray,
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
    whole, learned = _task_sample(crowd, f, right, known, pi), _learned_from_labels(crowd, q, truth, pi)
    return (
        rate_of(float(f.mean()), whole, learn(whole), confidence),
        _annotator_rates(crowd, f, right, here, pi, learned, confidence),
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
