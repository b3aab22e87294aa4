"""Whom to ask what next, so that the common confusion is known better."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from conal._arrays import FloatArray
from conal.data.encoding import Names, name_column
from conal.errors import InputError
from conal.parameters import number, whole
from conal.planning.gains import LabelingProblem

REASON = "the common confusion of this class is known least"


class CommonPlan(NamedTuple):
    """A plan for the common confusion.

    Attributes
    ----------
    table : pa.Table
        A row per label, the best for their cost first: ``task``, ``ask``, ``reason``, ``expected_gain`` (by how much
        the expected squared error of the matrix falls, summed over its cells), ``cost`` and ``total_cost``.
    error, error_after : float
        Expected root mean squared error of a cell by chance alone, now and after the plan.
    """

    table: pa.Table
    error: float
    error_after: float


def common_plan(
    problem: LabelingProblem, common: FloatArray, budget: float, *, task_ids: Names, people: Names, per_task: int = 3
) -> CommonPlan:
    r"""The labels that are expected to make the common confusion most precise, for at most a budget.

    A label of a task whose true class is surely c tells about row c of the matrix, and one of an uncertain task about
    none. A label counts as :math:`q_i(c)^2`, and with :math:`n_c` labels the expected squared error of a row is

    .. math:: V_c = \frac{1 - \sum_l (\pi^g_{cl})^2}{n_c + 1}

    The next label is about the row whose error it lowers most: rare classes, and classes that are confused. It is about
    a sure task of this class about which little is planned, by the annotator who has given fewest labels for the cost,
    so that nobody's own mistakes are taken for common ones. The squared errors of the rows are by chance alone: how the
    model divides mistakes between its two kinds may be wrong beside it.

    Examples
    --------
    >>> from conal.planning.gains import Pairs
    >>> q, both = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.full((2, 2, 2), 0.5)
    >>> problem = LabelingProblem(q, both, Pairs.of([0, 1, 2], [0, 0, 0], 3), np.ones((2, 2)))
    >>> names = {"task_ids": np.array(["a", "b", "c"]), "people": np.array(["r", "s"])}
    >>> common_plan(problem, np.full((2, 2), 0.5), 2, **names).table.select(["task", "ask"]).to_pylist()
    [{'task': 'c', 'ask': 's'}, {'task': 'a', 'ask': 's'}]
    """
    number(above=0).check("budget", budget)
    whole(1).check("per_task", per_task)
    if problem.allowed is not None:
        raise InputError("plans for the common confusion ask single annotators; leave out groups, and pseudonyms")
    classes, weight = problem.posterior.argmax(1), problem.posterior.max(1) ** 2
    spread = 1 - (common**2).sum(1)
    known = np.bincount(classes[problem.existing.tasks], weight[problem.existing.tasks], len(common)) + 1
    start = known.copy()
    asked = set(zip(problem.existing.tasks.tolist(), problem.existing.annotators.tolist(), strict=True))
    given = np.bincount(problem.existing.annotators, minlength=len(problem.confusion)).astype(float)
    # Of each class: -weight / (labels planned + 1), the weight, the task, and how many labels are planned for it.
    queues: list[list[tuple[float, float, int, int]]] = [[] for _ in common]
    for task, (c, surety) in enumerate(zip(classes.tolist(), weight.tolist(), strict=True)):
        queues[c].append((-surety, surety, task, 0))
    for queue in queues:
        heapq.heapify(queue)
    capacity, left = problem.capacity.copy(), budget
    rows: list[tuple[int, int, float]] = []
    while open_rows := [c for c, queue in enumerate(queues) if queue]:
        gains = {c: spread[c] * (1 / known[c] - 1 / (known[c] + queues[c][0][1])) for c in open_rows}
        c = max(open_rows, key=lambda c: gains[c])
        _, surety, task, planned = heapq.heappop(queues[c])
        free = [r for r in np.flatnonzero((capacity >= 1) & (problem.price <= left)) if (task, int(r)) not in asked]
        if not free:
            continue
        r = int(min(free, key=lambda r: (given[r] + 1) * problem.price[r]))
        asked.add((task, r))
        rows.append((task, r, float(gains[c])))
        known[c] += surety
        given[r] += 1
        capacity[r] -= 1
        left -= problem.price[r]
        if planned + 1 < per_task:
            heapq.heappush(queues[c], (-surety / (planned + 2), surety, task, planned + 1))
    tasks, who = (np.array([row[k] for row in rows], np.int64) for k in (0, 1))
    cost = problem.price[who]
    table = pa.table(
        {
            "task": name_column(task_ids[tasks]) if rows else pa.array([], pa.string()),
            "ask": pa.array([str(name) for name in people[who].tolist()], pa.string()),
            "reason": pa.array([REASON] * len(rows), pa.string()),
            "expected_gain": pa.array([gain for *_, gain in rows], pa.float64()),
            "cost": pa.array(cost),
            "total_cost": pa.array(np.cumsum(cost)),
        }
    )
    errors = [float(np.sqrt((spread / n).sum() / common.size)) for n in (start, known)]
    return CommonPlan(table, *errors)
