"""Variational Dawid-Skene: every step and the bound against loops, and crowds of few labels each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma, rel_entr
from scipy.stats import dirichlet

from conal.aggregation import BayesianDawidSkene, DawidSkene, MajorityVote
from conal.data.annotations import Annotations
from conal.errors import ConvergenceWarning, InputError
from helpers.crowds import graded_crowd

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")


def by_loops(crowd: Annotations, right: float, wrong: float, iterations: int) -> tuple[Any, Any, Any]:
    """Posterior, Dirichlet parameters of the matrices and of the class prior, with loops over plain numbers."""
    N, R, C = crowd.n_tasks, crowd.n_annotators, crowd.n_classes
    matrix = crowd.to_matrix()
    q = np.array([[np.mean(row[row >= 0] == c) if (row >= 0).any() else 1 / C for c in range(C)] for row in matrix])
    for _ in range(iterations + 1):
        alpha = np.full((R, C, C), wrong)
        for r in range(R):
            for c in range(C):
                alpha[r, c, c] += right - wrong
                for i in range(N):
                    if matrix[i, r] >= 0:
                        alpha[r, c, matrix[i, r]] += q[i, c]
        beta = 1 + q.sum(0)
        log_q = np.tile(digamma(beta) - digamma(beta.sum()), (N, 1))
        for i in range(N):
            for r in range(R):
                if matrix[i, r] >= 0:
                    log_q[i] += digamma(alpha[r, :, matrix[i, r]]) - digamma(alpha[r].sum(-1))
        q = np.exp(log_q) / np.exp(log_q).sum(1, keepdims=True)
    return q, alpha, beta


def test_steps_by_loops() -> None:
    crowd = graded_crowd(3, 14, 5, 3)
    with pytest.warns(ConvergenceWarning):
        fitted = BayesianDawidSkene(prior_right=2.5, prior_wrong=0.6, n_iter=4, tol=0).fit(crowd)
    q, alpha, beta = by_loops(crowd, 2.5, 0.6, 4)
    np.testing.assert_allclose(fitted.probas_, q, atol=1e-10)
    np.testing.assert_allclose(fitted.confusion_, alpha / alpha.sum(-1, keepdims=True), atol=1e-10)
    np.testing.assert_allclose(fitted.class_prior_, beta / beta.sum(), atol=1e-10)


def test_the_objective_is_the_evidence_lower_bound() -> None:
    """E[log p(y, z, rho, pi)] - E[log q], the entropies of the Dirichlets taken from SciPy."""
    crowd = graded_crowd(4, 14, 5, 3)
    with pytest.warns(ConvergenceWarning):
        fitted = BayesianDawidSkene(prior_right=2.5, prior_wrong=0.6, n_iter=4, tol=0).fit(crowd)
    q, alpha, beta = by_loops(crowd, 2.5, 0.6, 4)

    def expected_log(a: npt.NDArray[np.float64]) -> Any:
        return digamma(a) - digamma(a.sum())

    def cross(prior: npt.NDArray[np.float64], a: npt.NDArray[np.float64]) -> Any:
        """E[log Dirichlet(p; prior)] under Dirichlet(a), by the density at an arbitrary point and a correction."""
        at = np.full(len(prior), 1 / len(prior))
        return dirichlet.logpdf(at, prior) + ((prior - 1) * (expected_log(a) - np.log(at))).sum()

    bound = (q * expected_log(beta)).sum() - rel_entr(q, 1).sum()
    for i, r, y in zip(crowd.tasks, crowd.annotators, crowd.labels, strict=True):
        bound += sum(q[i, c] * expected_log(alpha[r, c])[y] for c in range(3))
    bound += cross(np.ones(3), beta) + dirichlet.entropy(beta)
    for r in range(5):
        for c in range(3):
            prior = np.where(np.arange(3) == c, 2.5, 0.6)
            bound += cross(prior, alpha[r, c]) + dirichlet.entropy(alpha[r, c])
    assert fitted.objective_history_[-1] == pytest.approx(bound, rel=1e-10)


@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
@given(
    seed=st.integers(0, 10_000),
    priors=st.sampled_from([(3.0, 1.0), (1.0, 1.0), (0.3, 0.1), (1.0, 5.0)]),
    known=st.integers(0, 5),
)
@settings(max_examples=25, deadline=None)
def test_the_bound_never_falls(seed: int, priors: tuple[float, float], known: int) -> None:
    crowd = graded_crowd(seed, 15, 5, 2 + seed % 3)
    model = BayesianDawidSkene(prior_right=priors[0], prior_wrong=priors[1], n_iter=30, tol=0, n_restarts=1 + seed % 2)
    fitted = model.fit(crowd, true_labels=dict.fromkeys(range(known), 0))
    assert (np.diff(fitted.objective_history_) >= -1e-9).all()
    np.testing.assert_allclose(fitted.probas_.sum(1), np.ones(15))
    np.testing.assert_array_equal(fitted.probas_[:known, 0], np.ones(known))


def test_perfect_annotators_give_the_truth() -> None:
    z = np.arange(30) % 3
    fitted = BayesianDawidSkene().fit(np.repeat(z[:, None], 4, axis=1))
    assert (fitted.codes_ == z).all()
    np.testing.assert_allclose(fitted.confusion_[:, 0], np.tile([13 / 15, 1 / 15, 1 / 15], (4, 1)), atol=1e-3)
    assert fitted.converged_


def sparse_crowd(seed: int) -> tuple[Annotations, npt.NDArray[np.int64]]:
    """200 annotators of very different quality, three labels a task, 15 labels an annotator."""
    rng = np.random.default_rng(seed)
    z = rng.integers(4, size=1000)
    pi = np.array(
        [[rng.dirichlet(0.7 + rng.choice([1.0, 3.0, 6.0]) * np.eye(4)[c]) for c in range(4)] for _ in range(200)]
    )
    matrix = np.full((1000, 200), -1)
    for i in range(1000):
        for r in rng.choice(200, 3, replace=False):
            matrix[i, r] = rng.choice(4, p=pi[r, z[i]])
    return Annotations.from_matrix(matrix, classes=range(4)), z


def test_few_labels_each_are_its_place() -> None:
    gains = []
    for seed in range(4):
        crowd, z = sparse_crowd(seed)
        bayes, likelihood, votes = (
            (model.fit(crowd).codes_ == z).mean() for model in (BayesianDawidSkene(), DawidSkene(), MajorityVote())
        )
        gains.append((bayes - likelihood, bayes - votes))
    assert np.min(gains) > 0.01


@pytest.mark.parametrize(
    "matrix",
    [
        np.arange(6)[:, None] % 2,  # one annotator
        np.where(np.eye(6) > 0, np.arange(6)[:, None] % 2, -1),  # one label per task, as many annotators as tasks
        np.zeros((4, 3), dtype=int),  # one class
        np.repeat(np.arange(10)[:, None] % 3, 10, axis=1),  # ten identical annotators
    ],
)
def test_hard_crowds(matrix: npt.NDArray[np.int64]) -> None:
    fitted = BayesianDawidSkene().fit(matrix)
    for values in (fitted.probas_, fitted.confusion_, fitted.skills_):
        assert np.isfinite(values).all()
    np.testing.assert_allclose(fitted.probas_.sum(1), np.ones(len(matrix)))


@pytest.mark.parametrize("options", [{"prior_right": 0}, {"prior_wrong": -1.0}, {"prior_right": float("inf")}])
def test_priors_that_cannot_be_meant(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(options))} must be a finite number above 0"):
        BayesianDawidSkene(**options).fit(np.zeros((2, 2), dtype=int))
