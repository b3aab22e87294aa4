"""Enhanced BCC against slow loops and a directly summed lower bound, on crowds that err together, and known figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma
from scipy.stats import dirichlet

from conal.aggregation import BayesianDawidSkene, EnhancedBCC
from conal.aggregation.clustering import TINY, Subtypes
from conal.aggregation.counts import Votes
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import InputError
from helpers.crowds import graded_crowd, sparse_crowd
from helpers.real import labelled_crowd

pytestmark = [
    pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning"),
    pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning"),
]


def elog(alpha: Any) -> Any:
    return digamma(alpha) - digamma(alpha.sum())


def log_expectation(alpha: Any, prior: Any) -> float:
    """E log Dirichlet(p; prior) plus entropy, under Dirichlet(alpha): -KL, by scipy's entropy."""
    from scipy.special import gammaln

    log_density = gammaln(prior.sum()) - gammaln(prior).sum() + ((prior - 1) * elog(alpha)).sum()
    return float(log_density + dirichlet.entropy(alpha))


def slow_iteration(crowd: Annotations, q: Any, within: Any, uniform: bool) -> tuple[Subtypes, Any, float]:
    """The updates one number after the other, and the bound, summed as it is defined."""
    matrix, N, R, C = crowd.to_matrix(), crowd.n_tasks, crowd.n_annotators, crowd.n_classes
    M = within.shape[2]
    joint = q[:, :, None] * within
    votes = [[np.mean(row[row >= 0] == c) if (row >= 0).any() else 1 / C for c in range(C)] for row in matrix]
    classes = np.ones(C) if uniform else np.sum(votes, axis=0) + TINY
    tau = np.array([classes[c] + sum(q[i, c] for i in range(N)) for c in range(C)])
    eta = np.array([[0.1 / M + sum(joint[i, c, m] for i in range(N)) for m in range(M)] for c in range(C)])
    nu = np.ones((R, C, M, C)) + 3 * np.eye(C)[:, None, :]
    for i in range(N):
        for r in range(R):
            if (y := matrix[i, r]) >= 0:
                nu[r, :, :, y] += joint[i]
    new = np.zeros((N, C, M))
    for i in range(N):
        for c in range(C):
            for m in range(M):
                labels = [(r, y) for r, y in enumerate(matrix[i]) if y >= 0]
                log = elog(tau)[c] + elog(eta[c])[m] + sum(elog(nu[r, c, m])[y] for r, y in labels)
                new[i, c, m] = np.exp(log)
    bound = np.log(new.sum((1, 2))).sum() + log_expectation(tau, classes)
    bound += sum(log_expectation(eta[c], np.full(M, 0.1 / M)) for c in range(C))
    prior = 1 + 3 * np.eye(C)
    bound += sum(log_expectation(nu[r, c, m], prior[c]) for r in range(R) for c in range(C) for m in range(M))
    return Subtypes(classes, tau, eta, nu), new / new.sum((1, 2), keepdims=True), float(bound)


@pytest.mark.parametrize("class_prior", ["votes", "uniform"])
@pytest.mark.parametrize("seed", range(3))
def test_an_iteration_agrees_with_slow_loops(seed: int, class_prior: Any) -> None:
    crowd = sparse_crowd(seed)
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(3), size=crowd.n_tasks)
    within = rng.dirichlet(np.ones(4), size=(crowd.n_tasks, 3))
    model = EnhancedBCC(n_subtypes=4, class_prior=class_prior)
    engine = model.engine(Votes(crowd), np.full(crowd.n_tasks, MISSING))
    parameters = model._fitted(engine.votes, engine.start(q.copy()), within)
    expectation, objective = model._e_step(engine, parameters)
    expected, joint, bound = slow_iteration(crowd, q, within, class_prior == "uniform")
    for name in ("classes", "tau", "eta", "nu"):
        np.testing.assert_allclose(getattr(parameters, name), getattr(expected, name), atol=1e-10)
    assert parameters.within is not None
    np.testing.assert_allclose(expectation.posterior[:, :, None] * parameters.within, joint, atol=1e-10)
    np.testing.assert_allclose(objective, bound, rtol=1e-10)


