"""Fast Dawid-Skene against loops over plain numbers, its objective, and what it is for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conal.aggregation import DawidSkene, FastDawidSkene
from conal.data.annotations import Annotations
from helpers.crowds import graded_crowd

pytestmark = [
    pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning"),
    pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning"),
]


def textbook(crowd: Annotations, iterations: int, alpha: float) -> tuple[Any, Any, Any, list[float]]:
    """Count the assigned classes, assign the most probable ones, and again."""
    N, R, C = crowd.n_tasks, crowd.n_annotators, crowd.n_classes
    matrix = crowd.to_matrix()
    assigned = [int(np.argmax([(row == c).sum() for c in range(C)])) for row in matrix]
    objectives = []
    for _ in range(iterations + 1):
        rho = [sum(z == c for z in assigned) / N for c in range(C)]
        pi = np.full((R, C, C), 1 / C)
        for r in range(R):
            for c in range(C):
                own = [matrix[i, r] for i in range(N) if assigned[i] == c and matrix[i, r] >= 0]
                if own or alpha:
                    pi[r, c] = [(sum(y == label for y in own) + alpha) / (len(own) + C * alpha) for label in range(C)]
        joint = np.array(
            [[rho[c] * np.prod([pi[r, c, y] for r, y in enumerate(row) if y >= 0]) for c in range(C)] for row in matrix]
        )
        assigned = [int(np.argmax(row)) for row in joint]
        prior = alpha * np.log(pi).sum() if alpha else 0.0
        objectives.append(float(np.log(joint.max(1)).sum() + prior))
    return joint / joint.sum(1, keepdims=True), np.array(rho), pi, objectives


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_it_agrees_with_the_textbook(seed: int, alpha: float) -> None:
    crowd = graded_crowd(seed)
    fitted = FastDawidSkene(n_iter=4, tol=0, prior=alpha).fit(crowd)
    q, rho, pi, objectives = textbook(crowd, 4, alpha)
    np.testing.assert_allclose(fitted.probas_, q, atol=1e-10)
    np.testing.assert_allclose(fitted.class_prior_, rho, atol=1e-10)
    np.testing.assert_allclose(fitted.confusion_, pi, atol=1e-10)
    np.testing.assert_allclose(fitted.objective_history_, objectives, rtol=1e-10)


@given(seed=st.integers(0, 10_000), prior=st.sampled_from([0.0, 0.1, 2.0]), known=st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_the_objective_never_falls(seed: int, prior: float, known: int) -> None:
    crowd = graded_crowd(seed, n_tasks=15, n_annotators=5, n_classes=2 + seed % 3)
    fitted = FastDawidSkene(prior=prior, n_iter=30, tol=0).fit(crowd, true_labels=dict.fromkeys(range(known), 0))
    assert (np.diff(fitted.objective_history_) >= -1e-9).all()
    assert np.isfinite(fitted.objective_history_).all()
    np.testing.assert_array_equal(fitted.probas_[:known], np.eye(crowd.n_classes)[[0] * known])


def test_it_ends_early_near_dawid_skene() -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=1000)
    right = rng.random((1000, 8)) < np.linspace(0.5, 0.85, 8)
    matrix = np.where(right, z[:, None], (z[:, None] + rng.integers(1, 3, size=right.shape)) % 3)
    fast, slow = FastDawidSkene(tol=1e-12).fit(matrix), DawidSkene(accelerate=False, tol=1e-12, n_iter=1000).fit(matrix)
    assert fast.converged_
    assert fast.n_iter_ < slow.n_iter_ / 2
    assert (fast.codes_ == z).mean() > (slow.codes_ == z).mean() - 0.02
