"""Which task to show to whom next, and what it is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.findings.evidence import Evidence, plain_names
from conal.io.results import name_column

__all__ = ["expected_gain", "suggestions", "suggestions_table"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_TASKS = 1000
MAX_ANNOTATORS = 50
CAUTION = 5.0
"""Labels of everybody's confusion that every row of a candidate's matrix is mixed with: three right labels of three
prove little, and the best of many would be taken by luck."""
LEAST_GAIN = 0.001
"""What gains less is not worth a question."""
CHUNK = 8_000_000
"""Products that are made at a time."""


def expected_gain(posterior: FloatArray, confusion: FloatArray) -> FloatArray:
    r"""(n, R) how much less likely the label is to be wrong after one more answer, before the answer is known.

    The answer l comes with probability :math:`\sum_c q_c \mu_{cl}`, and the label is then the class for which
    :math:`q_c \mu_{cl}` is largest:

    .. math::
        \sum_l \max_c q_c \mu^r_{cl} - \max_c q_c

    Parameters
    ----------
    posterior : (n, C)
    confusion : (R, C, C)
        ``confusion[r, c, l]`` = P(annotator r says l | true c).

    Example
    -------
    >>> expected_gain(np.array([[0.5, 0.5]]), np.array([[[0.9, 0.1], [0.1, 0.9]]])).round(3).tolist()
    [[0.4]]
    """
    n, C = posterior.shape
    gain = np.empty((n, len(confusion)))
    step = max(1, CHUNK // (C * C))
    for r, matrix in enumerate(confusion):
        for start in range(0, n, step):
            q = posterior[start : start + step]
            after = (q[:, :, None] * matrix).max(1).sum(1)
            gain[start : start + step, r] = after - q.max(1)
    return np.maximum(gain, 0.0)  # it cannot be negative but for rounding


def suggestions(evidence: Evidence, quality_low: FloatArray) -> list[dict[str, Any]]:
    """The least certain tasks, each with the annotator whose answer is worth most; largest gain first.

    Parameters
    ----------
    quality_low : (R,)
        Lower ends of the annotators' quality; NaN for those without labels. The best are the candidates. Nobody is
        asked twice about a task.
    """
    crowd = evidence.annotations
    tasks = _least_certain(evidence)
    candidates = np.argsort(-np.nan_to_num(quality_low, nan=-1.0), kind="stable")[:MAX_ANNOTATORS]
    candidates = np.sort(candidates[crowd.labels_per_annotator()[candidates] > 0])
    if not len(tasks) or not len(candidates):
        return []
    gain = expected_gain(evidence.posterior[tasks], _cautious(evidence, candidates))
    gain[_asked(evidence, tasks, candidates)] = -1.0
    best = gain.argmax(1)
    value = gain[np.arange(len(tasks)), best]
    order = [k for k in np.argsort(-value, kind="stable") if value[k] >= LEAST_GAIN]
    names, people, ids = (
        plain_names(x) for x in (crowd.classes, crowd.annotator_ids[candidates], crowd.task_ids[tasks])
    )
    return [
        {
            "task": ids[k],
            "worker": people[best[k]],
            "expected_gain": float(value[k]),
            "label": names[evidence.inferred[tasks[k]]],
            "probability": float(evidence.posterior[tasks[k]].max()),
        }
        for k in order
    ]


def suggestions_table(rows: list[dict[str, Any]]) -> pa.Table:
    """The queue as a table, which may be empty; columns task, worker, expected_gain, label, probability."""
    columns = {name: [row[name] for row in rows] for name in ("task", "worker", "label")}
    names = {name: name_column(np.array(values, dtype=object)) for name, values in columns.items()}
    figures = {name: pa.array([row[name] for row in rows], pa.float64()) for name in ("expected_gain", "probability")}
    if not rows:
        names = dict.fromkeys(names, pa.array([], pa.string()))
    order = ("task", "worker", "expected_gain", "label", "probability")
    return pa.table({name: (names | figures)[name] for name in order})


def _least_certain(evidence: Evidence) -> IntArray:
    best = evidence.posterior.max(1)
    count = min(MAX_TASKS, len(best))
    some = np.argpartition(best, count - 1)[:count] if count else np.arange(0)
    return np.sort(some)


def _cautious(evidence: Evidence, annotators: IntArray) -> FloatArray:
    """(n, C, C) learned matrices, each row mixed with a few labels of everybody's."""
    met = evidence.classes_met[annotators][:, :, None]
    return np.asarray((met * evidence.confusion_of(annotators) + CAUTION * evidence.common) / (met + CAUTION))


def _asked(evidence: Evidence, tasks: IntArray, annotators: IntArray) -> npt.NDArray[np.bool_]:
    """(n, R) whether the annotator has labelled the task already."""
    crowd = evidence.annotations
    row, column = np.full(crowd.n_tasks, -1), np.full(crowd.n_annotators, -1)
    row[tasks], column[annotators] = np.arange(len(tasks)), np.arange(len(annotators))
    at, who = row[crowd.tasks], column[crowd.annotators]
    asked = np.zeros((len(tasks), len(annotators)), dtype=bool)
    both = (at >= 0) & (who >= 0)
    asked[at[both], who[both]] = True
    return asked
