"""Minimax conditional entropy against slow loops, a general optimiser, crowds of its own kind, and known figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from conal.aggregation import DawidSkene, MajorityVote, MinimaxEntropy
from conal.aggregation import minimax_entropy as scores
from conal.aggregation.counts import Votes
from conal.aggregation.minimax_entropy import GAMMAS, Scores
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import InputError
from helpers.crowds import graded_crowd, sparse_crowd
from helpers.real import labelled_crowd

pytestmark = [
    pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning"),
    pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning"),
]


def probability(row: Any, label: int) -> float:
    odds = [np.exp(score) for score in row]
    return float(odds[label] / sum(odds))


def slow_joint(crowd: Annotations, sigma: Any, tau: Any) -> Any:
    """P(z_i = c, labels of task i), one label after the other."""
    matrix, C = crowd.to_matrix(), crowd.n_classes
    joint = np.full((crowd.n_tasks, C), 1 / C)
    for i, row in enumerate(matrix):
        for c in range(C):
            for r, y in enumerate(row):
                if y >= 0:
                    joint[i, c] *= probability(sigma[r, c] + tau[i, c], y)
    return joint


def slow_objective(crowd: Annotations, sigma: Any, tau: Any, alpha: float, beta: float) -> float:
    penalties = alpha / 2 * sum(x**2 for x in sigma.ravel()) + beta / 2 * sum(x**2 for x in tau.ravel())
    return float(np.log(slow_joint(crowd, sigma, tau).sum(1)).sum() - penalties)


def slow_newton(entries: list[tuple[int, float, Any]], own: Any, penalty: float) -> Any:
    """A Newton step on one row of scores; ``entries`` are label, weight and the other scores. Halved if it falls."""

    def objective(x: Any) -> float:
        fit = sum(weight * np.log(probability(x + other, y)) for y, weight, other in entries)
        return float(fit - penalty / 2 * sum(x**2))

    C = len(own)
    gradient, curvature = -penalty * own, penalty * np.eye(C)
    for y, weight, other in entries:
        p = np.array([probability(own + other, k) for k in range(C)])
        gradient = gradient + weight * (np.eye(C)[y] - p)
        curvature = curvature + weight * (np.diag(p) - np.outer(p, p))
    step = np.linalg.inv(curvature) @ gradient
    while objective(own + step) < objective(own) - 1e-12:
        step = step / 2
    return own + step


def slow_m_step(crowd: Annotations, q: Any, old: Scores) -> tuple[Any, Any]:
    matrix, (N, R, C) = crowd.to_matrix(), (crowd.n_tasks, crowd.n_annotators, crowd.n_classes)
    sigma, tau = old.sigma.copy(), old.tau.copy()
    for c in range(C):
        for r in range(R):
            mine = [(matrix[i, r], q[i, c], old.tau[i, c]) for i in range(N) if matrix[i, r] >= 0]
            sigma[r, c] = slow_newton(mine, old.sigma[r, c], old.alpha)
        for i in range(N):
            mine = [(matrix[i, r], q[i, c], sigma[r, c]) for r in range(R) if matrix[i, r] >= 0]
            tau[i, c] = slow_newton(mine, old.tau[i, c], old.beta)
    return sigma, tau


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("size", [0.3, 3.0])  # large scores make steps that must be halved
@pytest.mark.parametrize("seed", range(2))
def test_an_iteration_agrees_with_slow_loops(
    seed: int, size: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scores, "COMPILED_FROM", 0 if compiled else 10**9)
    crowd = sparse_crowd(seed)
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(3), size=crowd.n_tasks)
    old = Scores(size * rng.normal(size=(5, 3, 3)), size * rng.normal(size=(15, 3, 3)), 0.3, 0.8)
    model = MinimaxEntropy(gamma=0.5)
    engine = model.engine(Votes(crowd), np.full(crowd.n_tasks, MISSING))
    parameters = model._m_step(engine.votes, engine.start(q.copy()), old)
    expectation, objective = model._e_step(engine, parameters)
    sigma, tau = slow_m_step(crowd, q, old)
    np.testing.assert_allclose(parameters.sigma, sigma, atol=1e-10)
    np.testing.assert_allclose(parameters.tau, tau, atol=1e-10)
    joint = slow_joint(crowd, sigma, tau)
    np.testing.assert_allclose(expectation.posterior, joint / joint.sum(1, keepdims=True), atol=1e-10)
    np.testing.assert_allclose(objective, slow_objective(crowd, sigma, tau, 0.3, 0.8), rtol=1e-10)


@pytest.mark.parametrize("seed", [1])
def test_a_general_optimiser_finds_nothing_better_nearby(seed: int) -> None:
    crowd = graded_crowd(seed, n_tasks=8, n_annotators=4, share=0.8)
    fitted = MinimaxEntropy(gamma=0.4, n_iter=2000, tol=1e-13).fit(crowd)
    alpha = (0.4 * 3) ** 2
    beta = alpha * np.sum(crowd.labels_per_task() > 0) / np.sum(crowd.labels_per_annotator() > 0)
    start = np.concatenate([fitted.sigma_.ravel(), fitted.tau_.ravel()])

    def loss(x: Any) -> float:
        return -slow_objective(crowd, x[: 4 * 9].reshape(4, 3, 3), x[4 * 9 :].reshape(8, 3, 3), alpha, beta)

    assert -loss(start) == pytest.approx(fitted.objective_history_[-1], rel=1e-10)
    slope = [(loss(start + 1e-5 * d) - loss(start - 1e-5 * d)) / 2e-5 for d in np.eye(len(start))]
    np.testing.assert_allclose(slope, 0, atol=1e-5)
    assert minimize(loss, start, method="L-BFGS-B", options={"maxiter": 3}).fun > loss(start) - 1e-7
    assert np.abs(fitted.tau_).max() > 0.1


@given(seed=st.integers(0, 10_000), n_classes=st.integers(1, 4), gamma=st.floats(0.01, 3.0), known=st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_the_objective_never_falls(seed: int, n_classes: int, gamma: float, known: int) -> None:
    crowd = sparse_crowd(seed, n_classes=n_classes)
    model = MinimaxEntropy(gamma=gamma, n_iter=8, tol=0, n_restarts=1 + seed % 2, seed=seed)
    fitted = model.fit(crowd, true_labels=dict.fromkeys(range(known), n_classes - 1))
    assert (np.diff(fitted.objective_history_) >= -1e-9).all()
    np.testing.assert_array_equal(fitted.probas_[:known], np.eye(n_classes)[[n_classes - 1] * known])
    np.testing.assert_array_equal(fitted.sigma_[0], 0)  # no labels
    np.testing.assert_array_equal(fitted.tau_[0], 0)


def test_gamma_is_chosen_by_held_out_labels() -> None:
    crowd = graded_crowd(0, n_tasks=200)
    fitted = MinimaxEntropy().fit(crowd)
    assert fitted.gamma_ in GAMMAS
    np.testing.assert_array_equal(fitted.probas_, MinimaxEntropy(gamma=fitted.gamma_).fit(crowd).probas_)
    assert MinimaxEntropy(gamma=0.7).fit(crowd).gamma_ == 0.7


def test_scores_of_tasks_are_recovered() -> None:
    """A crowd of its own kind: tasks that tempt annotators of graded ability to particular mistakes."""
    rng = np.random.default_rng(0)
    N, R, C = 300, 20, 3
    z = rng.integers(C, size=N)
    tempting = rng.normal(0, 1.5, size=(N, C, C))
    odds = np.linspace(0.5, 3.0, R)[:, None] * np.eye(C)[z][:, None, :] + tempting[np.arange(N), z][:, None, :]
    labels = (odds + rng.gumbel(size=odds.shape)).argmax(2)
    fitted = MinimaxEntropy().fit(labels)
    assert (fitted.codes_ == z).mean() > (MajorityVote().fit(labels).codes_ == z).mean()
    found, true = (parts[np.arange(N), z] for parts in (fitted.tau_, tempting))
    known = fitted.codes_ == z
    assert np.corrcoef(found[known].ravel(), (true - true.mean(1, keepdims=True))[known].ravel())[0, 1] > 0.6


KNOWN = {"bluebird": 91.7, "dog": 84.6, "product": 84.1, "sentiment": 95.8}
"""Published accuracy: of the authors for the first two, of the comparison of Zheng et al. (2017) for the others."""


@pytest.mark.parametrize("name", KNOWN)
def test_published_accuracy(name: str) -> None:
    """With the authors' gamma, within a point."""
    frame, truth = labelled_crowd(name)
    fitted = MinimaxEntropy(gamma=0.5, guard="off").fit(frame)
    found = 100 * np.mean(fitted.labels_ == truth[fitted.task_ids_].to_numpy())
    assert abs(found - KNOWN[name]) <= 1.0


def test_it_is_better_than_dawid_skene_where_tasks_mislead() -> None:
    frame, truth = labelled_crowd("bluebird")
    ours, matrices = (model.fit(frame) for model in (MinimaxEntropy(), DawidSkene()))
    right, right_before = (np.mean(m.labels_ == truth[m.task_ids_].to_numpy()) for m in (ours, matrices))
    assert right > right_before


@pytest.mark.parametrize("gamma", [0.0, -1.0, "large"])
def test_impossible_settings_are_refused(gamma: Any) -> None:
    with pytest.raises(InputError, match="gamma must be"):
        MinimaxEntropy(gamma=gamma).fit(graded_crowd(0))
