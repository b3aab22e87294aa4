"""Multidimensional annotators against slow loops, crowds of their own kind, and known figures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from conal.aggregation import MajorityVote, Multidimensional
from conal.aggregation.counts import Votes
from conal.aggregation.multidimensional import Question
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import ConvergenceWarning, InputError
from helpers.crowds import graded_crowd, sparse_crowd
from helpers.real import labelled_crowd


def slow_objective(crowd: Annotations, c: int, known: dict[int, int], space: Any) -> tuple[float, list[float]]:
    """The log-posterior of the question whether tasks are of class c, and P(yes), one number after the other."""
    matrix, C, D = crowd.to_matrix(), crowd.n_classes, space.x.shape[1]
    total = 0.0
    yes = []
    for i, x in enumerate(space.x):
        near = []
        for sign, share in ((-1, 1 - 1 / max(C, 2)), (1, 1 / max(C, 2))):
            distance = sum((v - sign / math.sqrt(D)) ** 2 for v in x)
            near.append(share * math.exp(-distance / (2 * 0.8**2)))
        if i in known:
            near[0 if known[i] == c else 1] = 0.0
        total += math.log(sum(near))
        yes.append(near[1] / sum(near))
        for r, y in enumerate(matrix[i]):
            if y >= 0:
                beyond = sum(a * b for a, b in zip(space.w[r], x, strict=True)) - space.tau[r]
                total += math.log(norm.cdf(beyond if y == c else -beyond))
    total -= sum((v - 1) ** 2 for v in space.w.ravel()) / 2 + sum(t**2 for t in space.tau) / (2 * 3.0**2)
    return total, yes


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_objective_and_gradient_agree_with_slow_loops(seed: int, D: int) -> None:
    crowd, known = sparse_crowd(seed), {2: 0, 4: 1}
    codes = np.full(crowd.n_tasks, MISSING)
    codes[list(known)] = list(known.values())
    question = Question(Multidimensional(n_dims=D), Votes(crowd), 1, codes)
    flat = np.random.default_rng(seed).normal(size=len(question.start(np.random.default_rng(0)).flat()))
    expected, yes = slow_objective(crowd, 1, known, question.space(flat))
    loss, gradient = question.loss(flat)
    assert -loss == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(question.places(question.space(flat).x)[1], yes, atol=1e-10)
    h = 1e-6
    for k in range(len(flat)):
        up, down = flat.copy(), flat.copy()
        up[k], down[k] = flat[k] + h, flat[k] - h
        assert gradient[k] == pytest.approx((question.loss(up)[0] - question.loss(down)[0]) / (2 * h), abs=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_different_starts_lead_to_the_same_labels(seed: int) -> None:
    frame, _ = labelled_crowd("bluebird")
    one, two = (Multidimensional(n_dims=2, seed=s, tol=1e-13).fit(frame) for s in (0, seed + 1))
    assert one.converged_
    np.testing.assert_allclose(two.objective_, one.objective_, rtol=1e-7)
    np.testing.assert_allclose(two.probas_, one.probas_, atol=1e-3)


def test_annotators_who_look_at_different_things_are_told_apart() -> None:
    """Half of them judge by one dimension, half by the other; the truth is the sum of both."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=300)
    x = (2 * z - 1)[:, None] / np.sqrt(2) + 0.8 * rng.normal(size=(300, 2))
    w = np.repeat([[2.5, 0.2], [0.2, 2.5]], 8, axis=0)
    labels = (x @ w.T + rng.normal(size=(300, 16)) > 0).astype(int)
    fitted = Multidimensional(n_dims=2).fit(labels)
    side = (x.sum(1) > 0).astype(int)  # the most that labels can tell
    assert (fitted.codes_ == side).mean() > 0.93
    first, second = fitted.w_[0, :8].mean(0), fitted.w_[0, 8:].mean(0)
    assert (first - second)[0] * (first - second)[1] < 0
    assert np.abs(first - second).min() > 0.5


def test_several_classes() -> None:
    rng = np.random.default_rng(1)
    z = rng.integers(4, size=300)
    skill = np.repeat([0.9, 0.3], [6, 10])
    matrix = np.where(rng.random((300, 16)) < skill, z[:, None], rng.integers(4, size=(300, 16)))
    fitted = Multidimensional().fit(matrix)
    assert fitted.x_.shape == (4, 300, 1)
    assert (fitted.codes_ == z).mean() >= (MajorityVote().fit(matrix).codes_ == z).mean()


def test_too_few_steps_are_told() -> None:
    with pytest.warns(ConvergenceWarning, match="has not converged after 2 steps"):
        fitted = Multidimensional(n_iter=2).fit(graded_crowd(0, n_classes=2))
    assert not fitted.converged_
    assert Multidimensional().fit(graded_crowd(0, n_classes=2)).converged_


def test_published_accuracy() -> None:
    """Of the comparison of Zheng et al. (2017): 95.7 on sentiment, and 88.7 on product.

    They do not say how many dimensions they took; on product, one and two are on either side of their figure.
    """

    def accuracy(name: str, n_dims: int) -> float:
        frame, truth = labelled_crowd(name)
        fitted = Multidimensional(n_dims=n_dims, guard="off", tol=1e-6).fit(frame)
        return float(100 * np.mean(fitted.labels_ == truth[fitted.task_ids_].to_numpy()))

    assert accuracy("sentiment", 1) == pytest.approx(95.7, abs=1.0)
    assert accuracy("product", 2) - 1 < 88.7 < accuracy("product", 1) + 1


@pytest.mark.parametrize("settings", [{"n_dims": 0}, {"sigma_x": 0.0}, {"sigma_w": -1.0}, {"sigma_tau": 0.0}])
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(settings))} must be"):
        Multidimensional(**settings).fit(graded_crowd(0))
