"""The aggregator ordinal, against slow references and against the truth of simulated crowds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import xlogy
from sklearn.metrics import mean_absolute_error

from conal import Annotations
from conal.aggregation import DawidSkene, Ordinal, ordinal
from conal.aggregation.ordinal import DEVIATIONS, GUESSES, fall_off
from conal.errors import ConvergenceWarning, InputError
from helpers.grades import ordinal_crowd

LEVELS = np.arange(5.0)


def some_counts(seed: int, R: int = 4, C: int = 5) -> Any:
    """Expected labels, of few and of many, and none in some rows."""
    rng = np.random.default_rng(seed)
    counts = rng.gamma(0.5, 4.0, size=(R, C, C)) * (rng.random((R, C, C)) < 0.6)
    counts[0, 2] = 0.0
    return counts


def by_loops(theta: Any, levels: Any) -> Any:
    bias, slope, log_spread = theta
    C = len(levels)
    out = np.empty((C, C))
    for c in range(C):
        at = np.mean(levels) + bias + slope * (levels[c] - np.mean(levels))
        near = np.array([np.exp(-((level - at) ** 2) / (2 * np.exp(log_spread) ** 2)) for level in levels])
        out[c] = (1 - GUESSES) * near / near.sum() + GUESSES / C
    return out


def penalised(theta: Any, counts: Any, levels: Any, strength: float, typical: float) -> float:
    """An annotator's part of the objective with the best matrix: likelihood, less kappa times KL, and prior."""
    near = by_loops(theta, levels)
    pi = (counts + strength * near) / (counts.sum(1, keepdims=True) + strength)
    apart = (near * np.log(near / pi)).sum()
    prior = -0.5 * (((theta - [0.0, 1.0, typical]) / DEVIATIONS) ** 2).sum()
    return float(xlogy(counts, pi).sum() - strength * apart + prior)


# -------------------------------------------------------------------- the parts


def test_the_fall_off_is_that_of_the_definition() -> None:
    habits = np.array([[0.3, 0.8, -0.4], [-1.0, 1.2, 0.6]])
    levels = np.array([2.0, 0.0, 1.0, 3.0])  # classes need not be sorted
    found = fall_off(habits, levels)
    for r, row in enumerate(habits):
        np.testing.assert_allclose(found[r], by_loops(row, levels), rtol=1e-12)


def test_slopes_of_the_fall_off_are_those_of_differences() -> None:
    habits = np.array([[0.3, 0.8, -0.4], [-1.0, 1.2, 0.6]])
    _, slopes = ordinal._slopes_of_fall_off(habits, LEVELS)
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-6
        difference = (fall_off(habits + step, LEVELS) - fall_off(habits - step, LEVELS)) / 2e-6
        np.testing.assert_allclose(slopes[..., k], difference, atol=1e-8)


