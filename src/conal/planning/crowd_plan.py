"""Whom to ask what next: a batch of labels for a budget, its table, and the accuracy to expect.

For every task, answers of several people are valued together (:func:`conal.planning.gains.value_of_answers`), in two
orders: by gain and by information, each for its cost. Of the values after one, two and three answers, the concave hull
counts: where one answer cannot change the label and two can, two are asked at once. Steps of all tasks are taken in the
order of their gain for their cost, which is how knapsacks with choices are packed (Sinha and Zoltners 1979).

References
----------
Sinha, Zoltners (1979). The multiple-choice knapsack problem. Operations Research 27.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from conal._arrays import FloatArray, IntArray, draw_from_rows
from conal.data.encoding import Names, name_column
from conal.metrics.rates import Rate
from conal.parameters import number, whole
from conal.planning.gains import (
    CAUTION,
    EXPERT,
    WIDTH,
    LabelingProblem,
    answer_information,
    candidates,
    value_of_answers,
)
from conal.report.evidence import entropy

# A batch of labels that makes as many more labels right as a budget allows.

PER_TASK = 3
"""Labels of one task in a batch, at most."""
MOST_TASKS = 5_000
"""Tasks that are considered, the least certain ones; more if the budget is large."""
INFORMATION = 1e-6
"""Gain that a bit of information counts for: it decides where labels stay as they are."""
NOBODY = -2
AT_ONCE = 256
"""Tasks for which others are looked for together, because people can give no more labels."""


class Planned(NamedTuple):
    """The planned labels, those that gain most for their cost first.

    ``gain`` is by how much the expected number of right labels grows.
    """

    tasks: IntArray
    annotators: IntArray
    gain: FloatArray
    cost: FloatArray


def plan_labels(
    problem: LabelingProblem,
    budget: float,
    *,
    expert_cost: float | None = None,
    per_task: int = PER_TASK,
    least_gain: float = 0.0,
) -> Planned:
    """The labels to ask for next, for at most ``budget``.

    Parameters
    ----------
    problem : LabelingProblem
    budget : float
        What all labels together may cost.
    expert_cost : float, optional
        Cost of a true label, if there is an expert to ask; by default there is none.
    per_task : int
        Labels of one task, at most.
    least_gain : float
        Labels that gain less are not asked for; with 0, the budget is spent as far as anybody can be asked.
    """
    number(above=0).check("budget", budget)
    whole(1).check("per_task", per_task)
    if expert_cost is not None:
        number(above=0).check("expert_cost", expert_cost)
    if not len(problem.confusion):
        problem = _with_nobody_free(problem)
    capacity, left = problem.capacity.copy(), budget
    tasks = _tasks_in_question(problem, budget, expert_cost, least_gain)
    make_orders = partial(_orders, problem, capacity=capacity, per_task=per_task, expert_cost=expert_cost)
    orders = make_orders(tasks)
    steps = list(_first_steps(orders))
    heapq.heapify(steps)
    rows: list[tuple[int, int, float, float | None]] = []
    while steps:
        _, place, order, taken, end = heapq.heappop(steps)
        who = orders.annotators[place, order, taken:end].tolist()
        if _is_any_full(who, capacity):
            if not taken:
                _replace_orders(orders, steps, place, tasks, capacity, make_orders)
            continue
        gain, cost = (_between(values[place, order], taken, end) for values in (orders.gains, orders.costs))
        if cost > left + 1e-9 or gain / len(who) < least_gain:
            continue
        left -= cost
        for r in who:
            price = problem.price[r] if r != EXPERT else expert_cost
            rows.append((int(tasks[place]), r, gain / len(who), price))
            if r != EXPERT:
                capacity[r] -= 1
        for step in _next_steps(orders, place, order, end):
            heapq.heappush(steps, step)
    columns = zip(*rows, strict=True) if rows else ([], [], [], [])
    return Planned(*(np.array(each, kind) for each, kind in zip(columns, (int, int, float, float), strict=True)))


def _with_nobody_free(problem: LabelingProblem) -> LabelingProblem:
    """The same tasks with an annotator who cannot be asked, so that arrays of annotators are not empty."""
    C = problem.posterior.shape[1]
    blind = np.full((1, C, C), 1 / max(C, 1))
    return replace(problem, confusion=blind, class_counts=np.zeros((1, C)), costs=None, limits=np.zeros(1))


def _tasks_in_question(
    problem: LabelingProblem, budget: float, expert_cost: float | None, least_gain: float
) -> IntArray:
    """The least certain tasks that anybody may be asked about, more for a larger budget."""
    doubt = 1 - problem.posterior.max(1)
    if problem.done is not None:
        doubt = np.where(problem.done, -1.0, doubt)
    cheapest = min([*problem.price[problem.capacity >= 1], expert_cost or np.inf], default=np.inf)
    most = min(len(doubt), max(MOST_TASKS, int(min(4 * budget / max(cheapest, 1e-9), len(doubt)))))
    some = np.argpartition(-doubt, most - 1)[:most] if most else np.arange(0)
    return np.sort(some[doubt[some] > max(least_gain, 0.0) - 1e-12])


class _Orders(NamedTuple):
    """Of each task, a few orders of asking, (n, o, k): annotators, their costs and gains so far, and their worth.

    The worth is the gain, and a little for information.
    """

    annotators: IntArray
    costs: FloatArray
    gains: FloatArray
    worth: FloatArray


def _orders(
    problem: LabelingProblem, tasks: IntArray, *, capacity: FloatArray, per_task: int, expert_cost: float | None
) -> _Orders:
    """The orders of asking: by gain and by information, and the expert, if there is one."""
    who = candidates(problem, tasks, capacity, max(WIDTH, per_task))
    n, width = who.shape
    q = problem.posterior[tasks]
    now = q.max(1)[:, None]
    price = np.where(who >= 0, problem.price[who], np.inf)
    single = value_of_answers(np.repeat(q, width, 0), problem.confusion, who.reshape(-1, 1)).reshape(n, width)
    bits = np.maximum(answer_information(q, problem.confusion, who), 0)
    orders = []
    for worth in (single - now + INFORMATION * bits, bits):
        rate = np.where(who >= 0, worth / np.maximum(price, 1e-9), -np.inf)
        order = np.argsort(-rate, axis=1, kind="stable")[:, :per_task]
        chosen, costs, informed = (np.take_along_axis(values, order, 1) for values in (who, price, bits))
        gains = value_of_answers(q, problem.confusion, chosen) - now
        chosen = np.where(chosen < 0, NOBODY, chosen)
        orders.append(_Orders(chosen, costs.cumsum(1), gains, gains + INFORMATION * informed.cumsum(1)))
    if expert_cost is not None:
        orders.append(_expert_first(orders[0], q, expert_cost))
    return _Orders(*(np.stack(each, axis=1) for each in zip(*orders, strict=True)))


def _expert_first(like: _Orders, q: FloatArray, expert_cost: float) -> _Orders:
    """The expert alone, in the shape of another order."""
    who, costs = np.full_like(like.annotators, NOBODY), np.full_like(like.costs, np.inf)
    who[:, 0], costs[:, 0] = EXPERT, expert_cost
    gain = 1 - q.max(1)
    gains, worth = (np.repeat(each[:, None], who.shape[1], 1) for each in (gain, gain + INFORMATION * entropy(q)))
    return _Orders(who, costs, gains, worth)


Step = tuple[float, int, int, int, int]
"""-worth for its cost, place of the task, order of asking, labels before the step, labels after it."""


def _first_steps(orders: _Orders) -> Iterator[Step]:
    """The best first step of every task."""
    n, n_orders, longest = orders.annotators.shape
    rate = np.where(orders.annotators == NOBODY, -np.inf, orders.worth / np.maximum(orders.costs, 1e-9))
    rate = rate.reshape(n, n_orders * longest)
    best = rate.argmax(1)
    for place, (value, at) in enumerate(zip(rate[np.arange(n), best].tolist(), best.tolist(), strict=True)):
        if value > -np.inf:
            yield -value, place, at // longest, 0, at % longest + 1


def _next_steps(orders: _Orders, place: int, order: int, taken: int) -> Iterator[Step]:
    """The next step of a task in the order that was begun, if there is one: the next side of the concave hull."""
    worth, costs = orders.worth[place, order], orders.costs[place, order]
    ends = [end for end in range(taken + 1, len(costs) + 1) if orders.annotators[place, order, end - 1] != NOBODY]
    rates = [(_between(worth, taken, end) / max(_between(costs, taken, end), 1e-9), -end) for end in ends]
    if rates:
        rate, end = max(rates)
        yield -rate, place, order, taken, -end


def _between(sums: FloatArray, taken: int, end: int) -> float:
    """By how much a sum grows from some answers to more."""
    return float(sums[end - 1] - (sums[taken - 1] if taken else 0.0))


def _is_any_full(who: list[int], capacity: FloatArray) -> bool:
    """Whether somebody can give no more labels."""
    return any(r >= 0 and capacity[r] < 1 for r in who)


def _replace_orders(
    orders: _Orders, steps: list[Step], place: int, tasks: IntArray, capacity: FloatArray, make_orders: Any
) -> None:
    """Look for others in the place of people who can give no more labels, where nothing is planned for the task yet.

    The next tasks that need the same are done with it: many at once cost little more than one.
    """
    soon = [step for step in heapq.nsmallest(AT_ONCE, steps) if step[3] == 0]
    full = {at for _, at, o, _, end in soon if _is_any_full(orders.annotators[at, o, :end].tolist(), capacity)}
    if full:
        steps[:] = [step for step in steps if step[1] not in full]
        heapq.heapify(steps)
    places = np.array(sorted({place, *full}))
    again = make_orders(tasks[places])
    for old, new in zip(orders, again, strict=True):
        old[places] = new
    for worth, at, order, _, end in _first_steps(again):
        heapq.heappush(steps, (worth, int(places[at]), order, 0, end))


# Forecast of the accuracy after a plan, by simulated answers.

DRAWS = 200
POINTS = 20
"""Budgets on the curve, the first of which is 0."""
CONFIDENCE = 0.95
DOUBT = (0.25, 0.4)
"""Spread of the log of the factor by which log-posteriors should be less sure than they are, or surer. The second is
larger: posteriors are as little sure as held-out labels allow, and a classifier learns from new labels too."""
SHARPNESS = np.exp(np.linspace(-1, 1.6, 14))
"""Factors for which tasks without a planned label are counted; between them they are interpolated."""


class AccuracyForecast(NamedTuple):
    """Expected accuracy of the labels after more and more of a plan, with intervals; the first row is before it."""

    labels: IntArray
    cost: FloatArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray


def simulate_plan(problem: LabelingProblem, planned: Planned, *, seed: int = 0, draws: int = DRAWS) -> AccuracyForecast:
    r"""Accuracy of the labels of all tasks along a plan.

    Everything is drawn from what is believed, and labels are inferred again: true classes from the posterior, matrices
    of the annotators from Dirichlet distributions around their means, and answers from the matrices. The posterior
    itself may be too sure or not sure enough: in every draw, true classes come from :math:`q^t` with a random t, mostly
    between 0.6 and 2.2. The same seed gives the same forecast.
    """
    rng = np.random.default_rng(seed)
    best, total = problem.posterior.max(1), len(planned.tasks)
    n = max(len(best), 1)
    at = np.unique(np.linspace(0, total, min(POINTS, total) + 1).round().astype(np.int64))
    inside, place = np.unique(planned.tasks, return_inverse=True)
    mean, spread = _others(np.delete(problem.posterior, inside, axis=0))
    waves = _waves(place)
    right = np.empty((draws, len(at)))
    for k in range(draws):
        doubt = rng.standard_normal()
        sharp = float(np.exp(DOUBT[int(doubt > 0)] * doubt))
        gains = _draw(problem, planned, inside, place, waves, sharp, rng)
        others = np.interp(sharp, SHARPNESS, mean) + np.interp(sharp, SHARPNESS, spread) * rng.standard_normal()
        right[k] = others + np.concatenate([[gains[0]], gains[0] + np.cumsum(gains[1:])])[at]
    right = np.clip(right / n, 0.0, 1.0)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(right, [tail, 1 - tail], axis=0)
    cost, gained = (np.concatenate([[0.0], np.cumsum(values)])[at] for values in (planned.cost, planned.gain))
    found = AccuracyForecast(at, cost, np.asarray((best.sum() + gained) / n), low, high)
    return found if problem.now is None else _measured(found, problem.now)


def _measured(found: AccuracyForecast, now: Rate) -> AccuracyForecast:
    """The same gains from the accuracy that true labels measured, with its uncertainty beside that of the answers.

    >>> ends = np.arange(2), np.arange(2.0), np.array([0.9, 0.95]), np.array([0.9, 0.92]), np.array([0.9, 0.96])
    >>> made = _measured(AccuracyForecast(*ends), Rate(0.6, 0.5, 0.7, 50, 50.0))
    >>> made.accuracy.round(2).tolist(), made.low.round(3).tolist(), made.high.round(3).tolist()
    ([0.6, 0.65], [0.5, 0.546], [0.7, 0.75])
    """
    accuracy = np.minimum(found.accuracy + now.value - found.accuracy[0], 1.0)
    gains = found.accuracy - found.low, found.high - found.accuracy
    start = gains[0][0], gains[1][0]  # doubt about the posterior before any answer, which was measured instead
    below, above = (np.sqrt(np.maximum(each**2 - first**2, 0)) for each, first in zip(gains, start, strict=True))
    low = accuracy - np.hypot(below, now.value - now.low)
    high = accuracy + np.hypot(above, now.high - now.value)
    return found._replace(accuracy=accuracy, low=np.maximum(low, 0.0), high=np.minimum(high, 1.0))


def _others(posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the right labels of tasks without a planned one, for each factor."""
    mean, spread = np.zeros(len(SHARPNESS)), np.zeros(len(SHARPNESS))
    log = np.log(np.maximum(posterior, 1e-300))
    log -= log.max(1, keepdims=True)
    for k, sharp in enumerate(SHARPNESS):
        best = 1 / np.exp(sharp * log).sum(1)
        mean[k], spread[k] = best.sum(), np.sqrt((best * (1 - best)).sum())
    return mean, spread


