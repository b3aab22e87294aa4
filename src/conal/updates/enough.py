"""Which tasks have enough labels: the model's belief in their label is above a level that the user sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.aggregation.base import Aggregator
from conal.aggregation.confusion import MatrixAggregator
from conal.aggregation.counts import Votes
from conal.aggregation.tempering import held_out_certainty
from conal.data.annotations import Annotations
from conal.data.encoding import name_column
from conal.parameters import share

if TYPE_CHECKING:
    from conal.metrics.rates import Rate

__all__ = ["ENOUGH", "check_level", "enough_table", "measured_right", "tempered"]

ENOUGH = "enough_labels.csv"
"""The table's name in a folder."""
POOLING = 1.0
"""Labels of the crowd in a row of an annotator's matrix, where labels are left out one by one."""
LABELS = 20_000
"""So many labels at most are left out, one by one."""
TINY = 1e-300

FloatArray = npt.NDArray[np.float64]


def check_level(level: float) -> None:
    """An error unless this is a probability between 0 and 1."""
    share().check("enough (--enough)", level)


def tempered(fitted: Aggregator, posterior: FloatArray | None = None) -> FloatArray:
    """(N, C) the posterior of an aggregator, or another one of its tasks, as sure as labels that were left out allow.

    Aggregators count annotators as independent, and claim too much where these err together. The exponent is that of
    :func:`conal.aggregation.tempering.held_out_certainty`; labels do not change. It is no calibration: labels that
    were left out show no mistake that most annotators share. Known true labels stay certain.
    """
    crowd = fitted.annotations_
    log_posterior = np.log(np.maximum(fitted.probas_, TINY))
    some = crowd if crowd.n_annotations <= LABELS else _part(crowd)
    votes: Any = (some.tasks, some.annotators, some.labels)
    learned = fitted.learned_.sums if isinstance(fitted, MatrixAggregator) else None
    counts = Votes(crowd).counts(fitted.probas_) if learned is None else learned.counts
    tau = held_out_certainty(log_posterior, votes, counts, vote_weight=1.0, pooling=POOLING)
    flat = (fitted.probas_ if posterior is None else posterior) ** tau
    flat /= flat.sum(1, keepdims=True)
    if posterior is None:
        known = fitted.known_codes_ >= 0
        flat[known] = fitted.probas_[known]
    return np.asarray(flat)


def measured_right(fitted: Aggregator, unseen: FloatArray, level: float) -> Rate | None:
    """How many labels with at least this probability are right, by true labels; None where fewer than ten tell.

    Parameters
    ----------
    unseen : (N, C)
        The posterior, of tasks with a true label by fits without it.
    """
    from conal.metrics.rates import (
        MIN_OF_ANNOTATOR,  # loading scipy takes a tenth of a second
        gold_rate,
    )

    crowd, probas = fitted.annotations_, tempered(fitted, unseen)
    best = probas.max(1)
    rows = np.flatnonzero((best >= level) & (crowd.labels_per_task() > 0))
    judged = np.flatnonzero(fitted.known_codes_[rows] >= 0)
    if len(judged) < MIN_OF_ANNOTATOR:
        return None
    right = probas.argmax(1)[rows[judged]] == fitted.known_codes_[rows[judged]]
    inclusion = None if fitted.inclusion_ is None else fitted.inclusion_[rows[judged]]
    return gold_rate(best[rows], judged, right, inclusion=inclusion)


def _part(crowd: Annotations) -> Annotations:
    """Labels of random tasks, enough to see how sure to be."""
    kept = np.random.default_rng(0).random(crowd.n_tasks) < LABELS / crowd.n_annotations
    return crowd.select(kept[crowd.tasks])


def enough_table(crowd: Annotations, probas: FloatArray, classes: Any, level: float) -> pa.Table:
    """The tasks whose most probable class has at least this probability; the surest first.

    Columns: task, label, probability (the model's belief, as ``basis`` says), and how many labels the task has.
    """
    best = probas.max(1)
    rows = np.flatnonzero((best >= level) & ~np.isnan(best))
    rows = rows[np.argsort(-best[rows], kind="stable")]
    return pa.table(
        {
            "task": name_column(crowd.task_ids[rows]),
            "label": name_column(classes[probas[rows].argmax(1)]),
            "probability": best[rows],
            "basis": ["belief"] * len(rows),
            "labels": crowd.labels_per_task()[rows],
        }
    )
