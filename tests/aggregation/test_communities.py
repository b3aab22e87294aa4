"""Back-off and community BCC against slow loops and a directly summed bound, and on crowds that come in kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma, gammaln

from conal.aggregation import Backoff, BayesianDawidSkene, CommunityBCC, DawidSkene
from conal.aggregation.common_confusion import Communities
from conal.data.annotations import Annotations
from conal.errors import InputError
from helpers.crowds import graded_crowd, sparse_crowd
from helpers.iterations import assert_iteration

pytestmark = [
    pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning"),
    pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning"),
]

RIGHT, WRONG, STRENGTH = 2.5, 0.7, 1.3


def elog(alpha: Any) -> Any:
    return digamma(alpha) - digamma(alpha.sum())


def log_beta(alpha: Any) -> float:
    return float(gammaln(alpha).sum() - gammaln(alpha.sum()))


def slow_m_step(crowd: Annotations, q: Any, old: Communities) -> Communities:
    """Memberships, five fixed-point steps on alpha, and the rest, one number after the other."""
    matrix, N, R, C, K = crowd.to_matrix(), crowd.n_tasks, crowd.n_annotators, crowd.n_classes, len(old.tau)
    n = np.zeros((R, C, C))
    for i in range(N):
        for r in range(R):
            if matrix[i, r] >= 0:
                n[r, :, matrix[i, r]] += q[i]
    members = np.zeros((R, K))
    for r in range(R):
        for k in range(K):
            log = sum(log_beta(old.alpha[k, c] + n[r, c]) - log_beta(old.alpha[k, c]) for c in range(C))
            members[r, k] = old.tau[k] * np.exp(log)
        members[r] /= members[r].sum()
    alpha = old.alpha.copy()
    for _ in range(5):
        new = np.zeros_like(alpha)
        for k in range(K):
            for c in range(C):
                total = alpha[k, c].sum()
                spent = sum(members[r, k] * (digamma(total + n[r, c].sum()) - digamma(total)) for r in range(R))
                for y in range(C):
                    a = alpha[k, c, y]
                    gained = sum(members[r, k] * (digamma(a + n[r, c, y]) - digamma(a)) for r in range(R))
                    mode = RIGHT if c == y else WRONG
                    new[k, c, y] = (a * gained + STRENGTH * mode) / (spent + STRENGTH)
        alpha = new
    tau = members.sum(0) + 0.1
    return Communities(1 + q.sum(0), tau / tau.sum(), alpha, members, n)


def slow_e_step(crowd: Annotations, now: Communities) -> tuple[Any, float]:
    """The posterior, and the bound as it is defined."""
    matrix, N, R, C, K = crowd.to_matrix(), crowd.n_tasks, crowd.n_annotators, crowd.n_classes, len(now.tau)
    joint = np.zeros((N, C))
    for i in range(N):
        for c in range(C):
            log = elog(now.rho)[c]
            for r in range(R):
                if (y := matrix[i, r]) >= 0:
                    own = [elog(now.alpha[k, c] + now.counts[r, c])[y] for k in range(K)]
                    log += sum(now.membership[r, k] * own[k] for k in range(K))
            joint[i, c] = np.exp(log)
    bound = (
        np.log(joint.sum(1)).sum() + log_beta(now.rho) - log_beta(np.ones(C)) - ((now.rho - 1) * elog(now.rho)).sum()
    )
    for r in range(R):
        for k in range(K):
            m = now.membership[r, k]
            bound += m * (np.log(now.tau[k]) - np.log(m))
            for c in range(C):
                prior, own = now.alpha[k, c], now.alpha[k, c] + now.counts[r, c]
                bound += m * (log_beta(own) - log_beta(prior) - ((own - prior) * elog(own)).sum())
    modes = WRONG + (RIGHT - WRONG) * np.eye(C)
    bound += STRENGTH * (modes * np.log(now.alpha) - now.alpha).sum() + 0.1 * np.log(now.tau).sum()
    return joint / joint.sum(1, keepdims=True), float(bound)


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_an_iteration_agrees_with_slow_loops(seed: int, K: int) -> None:
    crowd = sparse_crowd(seed)
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(3), size=crowd.n_tasks)
    old = Communities(
        rng.gamma(2.0, size=3),
        rng.dirichlet(np.ones(K)),
        rng.gamma(2.0, size=(K, 3, 3)),
        rng.dirichlet(np.ones(K), size=5),
        rng.gamma(2.0, size=(5, 3, 3)),
    )
    common: dict[str, Any] = {"prior_right": RIGHT, "prior_wrong": WRONG, "prior_strength": STRENGTH}
    model = Backoff(**common) if K == 1 else CommunityBCC(n_communities=K, **common)
    expected = slow_m_step(crowd, q, old)
    assert_iteration(model, crowd, (q, old), expected, *slow_e_step(crowd, expected))


@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(1, 4),
    K=st.integers(1, 6),
    strength=st.sampled_from([0.01, 1.0, 20.0]),
    known=st.integers(0, 5),
)
@settings(max_examples=25, deadline=None)
def test_the_bound_never_falls(seed: int, n_classes: int, K: int, strength: float, known: int) -> None:
    crowd = sparse_crowd(seed, n_classes=n_classes)
    common: dict[str, Any] = {"prior_strength": strength, "n_iter": 30, "tol": 0, "n_restarts": 1 + seed % 2}
    model = Backoff(**common) if K == 1 else CommunityBCC(n_communities=K, **common)
    fitted = model.fit(crowd, true_labels=dict.fromkeys(range(known), n_classes - 1))
    assert (np.diff(fitted.objective_history_) >= -1e-8).all()
    np.testing.assert_array_equal(fitted.probas_[:known], np.eye(n_classes)[[n_classes - 1] * known])
    np.testing.assert_allclose(fitted.confusion_.sum(-1), np.ones((5, n_classes)))


def test_a_firm_prior_is_bayesian_dawid_skene() -> None:
    crowd = graded_crowd(0)
    fixed = BayesianDawidSkene(n_iter=2000, tol=1e-12).fit(crowd)
    firm = Backoff(prior_strength=1e6, n_iter=2000, tol=1e-9).fit(crowd)
    np.testing.assert_allclose(firm.common_alpha_, 1 + 2 * np.eye(3), rtol=1e-3)
    np.testing.assert_allclose(firm.probas_, fixed.probas_, atol=2e-3)


def crowd_around(matrices: Any, spread: float, per_task: int, seed: int, N: int = 600, R: int = 60) -> Any:
    """Annotators of as many kinds as there are matrices, each with an own matrix around that of its kind."""
    rng = np.random.default_rng(seed)
    K, C = matrices.shape[:2]
    kind = rng.permutation(np.arange(R) % K)
    own = np.array([[rng.dirichlet(spread * row) for row in matrices[k]] for k in kind])
    z = rng.integers(C, size=N)
    labels = np.full((N, R), -1)
    for i in range(N):
        for r in rng.choice(R, per_task, replace=False):
            labels[i, r] = rng.choice(C, p=own[r, z[i]])
    return Annotations.from_matrix(labels, classes=range(C)), z, kind, own


CONFUSION = np.array([[0.75, 0.2, 0.05], [0.1, 0.8, 0.1], [0.05, 0.35, 0.6]])


def test_annotators_with_few_labels_borrow_from_the_crowd() -> None:
    """Fifty labels each, three classes: own matrices are nearer to the truth than by maximum likelihood."""
    for seed in range(3):
        crowd, z, _, own = crowd_around(CONFUSION[None], 20.0, 5, seed)
        ours, alone = Backoff().fit(crowd), DawidSkene().fit(crowd)
        assert (ours.codes_ == z).mean() >= (alone.codes_ == z).mean()
        assert np.abs(ours.confusion_ - own).mean() < 0.8 * np.abs(alone.confusion_ - own).mean()
        crowds = ours.common_alpha_ / ours.common_alpha_.sum(1, keepdims=True)
        np.testing.assert_allclose(crowds, CONFUSION, atol=0.1)


def test_the_strength_is_learned() -> None:
    """Annotators who are all alike, and annotators who differ."""
    alike, differ = (Backoff().fit(crowd_around(CONFUSION[None], s, 6, 0)[0]).common_alpha_.sum() for s in (500.0, 4.0))
    assert alike > 2 * differ


def test_communities_are_told_apart() -> None:
    """Two thirds are good, one third shifts every class to the next."""
    good = 0.1 + 0.7 * np.eye(3)
    for seed in range(2):
        crowd, z, kind, own = crowd_around(np.stack([good, good, np.roll(good, 1, axis=1)]), 60.0, 7, seed)
        fitted = CommunityBCC(n_communities=3).fit(crowd)
        assert (fitted.codes_ == z).mean() > 0.9
        bad = fitted.communities_[kind == 2]
        assert (bad == np.bincount(bad).argmax()).mean() > 0.9
        assert (fitted.communities_[kind != 2] != np.bincount(bad).argmax()).mean() > 0.9
        assert np.abs(fitted.confusion_ - own).mean() < 0.08
        assert (np.diff(fitted.community_shares_) <= 1e-9).all()
        np.testing.assert_allclose(fitted.community_confusion_.sum(-1), np.ones((3, 3)))


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (Backoff, {"prior_right": 0.0}),
        (Backoff, {"prior_strength": -1.0}),
        (CommunityBCC, {"n_communities": 0}),
        (CommunityBCC, {"prior_wrong": float("nan")}),
    ],
)
def test_impossible_settings_are_refused(cls: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(settings))} must be"):
        cls(**settings).fit(graded_crowd(0))