def _waves(place: IntArray) -> list[IntArray]:
    """Rows of the plan that are the first about their task, the second, and so on."""
    order = np.argsort(place, kind="stable")
    first = np.searchsorted(place[order], place[order])
    turn = np.empty(len(place), np.int64)
    turn[order] = np.arange(len(place)) - first
    return [np.flatnonzero(turn == k) for k in range(int(turn.max(initial=-1)) + 1)]


def _draw(
    problem: LabelingProblem,
    planned: Planned,
    inside: IntArray,
    place: IntArray,
    waves: list[IntArray],
    sharp: float,
    rng: np.random.Generator,
) -> FloatArray:
    """(labels + 1,) right labels of the planned tasks before the plan, and how many more by each answer."""
    q = problem.posterior[inside]
    truth = draw_from_rows(q**sharp, rng.random(len(q))) if len(q) else np.empty(0, np.int64)
    joint = q.copy()
    right = (joint.argmax(1) == truth).astype(float)
    found = np.zeros(len(place) + 1)
    found[0] = right.sum()
    people, who = np.unique(planned.annotators, return_inverse=True)
    matrices = _draw_matrices(problem, people, rng)
    for rows in waves:
        at = place[rows]
        answers = draw_from_rows(matrices[who[rows], truth[at]], rng.random(len(rows)))
        expert = planned.annotators[rows] == EXPERT
        likelihood = problem.confusion[np.maximum(planned.annotators[rows], 0), :, answers]
        likelihood = np.where(expert[:, None], np.eye(q.shape[1])[answers], likelihood)
        joint[at] *= likelihood
        now = (joint[at].argmax(1) == truth[at]).astype(float)
        found[rows + 1] = now - right[at]
        right[at] = now
    return found


