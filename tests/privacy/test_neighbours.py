"""Neighbouring crowds: what one person can change, in full on tiny crowds, and by draws of the mechanism.

The same test of draws must reject mechanisms that are not private: half the noise, a contribution without bound, and a
reference that the crowd's own labels make.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from conal import privacy
from conal.data.annotations import Annotations
from conal.privacy import UNIT, bounded_counts, noisy_counts, private_release

Person = dict[int, int]
"""Task to label."""
Crowd = dict[str, Person]

TRUTH = {0: 0, 1: 1, 2: 1, 3: 1}
EPSILON, M = 1.0, 2
DRAWS = 20_000
LEVEL = 1e-4
"""How often a private mechanism fails in one of all comparisons."""
OTHERS: Crowd = {"p": {0: 0, 1: 1}}


def as_annotations(crowd: Crowd) -> Annotations:
    rows = [(task, name, label) for name, person in crowd.items() for task, label in person.items()]
    tasks, names, labels = zip(*rows, strict=True)
    return Annotations.from_triples(tasks, names, labels)


def counted(crowd: Crowd, truth: Mapping[int, int] = TRUTH, m: int = M) -> npt.NDArray[np.int64]:
    tasks = {str(task): label for task, label in truth.items()}
    return np.asarray(bounded_counts(as_annotations(crowd), tasks, {"0": 0, "1": 1}, m)[0])


def every_person() -> Iterator[Person]:
    for given in product((None, 0, 1, 2), (None, 0, 1), (None, 0, 1), (None, 1)):
        yield {task: label for task, label in enumerate(given) if label is not None}


@pytest.mark.parametrize("m", [1, 2])
def test_no_person_changes_the_counts_by_more_than_the_bound(m: int) -> None:
    """All 72 people who may label four tasks, one of them without truth, with two classes and an unknown one."""
    truth, largest = {0: 0, 1: 1, 2: 1}, 0
    for rest in (OTHERS, {"p": {0: 1, 1: 1, 2: 0}, "q": {3: 0, 0: 0, 1: 0}}):
        before = counted(rest, truth, m)
        for person in every_person():
            change = counted(rest | {"new": person}, truth, m) - before
            assert (change >= 0).all()
            largest = max(largest, int(change.sum()))
            alone = counted({"new": person}, truth, m) if person else np.zeros((2, 2), dtype=np.int64)
            np.testing.assert_array_equal(change, alone)  # nobody else's labels matter
    assert largest == UNIT * m  # the bound is reached, so that less noise would be too little


def test_a_person_with_many_labels_keeps_their_proportions() -> None:
    person = {task: int(task >= 6) for task in range(8)}
    truth = dict.fromkeys(range(8), 0)
    assert counted({"p": person}, truth, m=4)[0].tolist() == [3000, 1000]
    assert counted({"p": person}, truth, m=8)[0].tolist() == [6000, 2000]
    assert counted({"p": person}, truth, m=9)[0].tolist() == [6000, 2000]
    assert counted({"p": person}, truth, m=3)[0].tolist() == [2250, 750]
    assert counted({"p": {0: 0, 1: 1, 2: 1}}, truth, m=2)[0].tolist() == [666, 1333]  # rounded down, never up


def test_a_release_adds_noise_once_for_the_whole_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """One mechanism sees the labels, once and with all of epsilon, so that nothing has to be added up in a release."""
    calls: list[tuple[npt.NDArray[np.int64], int, float]] = []

    def mechanism(counts: npt.NDArray[np.int64], sensitivity: int, epsilon: float) -> npt.NDArray[np.int64]:
        calls.append((counts, sensitivity, epsilon))
        return counts + 7

    monkeypatch.setattr(privacy, "noisy_counts", mechanism)
    crowd: Crowd = {"p": {0: 0, 1: 1, 2: 0}, "q": {3: 1}}
    made = private_release(as_annotations(crowd), TRUTH, epsilon=0.3, max_labels=M)
    ((counts, sensitivity, epsilon),) = calls
    assert (sensitivity, epsilon) == (UNIT * M, 0.3)
    np.testing.assert_array_equal(counts[0], counted(crowd))
    np.testing.assert_array_equal(made.counts, (counts + 7) / UNIT)
    made.tables()
    assert made.document()["epsilon"] == 0.3
    assert len(calls) == 1  # tables and document follow from the noisy counts


@dataclass(frozen=True)
class Mechanism:
    """The mechanism, and ways to break it."""

    noise: float = 1.0
    bound: int = M
    votes: bool = False

    def counts(self, crowd: Crowd) -> npt.NDArray[np.int64]:
        return counted(crowd, majority(crowd) if self.votes else TRUTH, self.bound).ravel()

    def draws(self, crowd: Crowd, n: int) -> npt.NDArray[np.int64]:
        return noisy_counts(np.tile(self.counts(crowd), (n, 1)), UNIT * M, EPSILON / self.noise)


def majority(crowd: Crowd) -> dict[int, int]:
    """A reference that is not public: what most people say, ties for the higher class."""
    tasks = {task for person in crowd.values() for task in person}
    votes = {task: [person[task] for person in crowd.values() if task in person] for task in tasks}
    return {task: int(2 * sum(given) >= len(given)) for task, given in votes.items()}


def excess(mechanism: Mechanism, crowd: Crowd, other: Crowd, *, draws: int) -> float:
    """By how much the log-ratio of probabilities surely exceeds epsilon, in the worst event and direction.

    Events are "the likelihood ratio of the two crowds is at least t", the most telling ones there are (Neyman and
    Pearson); t is chosen on draws of its own. Probabilities have exact binomial limits, at a level that all comparisons
    share.
    """
    near, far = mechanism.counts(crowd), mechanism.counts(other)

    def ratios(of: Crowd, n: int) -> npt.NDArray[np.int64]:
        drawn = mechanism.draws(of, n)
        return np.asarray(np.abs(drawn - far).sum(1) - np.abs(drawn - near).sum(1))

    first, second = ratios(crowd, draws), ratios(other, draws)
    worst = -math.inf
    for level in np.quantile(ratios(other, 500), [0.2, 0.5, 0.8, 0.95]):
        for a, b in ((first >= level, second >= level), (second <= level, first <= level)):
            low = binomial_limit(int(a.sum()), draws, upper=False, n_tests=16)
            high = binomial_limit(int(b.sum()), draws, upper=True, n_tests=16)
            worst = max(worst, math.log(max(low, 1e-12)) - math.log(high) - EPSILON)
    return worst


def binomial_limit(k: int, n: int, *, upper: bool, n_tests: int) -> float:
    """Clopper and Pearson's limit of a probability."""
    level = LEVEL / n_tests
    if upper:
        return float(stats.beta.ppf(1 - level, k + 1, n - k)) if k < n else 1.0
    return float(stats.beta.ppf(level, k, n - k + 1)) if k else 0.0


ALIKE: Person = dict.fromkeys(range(4), 1)


@pytest.mark.parametrize("new", [{1: 1, 2: 1}, ALIKE], ids=["all labels in one cell", "more labels than count"])
def test_neighbouring_crowds_give_outcomes_within_the_bound(new: Person) -> None:
    assert excess(Mechanism(), {**OTHERS, "new": new}, OTHERS, draws=DRAWS) <= 0


@pytest.mark.parametrize(
    ("broken", "new"),
    [
        (Mechanism(noise=0.5), {1: 1, 2: 1}),
        (Mechanism(bound=4), ALIKE),
        (Mechanism(votes=True), {0: 1, 1: 1}),
    ],
    ids=["half the noise", "no bound", "votes as the reference"],
)
def test_what_is_not_private_fails_the_same_test(broken: Mechanism, new: Person) -> None:
    others: Crowd = {"p": {0: 0, 1: 0}} if broken.votes else OTHERS
    assert excess(broken, {**others, "new": new}, others, draws=DRAWS // 4) > 0.1