@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(1, 4),
    n_subtypes=st.integers(1, 6),
    class_prior=st.sampled_from(["votes", "uniform"]),
    known=st.integers(0, 5),
)
@settings(max_examples=25, deadline=None)
def test_the_lower_bound_never_falls(seed: int, n_classes: int, n_subtypes: int, class_prior: Any, known: int) -> None:
    crowd = sparse_crowd(seed, n_classes=n_classes)
    model = EnhancedBCC(
        n_subtypes=n_subtypes, class_prior=class_prior, n_iter=30, tol=0, n_restarts=1 + seed % 3, seed=seed
    )
    fitted = model.fit(crowd, true_labels=dict.fromkeys(range(known), n_classes - 1))
    assert (np.diff(fitted.objective_history_) >= -1e-8).all()
    np.testing.assert_array_equal(fitted.probas_[:known], np.eye(n_classes)[[n_classes - 1] * known])
    assert (np.diff(fitted.subtype_shares_, axis=1) <= 1e-12).all()
    mixed = np.einsum("cm,rcml->rcl", fitted.subtype_shares_, fitted.subtype_confusion_)
    np.testing.assert_allclose(fitted.confusion_, mixed, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_one_subtype_is_bayesian_dawid_skene(seed: int) -> None:
    crowd = graded_crowd(seed)
    one = EnhancedBCC(n_subtypes=1, class_prior="uniform", n_iter=2000, tol=1e-13).fit(crowd)
    two = BayesianDawidSkene(prior_right=4.0, prior_wrong=1.0, n_iter=2000, tol=1e-13).fit(crowd)
    np.testing.assert_allclose(one.probas_, two.probas_, atol=1e-6)
    np.testing.assert_allclose(one.confusion_, two.confusion_, atol=1e-6)


def test_subtypes_are_recovered() -> None:
    """Three tenths of class 1 mislead four of twelve annotators, who then say 0."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=800)
    hard = (z == 1) & (rng.random(800) < 0.3)
    right = np.where(hard[:, None], np.repeat([0.05, 0.9], [4, 8]), 0.85)
    fitted = EnhancedBCC().fit(np.where(rng.random((800, 12)) < right, z[:, None], 1 - z[:, None]))
    assert (fitted.codes_ == z).mean() > 0.97
    shares, right_on_1 = fitted.subtype_shares_[1], fitted.subtype_confusion_[:, 1, :, 1]
    misled = right_on_1[:4].mean(0) < 0.3
    np.testing.assert_allclose(shares[misled].sum(), hard.sum() / (z == 1).sum(), atol=0.05)
    largest = np.flatnonzero(misled)[0]
    np.testing.assert_allclose(right_on_1[:4, largest], 0.05, atol=0.08)
    np.testing.assert_allclose(right_on_1[4:, largest], 0.9, atol=0.12)


def test_restarts_keep_the_highest_bound_and_are_seeded() -> None:
    crowd = graded_crowd(2)
    single = EnhancedBCC(n_restarts=1, seed=5).fit(crowd)
    many, again = (EnhancedBCC(n_restarts=6, seed=5).fit(crowd) for _ in range(2))
    assert many.objective_history_[-1] >= single.objective_history_[-1]
    np.testing.assert_array_equal(many.probas_, again.probas_)


def test_the_order_of_annotators_does_not_matter() -> None:
    """Subtypes start at random by task and class, so only annotators may be moved."""
    crowd = graded_crowd(1)
    order = np.random.default_rng(0).permutation(crowd.n_annotators)
    moved = Annotations.from_matrix(crowd.to_matrix()[:, order], classes=range(3))
    one, two = (EnhancedBCC(n_restarts=1, tol=1e-11, n_iter=2000).fit(data) for data in (crowd, moved))
    np.testing.assert_allclose(two.probas_, one.probas_, atol=1e-6)
    np.testing.assert_allclose(two.confusion_, one.confusion_[order], atol=1e-6)


KNOWN = {"bluebird": 86.1, "dog": 84.1, "face": 62.7, "product": 93.5, "sentiment": 96.0}
"""Accuracy by the authors' own code with ten subtypes: of three seeds, that of the highest bound."""


@pytest.mark.parametrize("name", KNOWN)
def test_accuracy_of_the_authors_code(name: str) -> None:
    """Within a point, or two of bluebird's 108 tasks: the highest bound of three starts depends on the starts."""
    frame, truth = labelled_crowd(name)
    fitted = EnhancedBCC().fit(frame)
    found = 100 * np.mean(fitted.labels_ == truth[fitted.task_ids_].to_numpy())
    assert abs(found - KNOWN[name]) <= max(1.0, 205 / len(truth))


@pytest.mark.parametrize(
    "settings", [{"n_subtypes": 0}, {"prior_subtypes": 0.0}, {"prior_right": -1.0}, {"class_prior": "flat"}]
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(settings))} must be"):
        EnhancedBCC(**settings).fit(graded_crowd(0))
