"""What more labels would bring, and which task to show to which annotator next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from conal.data.encoding import Names, name_column
from conal.io.model_folder import ColumnKind
from conal.planning.crowd_plan import LEAST_GAIN, plan_labels, simulate_plan
from conal.planning.gains import LabelingProblem
from conal.report.evidence import BELIEF, MEASURED, Evidence, Plain, plain_names
from conal.report.findings import Finding, Findings, register

# What more labels would bring: the expected accuracy against their number.

MOST_LABELS = 2000
DRAWS = 100
GOAL = 0.95


@register("plan")
class Plan(Finding):
    """Accuracy against further labels, as planned.

    *PlanPoint*: The accuracy of all labels after so many more of the plan. Keys: ``labels``, ``accuracy``, ``low``,
    ``high``.

    *PlanSection*: The curve, and how many labels reach a goal; None where the plan does not reach it. ``basis`` says
    whether its first point was measured by true labels; what further labels gain is the model's belief. Keys:
    ``tasks``, ``goal``, ``labels_for_goal``, ``curve``, ``basis`` (not always).
    """

    rank = 51

    def applies(self, evidence: Evidence) -> bool:
        """Where there are tasks, and people whose answers tell something."""
        crowd = evidence.annotations
        return bool(crowd.n_annotations and crowd.n_classes > 1)

    def section(self, findings: Findings) -> Plain:
        """The curve."""
        evidence = findings.evidence
        crowd, problem = evidence.annotations, labeling_problem(evidence)
        budget = min(3 * crowd.n_tasks, MOST_LABELS)
        planned = plan_labels(problem, budget, least_gain=LEAST_GAIN)
        found = simulate_plan(problem, planned, seed=findings.seed, draws=DRAWS)
        gained = found.accuracy[0] + np.concatenate([[0.0], np.cumsum(planned.gain)]) / max(crowd.n_tasks, 1)
        reached = np.flatnonzero(gained >= GOAL)
        ends = zip(found.labels, found.accuracy, found.low, found.high, strict=True)
        return {
            "tasks": crowd.n_tasks,
            "goal": GOAL,
            "labels_for_goal": int(reached[0]) if len(reached) else None,
            "basis": BELIEF if problem.now is None else MEASURED,
            "curve": [
                {"labels": int(n), "accuracy": float(a), "low": float(low), "high": float(high)}
                for n, a, low, high in ends
            ],
        }


def labeling_problem(evidence: Evidence) -> LabelingProblem:
    """What can be asked at equal costs, of annotators who gave labels and may be listed."""
    crowd = evidence.annotations
    active = np.where(crowd.labels_per_annotator() > 0, np.inf, 0.0)
    return LabelingProblem.by_evidence(evidence, limits=active, costs=np.ones(crowd.n_annotators))


# Which task to show to which annotator next, and what the answer is worth.


MAX_TASKS = 1000
"""Tasks in the queue."""
LEAST_SUGGESTED_GAIN = 0.001
"""A smaller gain is not worth a question."""
ON_PAGE = 300
"""Suggestions on the page; the table has more."""


@register("suggestions")
class Suggestions(Finding):
    """The relabel queue.

    *Suggestion*: Ask ``worker`` about ``task``: how much that gains, and the label and its probability without it.
    The label is None where nothing is known about the task. Keys: ``text`` (not always), ``link`` (not always),
    ``picture`` (not always), ``picture_link`` (not always), ``task``, ``worker``, ``expected_gain``, ``label``,
    ``probability``, ``name`` (not always).

    *SuggestionSection*: The whole queue, largest gain first. Keys: ``total``, ``rows``.
    """

    rank = 50
    table = "suggestions.csv"
    holds: ClassVar[Mapping[str, ColumnKind]] = {"task": "task", "worker": "annotator", "label": "class"}

    def section(self, findings: Findings) -> Plain:
        """The queue."""
        rows = suggestions(findings.evidence)
        return {"total": len(rows), "rows": rows}

    def columns(self, findings: Findings) -> pa.Table:
        """One row per suggestion."""
        rows, crowd = findings.section(self.name)["rows"], findings.evidence.annotations
        names = {"task": crowd.task_ids, "worker": crowd.annotator_ids, "label": crowd.classes}
        columns = ("task", "worker", "expected_gain", "label", "probability")
        return pa.table({name: _column([row[name] for row in rows], names.get(name)) for name in columns})


def suggestions(evidence: Evidence) -> list[Plain]:
    """The first answers of a plan, one for each task, by the annotator whose answer is worth most; largest gain first.

    Nobody is asked twice about a task.
    """
    problem = labeling_problem(evidence)
    planned = plan_labels(problem, MAX_TASKS, per_task=1, least_gain=LEAST_SUGGESTED_GAIN)
    order = np.argsort(-planned.gain, kind="stable")
    tasks, workers, value = planned.tasks[order], planned.annotators[order], planned.gain[order]
    names, people = evidence.class_names, evidence.annotator_names
    return [
        {
            **evidence.task_row(task),
            "worker": people[worker],
            "expected_gain": float(evidence.privacy.shares(gain)),
            "label": names[evidence.inferred[task]] if evidence.informed[task] else None,
            "probability": float(evidence.posterior[task].max()),
        }
        for task, worker, gain in zip(tasks.tolist(), workers.tolist(), value.tolist(), strict=True)
    ]


def _column(values: list[Any], names: Names | None) -> pa.Array:
    """Numbers, or the names that JSON values stand for."""
    if names is None:
        return pa.array(values, pa.float64())
    code = {value: k for k, value in enumerate(plain_names(names))}
    found = name_column(names).take(pa.array([code.get(value) for value in values], pa.int64()))
    return found if values else pa.array([], pa.string())
