"""Which task to show to which annotator next, and what the answer is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.findings.base import Finding, register
from conal.findings.evidence import Evidence, plain_names
from conal.findings.rows import TaskShown
from conal.io.results import ColumnKind, name_column

if TYPE_CHECKING:
    from conal.findings.collection import Findings

__all__ = ["ON_PAGE", "SuggestionSection", "Suggestions", "expected_gain", "suggestions"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_TASKS = 1000
"""Tasks that are considered: the least certain ones."""
MAX_ANNOTATORS = 50
"""Annotators who are considered: those with the highest lower bound of quality."""
CAUTION = 5.0
"""Pseudo-labels by which each row of a candidate's matrix is shrunk to the common confusion: three right labels of
three prove little, and the best of many candidates would be chosen by luck."""
LEAST_GAIN = 0.001
"""A smaller gain is not worth a question."""
CHUNK = 8_000_000
"""Products that are computed at a time."""
ON_PAGE = 300
"""Suggestions on the page; the table has more."""


class Suggestion(TaskShown):
    """Ask ``worker`` about ``task``: how much that gains, and the label and its probability without it.

    The label is None where nothing is known about the task.
    """

    task: Any
    worker: Any
    expected_gain: float
    label: Any
    probability: float
    name: NotRequired[str]


class SuggestionSection(TypedDict):
    """The whole queue, largest gain first."""

    total: int
    rows: list[Suggestion]


@register("suggestions")
class Suggestions(Finding[SuggestionSection]):
    """The relabel queue."""

    rank = 50
    title = "Relabel queue"
    table = "suggestions.csv"
    holds: ClassVar[Mapping[str, ColumnKind]] = {"task": "task", "worker": "annotator", "label": "class"}

    def section(self, findings: Findings) -> SuggestionSection:
        """The queue."""
        listed = findings.columns("annotators")["annotator_quality_low"]
        quality_low = np.full(findings.evidence.annotations.n_annotators, np.nan)
        quality_low[findings.evidence.told] = listed.to_numpy(zero_copy_only=False).astype(float)
        rows = suggestions(findings.evidence, quality_low)
        return {"total": len(rows), "rows": rows}

    def columns(self, findings: Findings) -> pa.Table:
        """One row per suggestion."""
        return suggestions_table(findings.section(self.name)["rows"])

    def stored_columns(self, section: SuggestionSection) -> pa.Table:
        """The section contains the whole table, even if it is empty."""
        return suggestions_table(section["rows"])


def expected_gain(posterior: FloatArray, confusion: FloatArray) -> FloatArray:
    r"""(n, R) expected decrease of the probability that the label is wrong, after one more answer.

    The answer is l with probability :math:`\sum_c q_c \mu_{cl}`, and the label is then the class c with the largest
    :math:`q_c \mu_{cl}`:

    .. math::
        \sum_l \max_c q_c \mu^r_{cl} - \max_c q_c

    Parameters
    ----------
    posterior : (n, C)
    confusion : (R, C, C)
        ``confusion[r, c, l]`` = P(annotator r says l | true c).

    Examples
    --------
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
    return np.maximum(gain, 0.0)  # rounding alone can make it negative


def suggestions(evidence: Evidence, quality_low: FloatArray) -> list[Suggestion]:
    """The least certain tasks, each with the annotator whose answer is worth most; largest gain first.

    Parameters
    ----------
    quality_low : (R,)
        Lower bounds of the annotators' quality, NaN for those who are not asked because they gave no labels, or may
        not be listed. Annotators with the highest bounds are the candidates. Nobody is asked twice about a task.
    """
    crowd = evidence.annotations
    tasks = _least_certain(evidence)
    candidates = np.argsort(-np.nan_to_num(quality_low, nan=-1.0), kind="stable")[:MAX_ANNOTATORS]
    candidates = np.sort(candidates[~np.isnan(quality_low[candidates])])
    if not len(tasks) or not len(candidates):
        return []
    gain = expected_gain(evidence.posterior[tasks], _cautious(evidence, candidates))
    gain[_asked(evidence, tasks, candidates)] = -1.0
    best = gain.argmax(1)
    value = gain[np.arange(len(tasks)), best]
    order = [k for k in np.argsort(-value, kind="stable") if value[k] >= LEAST_GAIN]
    if evidence.discretion is not None:
        value = evidence.discretion.share(value)
    names, people, ids = (
        plain_names(x) for x in (crowd.classes, crowd.annotator_ids[candidates], crowd.task_ids[tasks])
    )
    rows: list[Suggestion] = [
        {
            "task": ids[k],
            "worker": people[best[k]],
            "expected_gain": float(value[k]),
            "label": names[evidence.inferred[tasks[k]]] if evidence.informed[tasks[k]] else None,
            "probability": float(evidence.posterior[tasks[k]].max()),
        }
        for k in order
    ]
    if evidence.texts is not None:
        for row in rows:
            row["text"] = evidence.quote(row["task"])
    return rows


def suggestions_table(rows: list[Suggestion]) -> pa.Table:
    """The queue as a table, which may be empty."""
    return pa.table(
        {
            "task": _names([row["task"] for row in rows]),
            "worker": _names([row["worker"] for row in rows]),
            "expected_gain": pa.array([row["expected_gain"] for row in rows], pa.float64()),
            "label": _names([row["label"] for row in rows]),
            "probability": pa.array([row["probability"] for row in rows], pa.float64()),
        }
    )


def _names(values: list[Any]) -> pa.Array:
    return name_column(np.array(values, dtype=object)) if values else pa.array([], pa.string())


def _least_certain(evidence: Evidence) -> IntArray:
    best = evidence.posterior.max(1)
    count = min(MAX_TASKS, len(best))
    some = np.argpartition(best, count - 1)[:count] if count else np.arange(0)
    return np.sort(some)


def _cautious(evidence: Evidence, annotators: IntArray) -> FloatArray:
    """(n, C, C) learned matrices, each row shrunk to the common confusion."""
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
