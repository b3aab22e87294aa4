"""GLAD against a slow version with loops, the slope of its objective, crowds of its own kind, and real ones."""

from __future__ import annotations

import math
import time
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conal.aggregation import GLAD, MajorityVote, make
from conal.aggregation.counts import Votes
from conal.aggregation.em import climb
from conal.aggregation.glad import _better_b
from conal.data.annotations import Annotations
from conal.errors import InputError
from helpers.crowds import graded_crowd, thin_matrices

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")

PRIORS: list[Literal["uniform", "estimate"]] = ["uniform", "estimate"]
UNSEEN_SKILL = 1 / (1 + math.exp(-math.e))


def slow_joint(crowd: Annotations, rho: Any, alpha: Any, b: Any) -> list[list[float]]:
    """P(z_i = c, labels of task i) with loops over plain numbers and no logarithms."""
    C = crowd.n_classes
    joint = [[float(rho[c]) for c in range(C)] for _ in range(crowd.n_tasks)]
    for i, r, y in zip(crowd.tasks, crowd.annotators, crowd.labels, strict=True):
        sigma = 1 / (1 + math.exp(-alpha[r] * math.exp(b[i])))
        for c in range(C):
            joint[i][c] *= sigma if y == c else (1 - sigma) / (C - 1)
    return joint


def slow_objective(crowd: Annotations, known: dict[int, int], rho: Any, alpha: Any, b: Any) -> float:
    joint = slow_joint(crowd, rho, alpha, b)
    evidence = [math.log(row[known[i]] if i in known else sum(row)) for i, row in enumerate(joint)]
    return sum(evidence) - sum(float(x - 1) ** 2 / 2 for x in [*alpha, *b])


def slopes(crowd: Annotations, known: dict[int, int], fitted: GLAD) -> npt.NDArray[np.float64]:
    """Finite differences of the slow objective by every ability and every log-easiness."""
    R, h = crowd.n_annotators, 1e-5
    x = np.concatenate([fitted.alpha_, fitted.log_easiness_])

    def objective(x: npt.NDArray[np.float64]) -> float:
        return slow_objective(crowd, known, fitted.class_prior_, x[:R], x[R:])

    return np.array([(objective(x + d) - objective(x - d)) / (2 * h) for d in h * np.eye(len(x))])


@pytest.mark.parametrize("class_prior", PRIORS)
@pytest.mark.parametrize("n_iter", [1, 5])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
def test_posterior_and_objective_agree_with_loops(
    seed: int, n_iter: int, class_prior: Literal["uniform", "estimate"]
) -> None:
    crowd, known = graded_crowd(seed, 20, 6, 2 + seed, worst=0.1), {2: 0, 5: 1}
    fitted = GLAD(n_iter=n_iter, tol=0, class_prior=class_prior).fit(crowd, true_labels=known)
    parameters = fitted.class_prior_, fitted.alpha_, fitted.log_easiness_
    joint = np.array(slow_joint(crowd, *parameters))
    expected = joint / joint.sum(1, keepdims=True)
    expected[list(known)] = np.eye(crowd.n_classes)[list(known.values())]
    np.testing.assert_allclose(fitted.probas_, expected, rtol=0, atol=1e-10)
    assert fitted.objective_history_[-1] == pytest.approx(slow_objective(crowd, known, *parameters), rel=1e-10)
    assert len(fitted.objective_history_) == n_iter + 1


@pytest.mark.parametrize("class_prior", PRIORS)
@pytest.mark.parametrize("seed", range(3))
def test_it_stops_where_the_objective_is_flat(seed: int, class_prior: Literal["uniform", "estimate"]) -> None:
    crowd, known = graded_crowd(seed, 20, 6, 2 + seed, worst=0.1), {2: 0, 5: 1}
    fitted = GLAD(n_iter=5000, tol=1e-14, class_prior=class_prior).fit(crowd, true_labels=known)
    np.testing.assert_allclose(slopes(crowd, known, fitted), 0, atol=1e-5)
    assert np.ptp(fitted.alpha_) > 0.5
    assert np.ptp(fitted.log_easiness_) > 0.3
    expected = fitted.probas_.mean(0) if class_prior == "estimate" else np.full(crowd.n_classes, 1 / crowd.n_classes)
    np.testing.assert_allclose(fitted.class_prior_, expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(2, 4),
    known=st.integers(0, 5),
    shape=st.sampled_from([(15, 5, 0.5), (6, 80, 1.0), (40, 3, 0.9)]),
    class_prior=st.sampled_from(PRIORS),
)
@example(seed=0, n_classes=2, known=5, shape=(6, 80, 1.0), class_prior="uniform")
@example(seed=1, n_classes=4, known=3, shape=(6, 80, 1.0), class_prior="estimate")
@settings(max_examples=25, deadline=None)
def test_the_objective_never_falls(
    seed: int, n_classes: int, known: int, shape: tuple[int, int, float], class_prior: Literal["uniform", "estimate"]
) -> None:
    n_tasks, n_annotators, share = shape
    crowd = graded_crowd(seed, n_tasks, n_annotators, n_classes, worst=0.1, share=share)
    glad = GLAD(n_iter=30, tol=0, class_prior=class_prior).fit(crowd, true_labels=dict.fromkeys(range(known), 0))
    assert (np.diff(glad.objective_history_) >= -1e-9).all()
    np.testing.assert_allclose(glad.probas_.sum(1), np.ones(n_tasks))
    np.testing.assert_allclose(glad.confusion_.sum(-1), np.ones((n_annotators, n_classes)))
    for values in (glad.probas_, glad.alpha_, glad.log_easiness_, glad.difficulty_, glad.skills_, glad.confusion_):
        assert np.isfinite(values).all()


