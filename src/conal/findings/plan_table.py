"""A plan of further labels as a table, and what it costs to reach a goal."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from conal.data.encoding import Names
from conal.findings.asking import Asking
from conal.findings.crowd_plan import PER_TASK, Planned, plan_labels
from conal.findings.lessons import EXPERT
from conal.findings.promise import Promise, promise
from conal.io.results import name_column

__all__ = ["REASONS", "CrowdPlan", "crowd_plan", "curve_table", "labels_for"]

REASONS = (
    "the label is uncertain",
    "several answers together can change the label",
    "the answer tells about other tasks with these classes",
    "no answer would change the label; this one tells most",
)
LEAST_GAIN = 1e-4
"""A smaller gain is not worth a question."""
REACH = 20
"""A goal is looked for with up to so many times the budget."""


class CrowdPlan(NamedTuple):
    """A plan: its table, what it promises, and the same as numbers."""

    table: pa.Table
    promise: Promise
    planned: Planned


def crowd_plan(
    asking: Asking,
    budget: float,
    *,
    task_ids: Names,
    people: Names,
    expert_cost: float | None = None,
    per_task: int = PER_TASK,
    least_gain: float = LEAST_GAIN,
    seed: int = 0,
) -> CrowdPlan:
    """Whom to ask what next, for at most a budget: one row per label, the best for their cost first.

    The columns are ``task``, ``ask`` (an annotator, a group, or "expert"), ``reason``, ``expected_gain`` (how many more
    labels are right), ``cost``, and, if everything up to this row is asked, ``total_cost``, ``expected_accuracy``,
    ``accuracy_low`` and ``accuracy_high``.

    Parameters
    ----------
    asking : Asking
    budget : float
    task_ids : (N,)
    people : (R,)
        What annotators, or groups, are called.
    expert_cost, per_task, least_gain
        See :func:`conal.findings.crowd_plan.plan_labels`.
    seed : int
        Seed of the simulated answers behind the intervals.

    Examples
    --------
    >>> from conal.findings.asking import Pairs
    >>> good = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> asking = Asking(np.array([[0.6, 0.4], [0.9, 0.1]]), good, Pairs.of([1], [0], 2), np.full((1, 2), 50.0))
    >>> found = crowd_plan(asking, 5, task_ids=np.array(["a", "b"]), people=np.array(["ann"]))
    >>> found.table.select(["task", "ask", "cost"]).to_pylist()
    [{'task': 'a', 'ask': 'ann', 'cost': 1.0}]
    """
    planned = plan_labels(asking, budget, expert_cost=expert_cost, per_task=per_task, least_gain=least_gain)
    promised = promise(asking, planned, seed=seed)
    n = len(planned.tasks)
    at = np.arange(1, n + 1)
    ask: list[Any] = [people[r] if r != EXPERT else "expert" for r in planned.annotators.tolist()]
    low, high = (np.interp(at, promised.labels, ends) for ends in (promised.low, promised.high))
    right = np.minimum(asking.accuracy + np.cumsum(planned.gain) / max(len(asking.posterior), 1), 1.0)
    table = pa.table(
        {
            "task": name_column(task_ids[planned.tasks]) if n else pa.array([], pa.string()),
            "ask": pa.array([str(name) for name in ask], pa.string()),
            "reason": pa.array([REASONS[k] for k in _reasons(planned)], pa.string()),
            "expected_gain": pa.array(planned.gain + planned.taught),
            "cost": pa.array(planned.cost),
            "total_cost": pa.array(np.cumsum(planned.cost)),
            "expected_accuracy": pa.array(right),
            "accuracy_low": pa.array(low),
            "accuracy_high": pa.array(high),
        }
    )
    return CrowdPlan(table, promised, planned)


def _reasons(planned: Planned) -> list[int]:
    """The reason of every row, as a place in REASONS."""
    _, place, number = np.unique(planned.tasks, return_inverse=True, return_counts=True)
    several = number[place] > 1 if len(place) else np.zeros(0, bool)
    kind = np.where(several, 1, 0)
    kind = np.where(planned.gain < LEAST_GAIN, 3, kind)
    return [int(k) for k in np.where(planned.taught > np.maximum(planned.gain, LEAST_GAIN), 2, kind)]


def labels_for(
    asking: Asking, goal: float, budget: float, *, expert_cost: float | None = None, per_task: int = PER_TASK
) -> tuple[int, float] | None:
    """How many labels make the expected accuracy reach a goal, and their cost; None where many budgets do not."""
    missing = (goal - asking.accuracy) * len(asking.posterior)
    if missing <= 0:
        return 0, 0.0
    planned = plan_labels(asking, REACH * budget, expert_cost=expert_cost, per_task=per_task, least_gain=LEAST_GAIN)
    gained = np.cumsum(planned.gain)
    if not len(gained) or gained[-1] < missing:
        return None
    last = int(np.searchsorted(gained, missing))
    return last + 1, float(planned.cost[: last + 1].sum())


def curve_table(found: Promise) -> pa.Table:
    """The accuracy against the budget: labels, cost, expected_accuracy, accuracy_low and accuracy_high."""
    names = ("labels", "cost", "expected_accuracy", "accuracy_low", "accuracy_high")
    return pa.table(dict(zip(names, (pa.array(values) for values in found), strict=True)))
