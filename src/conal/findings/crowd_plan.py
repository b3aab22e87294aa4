r"""Whom to ask what next: a batch of labels that makes as many more labels right as a budget allows.

For every task, answers of several people are valued together (:func:`conal.findings.label_value.value_of_answers`), in
two orders: by gain and by information, each for its cost. Of the values after one, two and three answers, the concave
hull counts: where one answer cannot change the label and two can, two are asked at once. Steps of all tasks are taken
in the order of their gain for their cost, which is how knapsacks with choices are packed (Sinha and Zoltners 1979).
What answers teach about other tasks (:mod:`conal.findings.learning_value`) is added; it shrinks with every answer about
the same pair of classes, and is looked at again when a step's turn comes (lazy greedy; Minoux 1978).

References
----------
Sinha, Zoltners (1979). The multiple-choice knapsack problem. Operations Research 27.

Minoux (1978). Accelerated greedy algorithms for maximizing submodular set functions. Optimization Techniques.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal.findings.asking import Asking
from conal.findings.candidates import WIDTH, candidates
from conal.findings.label_value import answer_information, value_of_answers
from conal.findings.lessons import EXPERT, Lessons
from conal.parameters import number, whole

__all__ = ["EXPERT", "Planned", "plan_labels"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

PER_TASK = 3
"""Labels of one task in a batch, at most."""
MOST_TASKS = 5_000
"""Tasks that are considered, the least certain ones; more if the budget is large."""
INFORMATION = 1e-6
"""Gain that a bit of information counts for: it decides where labels stay as they are."""
NOBODY = -2
AT_ONCE = 256
"""Tasks that are looked at again together."""


class Planned(NamedTuple):
    """The planned labels, those that gain most for their cost first.

    ``gain`` is the expected number of labels that turn right, of the task itself and ``taught`` of others.
    """

    tasks: IntArray
    annotators: IntArray
    gain: FloatArray
    taught: FloatArray
    cost: FloatArray


def plan_labels(
    asking: Asking,
    budget: float,
    *,
    expert_cost: float | None = None,
    per_task: int = PER_TASK,
    least_gain: float = 0.0,
    teach: bool = True,
) -> Planned:
    """The labels to ask for next, for at most ``budget``.

    Parameters
    ----------
    asking : Asking
    budget : float
        What all labels together may cost.
    expert_cost : float, optional
        Cost of a true label, if there is an expert to ask; by default there is none.
    per_task : int
        Labels of one task, at most.
    least_gain : float
        Labels that gain less are not asked for; with 0, the budget is spent as far as anybody can be asked.
    teach : bool
        Whether it counts what answers teach about other tasks.
    """
    number(above=0).check("budget", budget)
    whole(1).check("per_task", per_task)
    if expert_cost is not None:
        number(above=0).check("expert_cost", expert_cost)
    if not len(asking.confusion):
        asking = _with_nobody_free(asking)
    return _Batch(asking, budget, expert_cost, per_task, least_gain, teach).fill()


def _with_nobody_free(asking: Asking) -> Asking:
    """The same tasks with an annotator who cannot be asked, so that arrays of annotators are not empty."""
    n_classes = asking.posterior.shape[1]
    blind = np.full((1, n_classes, n_classes), 1 / max(n_classes, 1))
    return replace(asking, confusion=blind, met=np.zeros((1, n_classes)), costs=None, limits=np.zeros(1))


class _Options(NamedTuple):
    """Of each task, a few orders of asking: (n, o, k) annotators, their costs so far, and what they have gained."""

    annotators: IntArray
    costs: FloatArray
    gains: FloatArray
    bits: FloatArray


Step = tuple[float, int, int, int, int]
"""-worth for its cost, place of the task, order of asking, labels before the step, labels after it."""


class _Batch:
    """A batch of labels in the making."""

    def __init__(
        self,
        asking: Asking,
        budget: float,
        expert_cost: float | None,
        per_task: int,
        least_gain: float,
        teach: bool,
    ) -> None:
        self.asking, self.left, self.expert_cost = asking, budget, expert_cost
        self.per_task, self.least_gain = per_task, least_gain
        self.room = asking.room.copy()
        self.rows: list[tuple[int, int, float, float, float]] = []
        self.lessons = Lessons(asking) if teach else None
        self.tasks = self._tasks_in_question()

    def _tasks_in_question(self) -> IntArray:
        doubt = 1 - self.asking.posterior.max(1)
        if self.asking.closed is not None:
            doubt = np.where(self.asking.closed, -1.0, doubt)
        cheapest = min([*self.asking.price[self.room >= 1], self.expert_cost or np.inf], default=np.inf)
        most = min(len(doubt), max(MOST_TASKS, int(min(4 * self.left / max(cheapest, 1e-9), len(doubt)))))
        some = np.argpartition(-doubt, most - 1)[:most] if most else np.arange(0)
        return np.sort(some[doubt[some] > max(self.least_gain, 0.0) - 1e-12])

    def fill(self) -> Planned:
        """Take the best steps until the budget is spent."""
        options = self._options(self.tasks)
        heap = self._first_steps(options, self.tasks)
        heapq.heapify(heap)
        while heap:
            step = heapq.heappop(heap)
            _, place, order, taken, end = step
            if self._full(options.annotators[place, order, taken:end]):
                self._look_for_others(heap, options, place, taken)
                continue
            now = -self._worth(options, place, order, taken, end)
            if heap and now > heap[0][0] and now > step[0] + 1e-12:  # others have taught the same since
                heapq.heappush(heap, (now, *step[1:]))
            elif self._take(options, place, order, taken, end):
                self._push(heap, options, place, end, order)
        return self._planned()

    # ---------------------------------------------------------------- what there is to choose from

    def _options(self, tasks: IntArray) -> _Options:
        asking = self.asking
        who = candidates(asking, tasks, self.room, max(WIDTH, self.per_task))
        n, width = who.shape
        q = asking.posterior[tasks]
        best = q.max(1)
        price = np.where(who >= 0, asking.price[who], np.inf)
        single = value_of_answers(np.repeat(q, width, 0), asking.confusion, who.reshape(-1, 1)).reshape(n, width)
        bits = answer_information(q, asking.confusion, who)
        rates = [(single - best[:, None] + INFORMATION * np.maximum(bits, 0)) / np.maximum(price, 1e-9)]
        rates.append(np.maximum(bits, 0) / np.maximum(price, 1e-9))
        parts = [self._in_order(q, who, price, bits, np.where(who >= 0, rate, -np.inf)) for rate in rates]
        if self.expert_cost is not None:
            parts.append(self._expert_first(parts[0], q))
        return _Options(*(np.stack(each, axis=1) for each in zip(*parts, strict=True)))

    def _in_order(
        self, q: FloatArray, who: IntArray, price: FloatArray, bits: FloatArray, rate: FloatArray
    ) -> _Options:
        """The first annotators by a rate, (n, k)."""
        order = np.argsort(-rate, axis=1, kind="stable")[:, : self.per_task]
        chosen = np.take_along_axis(who, order, 1)
        gains = value_of_answers(q, self.asking.confusion, chosen) - q.max(1)[:, None]
        costs = np.cumsum(np.take_along_axis(price, order, 1), axis=1)
        told = np.cumsum(np.maximum(np.take_along_axis(bits, order, 1), 0.0), axis=1)
        return _Options(np.where(chosen < 0, NOBODY, chosen), costs, gains, told)

    def _expert_first(self, like: _Options, q: FloatArray) -> _Options:
        """The expert alone, in the shape of another order."""
        who, costs = np.full_like(like.annotators, NOBODY), np.full_like(like.costs, np.inf)
        who[:, 0], costs[:, 0] = EXPERT, self.expert_cost
        gains = np.repeat(1 - q.max(1)[:, None], who.shape[1], 1)
        bits = np.repeat(-(q * np.log2(np.maximum(q, 1e-300))).sum(1)[:, None], who.shape[1], 1)
        return _Options(who, costs, gains, bits)

    # ---------------------------------------------------------------- steps

    def _first_steps(self, options: _Options, tasks: IntArray) -> list[Step]:
        """The best first step of every task."""
        n, _, longest = options.annotators.shape
        if not n:
            return []
        gains = options.gains + INFORMATION * options.bits
        if self.lessons is not None:
            gains = gains + np.cumsum(self.lessons.first_values(tasks, options.annotators), axis=2)
        worth = np.where(options.annotators == NOBODY, -np.inf, gains / np.maximum(options.costs, 1e-9))
        best = worth.reshape(n, -1).argmax(1)
        order, end = np.divmod(best, longest)
        found = zip((-worth[np.arange(n), order, end]).tolist(), order.tolist(), (end + 1).tolist(), strict=True)
        return [(w, place, o, 0, e) for place, (w, o, e) in enumerate(found) if w < np.inf]

    def _push(self, heap: list[Step], options: _Options, place: int, taken: int, order: int) -> None:
        """The next step of a task in the order that was begun: the next side of the concave hull."""
        who = options.annotators[place, order]
        ends = [end for end in range(taken + 1, len(who) + 1) if who[end - 1] != NOBODY]
        if ends:
            worth, end = max((self._worth(options, place, order, taken, end), -end) for end in ends)
            heapq.heappush(heap, (-worth, place, order, taken, -end))

    def _worth(self, options: _Options, place: int, order: int, taken: int, end: int) -> float:
        gain, bits, cost = self._step(options, place, order, taken, end)
        taught = sum(self._taught(place, options.annotators[place, order, taken:end].tolist()))
        return (gain + INFORMATION * bits + taught) / max(cost, 1e-9)

    def _taught(self, place: int, who: list[int]) -> list[float]:
        """What the answer of each teaches about other tasks."""
        task = int(self.tasks[place])
        return [0.0 if self.lessons is None else self.lessons.next_value(task, r) for r in who]

    @staticmethod
    def _step(options: _Options, place: int, order: int, taken: int, end: int) -> tuple[float, float, float]:
        """Gain, bits and cost of going from some answers to more."""
        gain, bits, cost = (
            float(values[place, order, end - 1] - (values[place, order, taken - 1] if taken else 0.0))
            for values in (options.gains, options.bits, options.costs)
        )
        return gain, bits, cost

    def _full(self, who: IntArray) -> bool:
        """Whether somebody can give no more labels."""
        return any(r >= 0 and self.room[r] < 1 for r in who.tolist())

    def _look_for_others(self, heap: list[Step], options: _Options, place: int, taken: int) -> None:
        """Replace people who can give no more labels, where nothing has been planned for the task yet.

        The next tasks that need the same are done with it: many at once cost little more than one.
        """
        if taken:
            return
        soon = [step for step in heapq.nsmallest(AT_ONCE, heap) if step[3] == 0]
        full = {place, *(at for _, at, o, _, end in soon if self._full(options.annotators[at, o, :end]))}
        if len(full) > 1:
            heap[:] = [step for step in heap if step[1] not in full]
            heapq.heapify(heap)
        places = np.array(sorted(full))
        again = self._options(self.tasks[places])
        for old, new in zip(options, again, strict=True):
            old[places] = new
        for worth, at, order, _, end in self._first_steps(again, self.tasks[places]):
            heapq.heappush(heap, (worth, int(places[at]), order, 0, end))

    def _take(self, options: _Options, place: int, order: int, taken: int, end: int) -> bool:
        """Plan a step, if there is money for it and it gains enough."""
        gain, _, cost = self._step(options, place, order, taken, end)
        who, task = options.annotators[place, order, taken:end].tolist(), int(self.tasks[place])
        taught = self._taught(place, who)
        if cost > self.left + 1e-9 or (gain + sum(taught)) / len(who) < self.least_gain:
            return False
        self.left -= cost
        for r, lesson in zip(who, taught, strict=True):
            price = float(self.expert_cost or 0) if r == EXPERT else float(self.asking.price[r])
            self.rows.append((task, r, gain / len(who), lesson, price))
            if self.lessons is not None:
                self.lessons.note(task, r)
            if r >= 0:
                self.room[r] -= 1
        return True

    def _planned(self) -> Planned:
        if not self.rows:
            none, no = np.empty(0, np.int64), np.empty(0)
            return Planned(none, none, no, no, no)
        tasks, who, gain, taught, cost = (np.array(column) for column in zip(*self.rows, strict=True))
        return Planned(tasks, who, gain, taught, cost)
