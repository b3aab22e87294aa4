"""Plans of further labels: values against enumeration, budgets, limits, and nobody asked twice."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from conal.planning.crowd_plan import plan_labels, simulate_plan
from conal.planning.gains import (
    EXPERT,
    LabelingProblem,
    Pairs,
    answer_information,
    candidates,
    value_of_answers,
)

FloatArray = npt.NDArray[np.float64]


def crowd_of(
    n: int, r: int, c: int, seed: int = 0, *, labels: int = 2, sharp: float = 0.6, **more: Any
) -> LabelingProblem:
    """Random tasks, of which each was labelled by some of the annotators."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(c, sharp), size=n)
    skill = rng.uniform(0.3, 0.9, size=(r, 1, 1))
    confusion = skill * np.eye(c) + (1 - skill) * rng.dirichlet(np.ones(c), size=(r, c))
    who = np.argsort(rng.random((n, r)), axis=1)[:, :labels]
    asked = Pairs.of(np.repeat(np.arange(n), labels), who.ravel(), n)
    return LabelingProblem(q, confusion, asked, np.full((r, c), 10.0), **more)


def value_by_enumeration(q: FloatArray, matrices: list[FloatArray]) -> float:
    """Chance of a right label after all answers, averaged over them by Bayes' rule."""
    total = 0.0
    for answers in itertools.product(range(len(q)), repeat=len(matrices)):
        joint = [q[c] * np.prod([m[c, a] for m, a in zip(matrices, answers, strict=True)]) for c in range(len(q))]
        chance = sum(joint)
        total += chance * max(each / chance for each in joint) if chance > 0 else 0.0
    return float(total)


@pytest.mark.parametrize("c", [2, 3, 4])
def test_the_value_of_several_answers_is_that_of_an_enumeration(c: int) -> None:
    problem = crowd_of(6, 5, c, seed=c)
    who = np.array([np.random.default_rng(k).permutation(5)[:3] for k in range(6)])
    who[5, 1:] = -1
    found = value_of_answers(problem.posterior, problem.confusion, who)
    for i in range(6):
        for k in range(3):
            people = [problem.confusion[r] for r in who[i, : k + 1] if r >= 0]
            assert found[i, k] == pytest.approx(value_by_enumeration(problem.posterior[i], people), abs=1e-12)


def test_with_many_classes_the_value_is_a_bound_from_below() -> None:
    problem = crowd_of(30, 5, 9, sharp=0.3)
    who = np.tile([0, 1], (30, 1))
    few, more, every = (value_of_answers(problem.posterior, problem.confusion, who, kept=k) for k in (3, 6, 9))
    assert (problem.posterior.max(1)[:, None] <= few + 1e-12).all()
    assert (few <= more + 1e-12).all()
    assert (more <= every + 1e-12).all()
    gains = [(values[:, 1] - problem.posterior.max(1)).sum() for values in (few, more, every)]
    assert 0.5 * gains[2] < gains[0] < gains[1] < gains[2]


def test_information_is_that_of_the_joint_distribution() -> None:
    problem = crowd_of(4, 3, 3, seed=1)
    found = answer_information(problem.posterior, problem.confusion, np.tile([0, 1, 2], (4, 1)))
    for i, r in itertools.product(range(4), range(3)):
        joint = problem.posterior[i][:, None] * problem.confusion[r]
        apart = np.outer(joint.sum(1), joint.sum(0))
        assert found[i, r] == pytest.approx((joint * np.log2(joint / apart)).sum(), abs=1e-12)


