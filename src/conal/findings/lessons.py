"""What planned answers teach about other tasks: about the confusion of the crowd, or of one annotator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.findings.asking import Asking
from conal.findings.learning_value import Learning

__all__ = ["EXPERT", "Lessons"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

EXPERT = -1
"""The annotator's number that stands for an expert, who is always right."""


class Lessons:
    """The pairs of classes that there is something to learn about, and the answers that are planned for each."""

    def __init__(self, asking: Asking) -> None:
        self.n_classes, self.pair_key = asking.posterior.shape[1], asking.pair_key
        self.certainty = np.square(asking.posterior).sum(1)
        chance = np.take_along_axis(asking.posterior, asking.top_two, 1)
        pairs, self.pair = np.unique(asking.pair_key, return_inverse=True)
        matters = np.ones(len(chance), bool) if asking.closed is None else ~asking.closed
        self.crowd = Learning(self.pair[matters], chance[matters], len(pairs))
        labelled = asking.asked.tasks[matters[asking.asked.tasks]]
        people = asking.asked.annotators[matters[asking.asked.tasks]]
        self.own_keys, at = np.unique(self._own_key(people, labelled), return_inverse=True)
        self.own = Learning(at, chance[labelled], len(self.own_keys))
        self.planned = np.zeros(len(pairs)), np.zeros(len(self.own_keys))

    def _own_key(self, annotators: IntArray, tasks: IntArray) -> IntArray:
        return np.asarray(annotators * self.n_classes**2 + self.pair_key[tasks])

    def _place(self, tasks: IntArray, annotators: IntArray) -> IntArray:
        """Where each person's pair of classes is among the keys; -1 if this person has labelled no such task."""
        wanted = self._own_key(annotators, tasks)
        if not len(self.own_keys):
            return np.full(wanted.shape, -1)
        at = np.minimum(np.searchsorted(self.own_keys, wanted), len(self.own_keys) - 1)
        return np.where(self.own_keys[at] == wanted, at, -1)

    def first_values(self, tasks: IntArray, annotators: IntArray) -> FloatArray:
        """(n, o, k) what each answer teaches before anything is planned."""
        every = np.broadcast_to(tasks[:, None, None], annotators.shape)
        return self._first_values(every.ravel(), annotators.ravel()).reshape(annotators.shape)

    def next_value(self, task: int, annotator: int) -> float:
        """What one more answer teaches after those that are planned."""
        if annotator == EXPERT:
            pair = self.pair.item(task)
            return self.crowd.next_value(pair, self.planned[0].item(pair))
        at = self._place_of_one(task, annotator)
        return 0.0 if at < 0 else self.own.next_value(at, self.planned[1].item(at), self.certainty.item(task))

    def _place_of_one(self, task: int, annotator: int) -> int:
        wanted = annotator * self.n_classes**2 + self.pair_key.item(task)
        at = int(self.own_keys.searchsorted(wanted))
        return at if at < len(self.own_keys) and self.own_keys.item(at) == wanted else -1

    def _first_values(self, tasks: IntArray, annotators: IntArray) -> FloatArray:
        found = np.zeros(len(tasks))
        experts = np.flatnonzero(annotators == EXPERT)
        key = self.pair[tasks[experts]]
        found[experts] = self.crowd.next_values(key, self.planned[0][key], np.ones(len(key)))
        people = np.flatnonzero(annotators >= 0)
        at = self._place(tasks[people], annotators[people])
        people, at = people[at >= 0], at[at >= 0]
        found[people] = self.own.next_values(at, self.planned[1][at], self.certainty[tasks[people]])
        return found

    def note(self, task: int, annotator: int) -> None:
        """Remember that an answer is planned."""
        if annotator == EXPERT:
            self.planned[0][self.pair[task]] += 1
            return
        at = self._place_of_one(task, annotator)
        if at >= 0:
            self.planned[1][at] += self.certainty[task]