def test_a_coordinate_that_only_falls_stays_while_the_others_move() -> None:
    def objective(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.array([-abs(x[0]), -((x[1] - 0.2) ** 2), x[2]])

    moved = climb(objective, np.zeros(3), np.array([0.5, 0.8, 1.0]))
    np.testing.assert_array_equal(moved, [0, 0.4, 1])


def test_a_log_easiness_rises_where_its_objective_is_convex() -> None:
    """400 weak annotators are all right: far below the best b, Newton's own step would go down."""
    votes, alpha = Votes(Annotations.from_matrix(np.zeros((1, 400), dtype=int))), np.full(400, 0.02)
    b = np.array([-1.0])
    for _ in range(30):
        b = _better_b(votes, np.ones(400), alpha, b)
    s = 0.02 * math.exp(b[0])
    assert b[0] > 4
    assert 400 * s / (1 + math.exp(s)) == pytest.approx(b[0] - 1, abs=1e-6)


def test_perfect_annotators_give_the_truth() -> None:
    z = np.arange(30) % 3
    fitted = GLAD().fit(np.repeat(z[:, None], 4, axis=1))
    assert (fitted.codes_ == z).all()
    assert fitted.converged_
    assert (fitted.skills_ > 0.97).all()
    assert (fitted.alpha_ > 1).all()
    assert (fitted.log_easiness_ > 1).all()


def test_nothing_said_stays_at_the_prior() -> None:
    """Annotator 0 is silent, and nobody labelled task 0, nor task 2, whose truth is known."""
    matrix = [[-1, -1, -1], [-1, 0, 0], [-1, -1, -1], [-1, 0, 1], [-1, 0, 0]]
    for class_prior in PRIORS:
        fitted = GLAD(class_prior=class_prior).fit(np.array(matrix), true_labels={2: 1})
        assert fitted.alpha_[0] == 1
        assert fitted.skills_[0] == pytest.approx(UNSEEN_SKILL)
        np.testing.assert_array_equal(fitted.log_easiness_[[0, 2]], 1)
        np.testing.assert_allclose(fitted.probas_[0], fitted.class_prior_)
        np.testing.assert_array_equal(fitted.probas_[2], [0, 1])
    assert fitted.class_prior_[0] > 0.6


def test_skill_is_the_mean_over_the_tasks_that_were_labelled() -> None:
    crowd = graded_crowd(4, 30, 6, 3, worst=0.1)
    fitted = GLAD().fit(crowd)
    matrix = crowd.to_matrix()
    np.testing.assert_allclose(fitted.difficulty_, [math.exp(-b) for b in fitted.log_easiness_])
    for r in range(1, 6):
        s = [fitted.alpha_[r] * math.exp(fitted.log_easiness_[i]) for i in range(30) if matrix[i, r] >= 0]
        skill = np.mean([1 / (1 + math.exp(-x)) for x in s])
        assert fitted.skills_[r] == pytest.approx(skill)
        np.testing.assert_allclose(fitted.confusion_[r], np.where(np.eye(3) == 1, skill, (1 - skill) / 2))


def test_one_wrong_label_is_excused_on_a_hard_task_only() -> None:
    """Annotators 8 and 9 err once each, on a task that is disputed and on one that is not."""
    z = np.arange(20) % 2
    matrix = np.repeat(z[:, None], 10, axis=1)
    matrix[0, :4] = 1 - z[0]
    matrix[0, 8] = 1 - z[0]
    matrix[1, 9] = 1 - z[1]
    fitted = GLAD().fit(matrix, true_labels={0: int(z[0])})
    assert fitted.difficulty_[0] > fitted.difficulty_[1] > fitted.difficulty_[2]
    assert fitted.alpha_[8] > fitted.alpha_[9] + 0.1


def own_crowd(seed: int) -> tuple[Annotations, dict[str, npt.NDArray[Any]]]:
    """Drawn from the model: abilities from below 0 to good, half of the tasks hard."""
    rng = np.random.default_rng(seed)
    N, R = 1000, 30
    z, alpha, b = rng.integers(2, size=N), np.linspace(-0.6, 1.6, R), rng.normal(0, 1, N)
    right = rng.random((N, R)) < 1 / (1 + np.exp(-alpha * np.exp(b)[:, None]))
    return Annotations.from_matrix(np.where(right, z[:, None], 1 - z[:, None])), {"z": z, "alpha": alpha, "b": b}


@pytest.mark.parametrize("seed", range(4))
def test_it_recovers_abilities_and_difficulties(seed: int) -> None:
    crowd, truth = own_crowd(seed)
    fitted = GLAD().fit(crowd)
    assert np.corrcoef(fitted.alpha_, truth["alpha"])[0, 1] > 0.97
    assert np.corrcoef(fitted.log_easiness_, truth["b"])[0, 1] > 0.75
    by_majority = (MajorityVote().fit(crowd).codes_ == truth["z"]).mean()
    assert (fitted.codes_ == truth["z"]).mean() > by_majority + 0.02


def thin_crowds() -> dict[str, Annotations]:
    rng = np.random.default_rng(0)
    single, lone, alike, square, _ = thin_matrices()
    words = np.array(["cat", "dog", "owl"])[rng.integers(3, size=(12, 4))]
    crowds = {
        "one label per task, 100 in all": Annotations.from_matrix(single),
        "one annotator": Annotations.from_matrix(lone),
        "ten of one mind": Annotations.from_matrix(alike),
        "as many annotators as tasks": Annotations.from_matrix(square),
        "a class that nobody chose": Annotations.from_matrix(rng.integers(3, size=(20, 4)), classes=range(5)),
        "words": Annotations.from_matrix(words),
        "one class": Annotations.from_matrix(np.zeros((6, 3), dtype=int)),
        "3,000 annotators on two tasks": Annotations.from_matrix(rng.integers(2, size=(2, 3000))),
    }
    crowds["no label at all"] = crowds["words"].select(np.zeros(48, dtype=bool))
    return crowds


@pytest.mark.parametrize("class_prior", PRIORS)
@pytest.mark.parametrize("case", thin_crowds())
@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
def test_thin_crowds_give_numbers(case: str, class_prior: Literal["uniform", "estimate"]) -> None:
    crowd = thin_crowds()[case]
    fitted = GLAD(class_prior=class_prior).fit(crowd)
    np.testing.assert_allclose(fitted.probas_.sum(1), np.ones(crowd.n_tasks))
    np.testing.assert_allclose(fitted.confusion_.sum(-1), 1)
    assert ((fitted.skills_ >= 0) & (fitted.skills_ <= 1)).all()
    assert np.isfinite([*fitted.alpha_, *fitted.log_easiness_, *fitted.objective_history_]).all()
    assert set(fitted.labels_.tolist()) <= set(crowd.classes.tolist())
    if case in ("one annotator", "ten of one mind", "one class"):
        assert (fitted.codes_ == crowd.to_matrix()[:, 0]).all()


def test_restarts_keep_the_best_and_are_seeded() -> None:
    crowd = graded_crowd(7, 30, 6, 3, worst=0.1)
    single = GLAD().fit(crowd)
    many, again = (GLAD(n_restarts=6, seed=1).fit(crowd) for _ in range(2))
    assert many.objective_history_[-1] >= single.objective_history_[-1]
    np.testing.assert_array_equal(many.probas_, again.probas_)


def test_settings() -> None:
    assert isinstance(make("glad", class_prior="estimate"), GLAD)
    assert GLAD().class_prior == "uniform"
    with pytest.raises(InputError, match="class_prior must be 'uniform' or 'estimate', not 'flat'"):
        make("glad", class_prior="flat").fit([[0, 1]])
    with pytest.raises(InputError, match="tol must be"):
        GLAD(tol=-1).fit([[0, 1]])


def test_fifty_thousand_labels_in_seconds() -> None:
    """10,000 tasks, 500 annotators, 4 classes; it takes a fifth of a second."""
    rng = np.random.default_rng(0)
    N, R, C = 10_000, 500, 4
    z, tasks = rng.integers(C, size=N), np.repeat(np.arange(N), 5)
    who = (rng.integers(R, size=(N, 1)) + np.arange(5) * 97) % R
    right = rng.random((N, 5)) < 1 / (1 + np.exp(-rng.normal(1, 1, R)[who] * np.exp(rng.normal(0, 1, (N, 1)))))
    labels = np.where(right, z[:, None], (z[:, None] + rng.integers(1, C, size=(N, 5))) % C)
    crowd = Annotations.from_triples(tasks, who.ravel(), labels.ravel())
    start = time.process_time()
    fitted = GLAD().fit(crowd)
    assert time.process_time() - start < 5
    assert fitted.converged_
    assert (fitted.codes_ == z).mean() > (MajorityVote().fit(crowd).codes_ == z).mean() + 0.01