def test_two_answers_are_asked_for_where_one_changes_nothing() -> None:
    sure = np.array([[0.8, 0.2]])
    noisy = np.array([[[0.75, 0.25], [0.25, 0.75]]] * 3)
    problem = LabelingProblem(sure, noisy, Pairs.of([], [], 1), np.full((3, 2), 50.0))
    assert value_of_answers(sure, noisy, np.array([[0, 1]]))[0].tolist() == pytest.approx([0.8, 0.8625])
    found = plan_labels(problem, 2)
    assert sorted(found.annotators.tolist()) == [0, 1]
    assert found.gain.sum() == pytest.approx(0.0625)
    assert found.gain[0] == pytest.approx(found.gain[1])  # of both together


def best_batch(problem: LabelingProblem, size: int) -> float:
    """The largest expected number of right labels that any batch of this size reaches, by enumeration."""
    asked = set(zip(problem.existing.tasks.tolist(), problem.existing.annotators.tolist(), strict=True))
    n, r = len(problem.posterior), len(problem.confusion)
    pairs = [pair for pair in itertools.product(range(n), range(r)) if pair not in asked]
    return max(batch_value(problem, batch) for batch in itertools.combinations(pairs, size))


def batch_value(problem: LabelingProblem, batch: Any) -> float:
    people: dict[int, list[FloatArray]] = {}
    for task, r in batch:
        people.setdefault(int(task), []).append(problem.confusion[int(r)])
    return sum(value_by_enumeration(q, people.get(i, [])) for i, q in enumerate(problem.posterior))


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_is_worth_what_it_says_and_nearly_the_best_of_all(seed: int) -> None:
    problem = crowd_of(3, 3, 2, seed, labels=1)
    found = plan_labels(problem, 3)
    batch = list(zip(found.tasks.tolist(), found.annotators.tolist(), strict=True))
    before = float(problem.posterior.max(1).sum())
    value = batch_value(problem, batch)
    assert len(batch) == 3
    assert value == pytest.approx(before + found.gain.sum(), abs=1e-12)
    assert value - before >= 0.9 * (best_batch(problem, 3) - before) - 1e-12


def test_nobody_is_asked_twice_and_costs_and_limits_are_kept() -> None:
    rng = np.random.default_rng(0)
    costs, limits = rng.uniform(0.5, 3, 12), rng.integers(0, 9, 12).astype(float)
    problem = crowd_of(60, 12, 4, labels=4, costs=costs, limits=limits, done=np.arange(60) < 5)
    found = plan_labels(problem, 40.0, expert_cost=4.0)
    pairs = list(zip(found.tasks.tolist(), found.annotators.tolist(), strict=True))
    asked = set(zip(problem.existing.tasks.tolist(), problem.existing.annotators.tolist(), strict=True))
    assert len(pairs) > 10
    assert len(set(pairs)) == len(pairs)
    assert not set(pairs) & asked
    assert found.tasks.min() >= 5
    people = found.annotators[found.annotators >= 0]
    assert (np.bincount(people, minlength=12) <= limits).all()
    np.testing.assert_allclose(found.cost, np.where(found.annotators < 0, 4.0, costs[found.annotators]))
    assert 36.0 < found.cost.sum() <= 40.0
    again = plan_labels(problem, 40.0, expert_cost=4.0)
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


def test_the_whole_capacity_can_be_used() -> None:
    """People who are full make room for others, also such as were not among the first candidates."""
    problem = crowd_of(80, 20, 2, labels=0, limits=np.full(20, 3.0))
    found = plan_labels(problem, 1000)
    assert np.bincount(found.annotators, minlength=20).max() <= 3
    assert len(found.tasks) >= 57


def test_only_allowed_pairs_are_chosen() -> None:
    allowed = Pairs.of([0, 0, 1], [3, 4, 2], 10)
    found = plan_labels(replace(crowd_of(10, 5, 3, labels=0), allowed=allowed), 100)
    pairs = set(zip(found.tasks.tolist(), found.annotators.tolist(), strict=True))
    assert pairs == {(0, 3), (0, 4), (1, 2)}