@pytest.mark.parametrize("strength", [3.0, 100.0, 1e5])
def test_the_profile_is_the_objective_with_the_best_matrix(strength: float) -> None:
    """Up to a constant that does not depend on the habits."""
    counts = some_counts(1)
    one, two = np.array([0.4, 0.9, 0.2]), np.array([-0.2, 1.1, -0.5])
    for r in range(len(counts)):
        wanted = penalised(one, counts[r], LEVELS, strength, 0.1) - penalised(two, counts[r], LEVELS, strength, 0.1)

        def value(habits: Any, r: int = r) -> float:
            pseudo = strength * fall_off(habits[None], LEVELS)
            return float((ordinal._profile(counts[[r]], pseudo) + ordinal._log_normal(habits[None], 0.1))[0])

        assert value(one) - value(two) == pytest.approx(wanted, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("strength", [3.0, 1000.0])
def test_newton_steps_reach_the_optimum(strength: float) -> None:
    counts = some_counts(2)
    habits = np.tile([0.0, 1.0, 0.0], (len(counts), 1))
    values = []
    for _ in range(60):
        habits = ordinal._better(habits, 0.2, counts, LEVELS, strength)
        values.append([penalised(habits[r], counts[r], LEVELS, strength, 0.2) for r in range(len(counts))])
    assert (np.diff(values, axis=0) > -1e-8).all()
    for r in range(len(counts)):
        found = minimize(lambda theta, r=r: -penalised(theta, counts[r], LEVELS, strength, 0.2), [0.0, 1.0, 0.0])
        assert values[-1][r] >= -found.fun - 1e-5


def test_the_typical_spread_is_the_most_probable() -> None:
    habits = np.array([[0.0, 1.0, t] for t in (0.3, 0.9, 1.5)])
    found = ordinal._typical(habits)

    def value(t: float) -> float:
        return float(ordinal._log_normal(habits, t).sum() - 0.5 * t**2)

    assert value(found) > max(value(found - 1e-3), value(found + 1e-3))


@pytest.mark.parametrize("strength", [3.0, 30.0, 1000.0])
def test_the_objective_never_falls_and_is_that_of_the_definition(strength: float) -> None:
    crowd, _ = ordinal_crowd(n_tasks=60, labels_per_annotator=15, n_levels=6, seed=1)
    with pytest.warns(ConvergenceWarning):
        fitted = Ordinal(strength=strength, n_iter=60, tol=0, guard="off").fit(crowd)
    assert (np.diff(fitted.objective_history_) > -1e-9).all()
    total = 0.0
    for i in range(crowd.n_tasks):
        own = slice(crowd.indptr[i], crowd.indptr[i + 1])
        pairs = zip(crowd.annotators[own], crowd.labels[own], strict=True)
        total += np.log(fitted.class_prior_ @ np.prod([fitted.confusion_[r, :, y] for r, y in pairs], axis=0))
    near, pi = fitted.fall_off_, fitted.confusion_
    habits = np.column_stack([fitted.bias_, fitted.slope_, np.log(fitted.spread_)])
    typical = ordinal._typical(habits)
    total += ordinal._log_normal(habits, typical).sum() - 0.5 * typical**2
    total += 5 * np.log(fitted.class_prior_).sum()
    total -= strength * (near * np.log(near / pi)).sum()
    assert fitted.objective_history_[-1] == pytest.approx(total, rel=1e-6)


def test_matrices_are_drawn_to_the_fall_off_not_forced() -> None:
    crowd, _ = ordinal_crowd(n_tasks=200, labels_per_annotator=200, labels_per_task=6, seed=3)
    loose, firm = (Ordinal(strength=kappa).fit(crowd) for kappa in (1.0, 1e6))
    np.testing.assert_allclose(firm.confusion_, firm.fall_off_, atol=1e-4)
    assert np.abs(loose.confusion_ - loose.fall_off_).max() > 0.1


# -------------------------------------------------------------------- what it finds


def test_it_recovers_how_annotators_grade() -> None:
    """400 labels each, eight per task: bias, slope and spread, and the matrices."""
    crowd, truth = ordinal_crowd(n_tasks=800, labels_per_annotator=400, labels_per_task=8, n_levels=7, seed=0)
    fitted = Ordinal().fit(crowd)
    # A crowd whose annotators all have a bias looks like one with another truth: the mean is not identified.
    shift = (fitted.bias_ - truth.bias).mean()
    apart = np.abs(fitted.bias_ - shift - truth.bias)
    assert (apart < 0.1 + 0.15 * truth.spread).all()  # who scatters widely shows the bias less clearly
    assert apart.mean() < 0.1
    # Nor is the mean of the slopes, which stretches the scale.
    apart = np.abs(fitted.slope_ / fitted.slope_.mean() - truth.slope / truth.slope.mean())
    assert (apart < 0.05 + 0.1 * truth.spread).all()
    assert apart.mean() < 0.06
    assert fitted.slope_.mean() == pytest.approx(truth.slope.mean(), abs=0.1)
    np.testing.assert_allclose(np.log(fitted.spread_), np.log(truth.spread), atol=0.2)
    assert abs(shift) < 0.25
    assert np.abs(fitted.confusion_ - truth.confusion).mean() < 0.03
    assert np.abs(fitted.fall_off_ - truth.confusion).mean() < 0.03


@pytest.mark.parametrize("fall_off", ["discrete", "rounded"])
def test_few_labels_per_annotator(fall_off: Any) -> None:
    """Also where the generator is not the model."""
    crowd, truth = ordinal_crowd(n_tasks=400, labels_per_annotator=10, seed=2, fall_off=fall_off)
    wanted = truth.z + 1
    found = [model.fit(crowd).scores_["median"] for model in (Ordinal(), DawidSkene())]
    ours, theirs = (mean_absolute_error(wanted, each) for each in found)
    labels = np.array([np.median(crowd.labels[crowd.indptr[i] : crowd.indptr[i + 1]]) + 1 for i in range(400)])
    assert ours < 0.85 * mean_absolute_error(wanted, labels)
    assert ours < 0.75 * theirs


def test_intervals_hold_the_true_level() -> None:
    crowd, truth = ordinal_crowd(n_tasks=1000, labels_per_annotator=20, n_levels=7, seed=5)
    found = Ordinal().fit(crowd).scores_
    low, high = found["low"].to_numpy(), found["high"].to_numpy()
    assert np.mean((low <= truth.z + 1) & (truth.z + 1 <= high)) > 0.9
    assert (high - low).mean() < 4


def test_a_judge_who_never_gives_the_ends() -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(5, size=300)
    noise = rng.integers(-1, 2, size=(300, 4)) * (rng.random((300, 4)) < 0.4)
    matrix = np.clip(z[:, None] + noise, 0, 4)
    matrix[:, 0] = np.clip(matrix[:, 0], 1, 3)
    fitted = Ordinal().fit(Annotations.from_matrix(matrix))
    assert fitted.slope_[0] < fitted.slope_[1:].min() - 0.1
    assert (fitted.codes_ == z).mean() > 0.85


# -------------------------------------------------------------------- classes


def test_classes_without_an_order_are_refused_with_the_remedy() -> None:
    crowd = Annotations.from_matrix([["bad", "good"], ["fair", "fair"]])
    with pytest.raises(InputError, match="order of the classes 'bad', 'fair', 'good'"):
        Ordinal().fit(crowd)
    fitted = Ordinal().fit(crowd.as_ordinal(["bad", "fair", "good"]))
    assert fitted.annotations_.ordinal
    assert fitted.scores_["median"].to_pylist()[1] == "fair"


def test_the_order_in_which_classes_are_listed_does_not_matter() -> None:
    crowd, _ = ordinal_crowd(n_tasks=80, labels_per_annotator=20, seed=7)
    matrix = crowd.to_matrix()
    other = Annotations.from_matrix(np.where(matrix >= 0, matrix + 1, -1), classes=[3, 1, 5, 2, 4])
    one, two = (Ordinal(strength=30.0, guard="off").fit(each) for each in (crowd, other))
    np.testing.assert_allclose(two.probas_, one.probas_[:, [2, 0, 4, 1, 3]], atol=1e-9)
    np.testing.assert_allclose(two.bias_, one.bias_, atol=1e-9)
    assert two.scores_["low"].to_pylist() == one.scores_["low"].to_pylist()


def test_the_strength_is_chosen_by_held_out_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Annotators with confusion of their own and many labels need their own matrices."""
    rng = np.random.default_rng(1)
    own = rng.dirichlet(np.full(4, 0.15), size=(4, 4)) * 0.4 + 0.6 * np.eye(4)
    z = rng.integers(4, size=900)
    labels = np.stack([[rng.choice(4, p=own[r, c]) for c in z] for r in range(4)], axis=1)
    odd = Ordinal().fit(Annotations.from_matrix(labels))
    alike = Ordinal().fit(ordinal_crowd(n_tasks=300, n_levels=4, seed=1)[0])
    assert odd.strength_ < alike.strength_ == 1000.0
    assert (odd.codes_ == z).mean() > 0.75
