"""Whether intervals hold what true labels say: of annotators' quality, and of rates by a few true labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.datasets import CrowdDataset
from conal.estimator import CrowdClassifier
from conal.estimator.results import FittedResults
from conal.experiments.gold_draws import Draw, planned_draw, random_draw
from conal.findings.gold_rates import MIN_OF_ANNOTATOR
from conal.metrics import GoldRates, gold_rates
from conal.metrics.difference_estimator import Rate

__all__ = ["KINDS", "annotator_intervals", "pipeline_rates", "rates_held", "replayed_rates"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MIN_LABELS = 10
"""Annotators whose intervals are judged have given so many labels."""
N_REPLAYED = 50
"""True labels of a replay."""
REPLAYS = 200
KINDS = ("classes", "cleaned", "crowd", "annotators")
"""Kinds of rates: shares of the classes, right cleaned labels, right labels of the crowd, and of each annotator."""


def annotator_intervals(clf: CrowdClassifier, data: CrowdDataset) -> dict[str, float]:
    """How many 95 % intervals of annotators' quality hold the share of their labels that are right."""
    assert isinstance(clf.results_, FittedResults)  # noqa: S101 - it comes from a fit
    crowd = data.annotations
    judged = crowd.labels_per_annotator() >= MIN_LABELS
    low, high = clf.results_.findings.intervals.quality
    truth = _right_share(crowd, data.y_true)
    held = (low <= truth) & (truth <= high)
    return {"annotators": int(judged.sum()), "held": int(held[judged].sum()), "width": _mean((high - low)[judged])}


def pipeline_rates(clf: CrowdClassifier, data: CrowdDataset) -> dict[str, dict[str, float]]:
    """How many intervals hold of those that the report has, by the true labels of the fit."""
    assert isinstance(clf.results_, FittedResults)  # noqa: S101 - it comes from a fit
    found = clf.results_
    assert found.unseen is not None and found.known is not None  # noqa: S101, PT018 - it was fitted with true labels
    rows = np.flatnonzero(found.known >= 0)
    drawn = Draw(rows, None if found.inclusion is None else found.inclusion[rows])
    return rates_held(data, found.unseen, drawn)


def replayed_rates(clf: CrowdClassifier, data: CrowdDataset) -> dict[str, dict[str, dict[str, float]]]:
    """By design, how many intervals hold over many draws of 50 true labels, for one model that knows none of them."""
    n = min(N_REPLAYED, len(data.x) // 2)
    designs: dict[str, Callable[[int], Draw]] = {
        "random": lambda seed: random_draw(data, n, seed),
        "planned": lambda seed: planned_draw(clf, data, n, seed),
    }
    return {
        design: _added([rates_held(data, clf.probas_, draw(seed)) for seed in range(REPLAYS)])
        for design, draw in designs.items()
    }


def rates_held(data: CrowdDataset, posterior: FloatArray, drawn: Draw) -> dict[str, dict[str, float]]:
    """By kind of rate: the number of intervals, how many hold the truth, and the sums of their widths.

    ``alone`` is the width of the intervals by the true labels alone, without predictions.
    """
    crowd = data.annotations
    inclusion = None
    if drawn.inclusion is not None:
        inclusion = np.full(crowd.n_tasks, np.nan)
        inclusion[drawn.rows] = drawn.inclusion
    truth = _true_rates(data, posterior.argmax(1))
    nothing = np.full_like(posterior, 1 / posterior.shape[1])
    helped, alone = (
        _by_kind(gold_rates(crowd, q, drawn.table(data), cleaned=posterior.argmax(1), inclusion=inclusion))
        for q in (posterior, nothing)
    )
    return {kind: _held(helped[kind], alone[kind], truth[kind]) for kind in KINDS}


def _held(rates: list[Rate], alone: list[Rate], truth: list[float]) -> dict[str, float]:
    told = [
        (rate, other, true)
        for rate, other, true in zip(rates, alone, truth, strict=True)
        if rate.n_gold >= MIN_OF_ANNOTATOR
    ]
    return {
        "n": len(told),
        "held": sum(rate.low <= true <= rate.high for rate, _, true in told),
        "width": float(sum(rate.high - rate.low for rate, _, _ in told)),
        "alone": float(sum(other.high - other.low for _, other, _ in told)),
    }


def _by_kind(found: GoldRates) -> dict[str, list[Rate]]:
    return {
        "classes": found.classes,
        "cleaned": [found.cleaned],
        "crowd": [found.crowd],
        "annotators": found.annotators,
    }


def _true_rates(data: CrowdDataset, cleaned: IntArray) -> dict[str, list[float]]:
    """What the rates are in truth, for the tasks that have labels."""
    crowd, y = data.annotations, data.y_true
    labelled = crowd.labels_per_task() > 0
    return {
        "classes": (np.bincount(y[labelled], minlength=crowd.n_classes) / labelled.sum()).tolist(),
        "cleaned": [_mean(cleaned[labelled] == y[labelled])],
        "crowd": [_mean(crowd.labels == y[crowd.tasks])],
        "annotators": _right_share(crowd, y).tolist(),
    }


def _right_share(crowd: Annotations, y: IntArray) -> FloatArray:
    """(R,) share of each annotator's labels that are right."""
    right = np.bincount(crowd.annotators, weights=crowd.labels == y[crowd.tasks], minlength=crowd.n_annotators)
    return np.asarray(right / np.maximum(crowd.labels_per_annotator(), 1))


def _added(found: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {kind: {name: sum(each[kind][name] for each in found) for name in found[0][kind]} for kind in KINDS}


def _mean(values: npt.NDArray[np.float64] | npt.NDArray[np.bool_]) -> float:
    return float(np.mean(values))