def _draw_matrices(problem: LabelingProblem, people: IntArray, rng: np.random.Generator) -> FloatArray:
    """(people, C, C) a draw of everybody's matrix; an expert's is certain."""
    n_classes = problem.posterior.shape[1]
    means, weight = problem.confusion[np.maximum(people, 0)], problem.class_counts[np.maximum(people, 0)] + CAUTION
    drawn = rng.gamma(means * weight[:, :, None]) + 1e-12
    drawn /= drawn.sum(2, keepdims=True)
    return np.where((people == EXPERT)[:, None, None], np.eye(n_classes), drawn)


# A plan of further labels as a table, and what it costs to reach a goal.

REASONS = (
    "the label is uncertain",
    "several answers together can change the label",
    "no answer would change the label; this one tells most",
)
LEAST_GAIN = 1e-4
"""A smaller gain is not worth a question."""
REACH = 20
"""A goal is looked for with up to so many times the budget."""


class CrowdPlan(NamedTuple):
    """A plan: its table, the accuracy to expect, and the planned labels as numbers."""

    table: pa.Table
    forecast: AccuracyForecast
    planned: Planned


def crowd_plan(
    problem: LabelingProblem,
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
    problem : LabelingProblem
    budget : float
    task_ids : (N,)
    people : (R,)
        What annotators, or groups, are called.
    expert_cost, per_task, least_gain
        See :func:`conal.planning.crowd_plan.plan_labels`.
    seed : int
        Seed of the simulated answers behind the intervals.

    Examples
    --------
    >>> from conal.planning.gains import Pairs
    >>> good = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> q, existing = np.array([[0.6, 0.4], [0.9, 0.1]]), Pairs.of([1], [0], 2)
    >>> problem = LabelingProblem(q, good, existing, np.full((1, 2), 50.0))
    >>> found = crowd_plan(problem, 5, task_ids=np.array(["a", "b"]), people=np.array(["ann"]))
    >>> found.table.select(["task", "ask", "cost"]).to_pylist()
    [{'task': 'a', 'ask': 'ann', 'cost': 1.0}]
    """
    planned = plan_labels(problem, budget, expert_cost=expert_cost, per_task=per_task, least_gain=least_gain)
    forecast = simulate_plan(problem, planned, seed=seed)
    n = len(planned.tasks)
    at = np.arange(1, n + 1)
    ask: list[Any] = [people[r] if r != EXPERT else "expert" for r in planned.annotators.tolist()]
    low, high = (np.interp(at, forecast.labels, ends) for ends in (forecast.low, forecast.high))
    _, place, number = np.unique(planned.tasks, return_inverse=True, return_counts=True)
    reasons = np.where(planned.gain < LEAST_GAIN, 2, np.where(number[place] > 1, 1, 0))
    right = np.minimum(problem.accuracy + np.cumsum(planned.gain) / max(len(problem.posterior), 1), 1.0)
    table = pa.table(
        {
            "task": name_column(task_ids[planned.tasks]) if n else pa.array([], pa.string()),
            "ask": pa.array([str(name) for name in ask], pa.string()),
            "reason": pa.array([REASONS[k] for k in reasons], pa.string()),
            "expected_gain": pa.array(planned.gain),
            "cost": pa.array(planned.cost),
            "total_cost": pa.array(np.cumsum(planned.cost)),
            "expected_accuracy": pa.array(right),
            "accuracy_low": pa.array(low),
            "accuracy_high": pa.array(high),
        }
    )
    return CrowdPlan(table, forecast, planned)


def labels_for(
    problem: LabelingProblem, goal: float, budget: float, *, expert_cost: float | None = None, per_task: int = PER_TASK
) -> tuple[int, float] | None:
    """How many labels make the expected accuracy reach a goal, and their cost; None where many budgets do not."""
    missing = (goal - problem.accuracy) * len(problem.posterior)
    if missing <= 0:
        return 0, 0.0
    planned = plan_labels(problem, REACH * budget, expert_cost=expert_cost, per_task=per_task, least_gain=LEAST_GAIN)
    gained = np.cumsum(planned.gain)
    if not len(gained) or gained[-1] < missing:
        return None
    last = int(np.searchsorted(gained, missing))
    return last + 1, float(planned.cost[: last + 1].sum())