def test_candidates_are_those_who_tell_the_classes_apart() -> None:
    blind, sharp = np.full((3, 3), 1 / 3), np.eye(3) * 0.9 + 0.1 / 3
    half = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])  # does not tell 0 from 1
    q = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
    problem = LabelingProblem(q, np.stack([blind, half, sharp]), Pairs.of([0], [2], 2), np.ones((3, 3)))
    assert candidates(problem, np.arange(2), problem.capacity, 2).tolist() == [[-1, -1], [1, 2]]


def test_an_expert_is_asked_about_the_pair_that_everybody_confuses() -> None:
    """Two pairs of classes: on one, answers of the crowd are worth nothing; it tells the others apart."""
    q = np.repeat([[0.5, 0.5, 0, 0], [0, 0, 0.99, 0.01], [0, 0, 0.55, 0.45]], [50, 40, 10], axis=0)
    blind = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.9, 0.1], [0, 0, 0.1, 0.9]])
    problem = LabelingProblem(q, np.stack([blind] * 3), Pairs.of([], [], 100), np.full((3, 4), 50.0))
    found = plan_labels(problem, 30, expert_cost=2.0)
    experts = found.tasks[found.annotators == EXPERT]
    assert len(experts)
    assert (experts < 50).all()


def test_the_forecast_is_the_mean_of_what_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = crowd_of(400, 8, 3, sharp=1.0)
    planned = plan_labels(problem, 200, expert_cost=3.0)
    found = simulate_plan(problem, planned, seed=1, draws=400)
    assert found.labels[0] == 0
    assert found.labels[-1] == len(planned.tasks)
    assert found.cost[-1] == pytest.approx(planned.cost.sum())
    assert found.accuracy[0] == pytest.approx(problem.posterior.max(1).mean())
    assert found.accuracy[-1] == pytest.approx(found.accuracy[0] + planned.gain.sum() / 400)
    assert (found.low < found.accuracy - 0.02).all()
    assert (found.accuracy + 0.02 < found.high).all()
    monkeypatch.setattr("conal.planning.crowd_plan.DOUBT", (0.0, 0.0))  # if the posterior is right, so is the forecast
    exact = simulate_plan(problem, planned, seed=1, draws=400)
    np.testing.assert_allclose((exact.low + exact.high) / 2, exact.accuracy, atol=0.012)
    again = simulate_plan(problem, planned, seed=1, draws=400)
    assert all(np.array_equal(a, b) for a, b in zip(exact, again, strict=True))


def test_a_true_posterior_keeps_the_forecast() -> None:
    """Truth and answers are drawn from the model itself: 95 % intervals hold at least 19 of 24 times."""
    problem = crowd_of(300, 8, 3, sharp=1.0)
    planned = plan_labels(problem, 150)
    found = simulate_plan(problem, planned, draws=200)
    held = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        joint, z = problem.posterior.copy(), np.array([rng.choice(3, p=q) for q in problem.posterior])
        for task, r in zip(planned.tasks, planned.annotators, strict=True):
            joint[task] *= problem.confusion[r, :, rng.choice(3, p=problem.confusion[r, z[task]])]
        held += found.low[-1] <= (joint.argmax(1) == z).mean() <= found.high[-1]
    assert held >= 19


def test_there_is_nothing_to_plan_where_every_task_is_done() -> None:
    problem = crowd_of(5, 3, 2, done=np.ones(5, dtype=bool))
    assert [len(column) for column in plan_labels(problem, 10)] == [0, 0, 0, 0]


def test_without_annotators_there_is_the_expert_alone() -> None:
    q = np.array([[0.6, 0.4], [0.9, 0.1]])
    nobody = LabelingProblem(q, np.empty((0, 2, 2)), Pairs.of([], [], 2), np.empty((0, 2)))
    assert len(plan_labels(nobody, 5).tasks) == 0
    found = plan_labels(nobody, 5, expert_cost=5.0)
    assert (found.tasks.tolist(), found.annotators.tolist()) == ([0], [EXPERT])
