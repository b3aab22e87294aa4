"""Group confusion against slow loops and a directly summed bound, and on crowds that come in families."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma, gammaln
from sklearn.metrics import adjusted_rand_score

from conal.aggregation import Backoff, CommonConfusion, GroupConfusion
from conal.aggregation.common_confusion import Communities
from conal.aggregation.group_confusion import merged_groups, pooling_of
from conal.aggregation.held_out import fifths
from conal.data.annotations import Annotations
from conal.datasets.crowd import CrowdTruth
from conal.errors import DataWarning, InputError
from helpers.crowds import crowd_of_families, graded_crowd, sparse_crowd
from helpers.iterations import assert_iteration

pytestmark = [
    pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning"),
    pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning"),
]

RIGHT, WRONG, TOP, POOLING = 2.5, 0.7, 1.3, 0.6


def families_of(truth: CrowdTruth) -> list[int]:
    assert truth.groups is not None
    return [int(k) for k in truth.groups]


def elog(alpha: Any) -> Any:
    return digamma(alpha) - digamma(alpha.sum())


def log_beta(alpha: Any) -> float:
    return float(gammaln(alpha).sum() - gammaln(alpha.sum()))


def slow_common(alpha: Any) -> Any:
    """The common matrix, one cell after the other."""
    K, C = alpha.shape[:2]
    common = np.zeros((C, C))
    for c in range(C):
        for y in range(C):
            log = TOP * np.log((RIGHT if c == y else WRONG) / (RIGHT + (C - 1) * WRONG))
            for k in range(K):
                log += POOLING * np.log(alpha[k, c, y] / alpha[k, c].sum())
            common[c, y] = np.exp(log / (POOLING * K + TOP))
        common[c] /= common[c].sum()
    return common


def slow_m_step(crowd: Annotations, q: Any, old: Communities) -> Communities:
    """Five times the common matrix and the groups' matrices, with members that are given."""
    matrix, N, R, C, K = crowd.to_matrix(), crowd.n_tasks, crowd.n_annotators, crowd.n_classes, len(old.tau)
    n = np.zeros((R, C, C))
    for i in range(N):
        for r in range(R):
            if matrix[i, r] >= 0:
                n[r, :, matrix[i, r]] += q[i]
    alpha = old.alpha.copy()
    for _ in range(5):
        common, new = slow_common(alpha), np.zeros_like(alpha)
        for k in range(K):
            members = [r for r in range(R) if old.membership[r, k]]
            spent, gained = 0.0, np.zeros((C, C))
            for c in range(C):
                total = alpha[k, c].sum()
                spent += sum(digamma(total + n[r, c].sum()) - digamma(total) for r in members)
                for y in range(C):
                    a = alpha[k, c, y]
                    gained[c, y] = a * sum(digamma(a + n[r, c, y]) - digamma(a) for r in members)
            for c in range(C):
                prior = np.where(np.arange(C) == c, RIGHT, WRONG)
                row = gained[c] + POOLING * common[c] + TOP * prior / prior.sum()
                new[k, c] = row / row.sum() * (gained.sum() + 1) / (spent + 0.02)
        alpha = new
    tau = old.membership.sum(0) + 0.1
    return Communities(1 + q.sum(0), tau / tau.sum(), alpha, old.membership, n)


def slow_e_step(crowd: Annotations, now: Communities) -> tuple[Any, float]:
    """The posterior, and the bound with the divergences of the prior as they are defined."""
    matrix, N, R, C = crowd.to_matrix(), crowd.n_tasks, crowd.n_annotators, crowd.n_classes
    own = now.alpha[now.membership.argmax(1)] + now.counts
    joint = np.zeros((N, C))
    for i in range(N):
        for c in range(C):
            heard = [elog(own[r, c])[matrix[i, r]] for r in range(R) if matrix[i, r] >= 0]
            joint[i, c] = np.exp(elog(now.rho)[c] + sum(heard))
    bound = (
        np.log(joint.sum(1)).sum() + log_beta(now.rho) - log_beta(np.ones(C)) - ((now.rho - 1) * elog(now.rho)).sum()
    )
    for r in range(R):
        k = now.membership[r].argmax()
        bound += np.log(now.tau[k])
        for c in range(C):
            prior = now.alpha[k, c]
            bound += log_beta(own[r, c]) - log_beta(prior) - ((own[r, c] - prior) * elog(own[r, c])).sum()
    common, modes = slow_common(now.alpha), WRONG + (RIGHT - WRONG) * np.eye(C)

    def apart(x: Any, y: Any) -> float:
        """KL divergences of the rows of x from those of y, summed."""
        return float((x * np.log(x / (y / y.sum(1, keepdims=True)))).sum())

    bound -= POOLING * sum(apart(common, alpha) for alpha in now.alpha) + TOP * apart(common, modes)
    mean = modes / modes.sum(1, keepdims=True)
    bound += TOP * sum((mean * np.log(alpha / alpha.sum(1, keepdims=True))).sum() for alpha in now.alpha)
    bound += sum(np.log(alpha[0].sum()) - 0.02 * alpha[0].sum() for alpha in now.alpha) + 0.1 * np.log(now.tau).sum()
    return joint / joint.sum(1, keepdims=True), float(bound)


@pytest.mark.parametrize("seed", range(3))
def test_an_iteration_agrees_with_slow_loops(seed: int) -> None:
    crowd = sparse_crowd(seed)
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(3), size=crowd.n_tasks)
    groups = ["b", "a", "a", "b", "a"]
    model = GroupConfusion(
        groups=groups, pooling=POOLING, prior_right=RIGHT, prior_wrong=WRONG, prior_strength=TOP, n_iter=1
    ).fit(crowd)
    old = Communities(
        rng.gamma(2.0, size=3),
        rng.dirichlet(np.ones(2)),
        rng.gamma(2.0, size=(2, 3, 3)),
        np.eye(2)[[1, 0, 0, 1, 0]],
        rng.gamma(2.0, size=(5, 3, 3)),
    )
    expected = slow_m_step(crowd, q, old)
    assert_iteration(model, crowd, (q, old), expected, *slow_e_step(crowd, expected))


@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(1, 4),
    groups=st.sampled_from([1, 2, 4, ["a", "b", "a", "a", "c"]]),
    pooling=st.sampled_from([0.001, 1.0, 100.0]),
    known=st.integers(0, 5),
)
@settings(max_examples=25, deadline=None)
def test_the_bound_never_falls(seed: int, n_classes: int, groups: Any, pooling: float, known: int) -> None:
    crowd = sparse_crowd(seed, n_classes=n_classes)
    model = GroupConfusion(groups=groups, pooling=pooling, n_iter=30, tol=0, n_restarts=1 + seed % 2)
    fitted = model.fit(crowd, true_labels=dict.fromkeys(range(known), n_classes - 1))
    assert (np.diff(fitted.objective_history_) >= -1e-8).all()
    np.testing.assert_array_equal(fitted.probas_[:known], np.eye(n_classes)[[n_classes - 1] * known])
    for matrices in (fitted.confusion_, fitted.group_confusion_, fitted.common_confusion_):
        np.testing.assert_allclose(matrices.sum(-1), 1.0)


# ---------------------------------------------------------------- families


def test_given_families_help() -> None:
    """Thirty labels each: nearer to the truth than without families, in labels and in matrices."""
    gains = []
    for seed in range(4):
        crowd, truth = crowd_of_families(30, seed)
        names = [f"family {k}" for k in families_of(truth)]
        grouped, alone = GroupConfusion(groups=names).fit(crowd), CommonConfusion().fit(crowd)
        gains.append((grouped.codes_ == truth.z).mean() - (alone.codes_ == truth.z).mean())
        mean = truth.settings.proportion
        own = mean * truth.pi_g + (1 - mean) * truth.pi_r
        assert np.abs(grouped.confusion_ - own).mean() < np.abs(alone.confusion_ - own).mean()
        families = mean * truth.pi_g + (1 - mean) * np.stack([truth.pi_r[truth.groups == k].mean(0) for k in range(3)])
        np.testing.assert_allclose(grouped.group_confusion_, families, atol=0.3)
        assert grouped.groups_ == ("family 0", "family 1", "family 2")
        assert grouped.group_of_.tolist() == families_of(truth)
    assert np.mean(gains) > 0.03


def test_learned_groups_are_the_families() -> None:
    found = []
    for seed in range(3):
        crowd, truth = crowd_of_families(100, seed)
        fitted = GroupConfusion(groups=3, pooling=1.0).fit(crowd)
        found.append(adjusted_rand_score(truth.groups, fitted.group_of_))
        assert fitted.groups_ == ("group 1", "group 2", "group 3")
        assert (np.diff(np.bincount(fitted.group_of_)) <= 0).all()
    assert np.mean(found) >= 0.9


def test_members_who_are_alike_are_pooled_more() -> None:
    """The pooling of members to their group is learned: labels by which an own matrix outweighs the group's."""
    alike, differ = (
        GroupConfusion(groups=families_of(truth), pooling=1.0).fit(crowd).individual_pooling_.mean()
        for crowd, truth in (crowd_of_families(100, 0, family_share=share) for share in (1.0, 0.2))
    )
    assert alike > 1.3 * differ


def test_pooling_says_how_far_groups_are_apart() -> None:
    crowd, truth = crowd_of_families(50, 0)
    spread = [
        GroupConfusion(groups=families_of(truth), pooling=pooling).fit(crowd).group_confusion_.std(0).mean()
        for pooling in (0.01, 10.0, 10_000.0)
    ]
    assert spread[0] > spread[1] > 10 * spread[2]


def test_the_pooling_of_groups_is_learned() -> None:
    """Families that hardly differ, because nearly all mistakes are common, and families that differ much."""
    alike, differ = (
        GroupConfusion(groups=families_of(truth)).fit(crowd).pooling_
        for crowd, truth in (crowd_of_families(100, 0, proportion=share) for share in (0.95, 0.05))
    )
    assert alike > 1.3 * differ


@pytest.mark.parametrize("seed", range(2))
def test_pooling_is_where_groups_are_most_probable(seed: int) -> None:
    rng = np.random.default_rng(seed)
    common = rng.dirichlet(np.ones(3) * 3, size=3)
    tables = np.array([[20 * rng.dirichlet(5 * row) for row in common] for _ in range(4)])

    def log_probability(A: float) -> float:
        rows = (log_beta(A * common[c] + n[c]) - log_beta(A * common[c]) for n in tables for c in range(3))
        return float(sum(rows) + np.log(A) - A)

    found = pooling_of(tables, common, 3.0)
    candidates = np.geomspace(0.05, 500, 4000)
    best = candidates[np.argmax([log_probability(A) for A in candidates])]
    assert found == pytest.approx(best, rel=0.05)


def test_one_group_is_back_off() -> None:
    """Nearly: back-off has a number of labels that outweigh the crowd's matrix for every class."""
    crowd, _ = crowd_of_families(100, 0)
    one, alone = GroupConfusion(groups=1).fit(crowd), Backoff().fit(crowd)
    assert (one.codes_ == alone.codes_).mean() > 0.95
    np.testing.assert_allclose(one.confusion_, alone.confusion_, atol=0.15)
    assert one.groups_ == ("group 1",)
    assert not one.group_of_.any()


# ---------------------------------------------------------------- how groups are given


def named_crowd() -> Annotations:
    tasks = [f"t{i}" for i in range(12) for _ in range(4)]
    labels = [int(i % 2 != (r == 3)) for i in range(12) for r in range(4)]
    return Annotations.from_triples(tasks, ["dan", "ann", "eve", "bob"] * 12, labels)


def test_groups_in_every_form() -> None:
    crowd = named_crowd()
    by_name = {"eve": "x", "ann": "x", "dan": "y", "bob": 7}
    table = pa.table({"worker": list(by_name), "group": ["x", "x", "y", "7"]})
    fits = [
        GroupConfusion(groups=by_name).fit(crowd),
        GroupConfusion(groups=["x", 7, "y", "x"]).fit(crowd),
        GroupConfusion().fit(crowd, annotator_info=table),
    ]
    for fitted in fits:
        assert fitted.groups_ == ("7", "x", "y")
        assert fitted.group_of_.tolist() == [1, 0, 2, 1]
        np.testing.assert_array_equal(fitted.probas_, fits[0].probas_)
    assert fits[0].annotator_info_ is None
    assert fits[2].annotator_info_ is not None
    assert fits[2].fit(crowd).annotator_info_ is None


@pytest.mark.filterwarnings("ignore:groups. ignored 1 of 4")
def test_again_without_an_annotator_keeps_the_groups_and_what_was_found() -> None:
    crowd = named_crowd()
    without = crowd.select(crowd.annotators != 0)
    rest = Annotations.from_frame(without.to_table())
    stated = GroupConfusion(groups=["x", 7, "y", "x"]).fit(crowd)
    again = stated.again().again().fit(rest)
    assert isinstance(again, GroupConfusion)
    assert (again.groups_, again.group_of_.tolist()) == (("7", "x", "y"), [0, 2, 1])
    assert again.pooling_ == stated.pooling_
    learned = GroupConfusion().fit(crowd)
    assert learned.again().get_params()["groups"] == learned.n_groups_


def test_wrong_groups_are_refused() -> None:
    crowd = named_crowd()
    for groups in (0, 1.5, "three"):
        with pytest.raises(InputError, match="groups must be None, 'auto', a number of groups, or"):
            GroupConfusion(groups=groups).fit(crowd)
    with pytest.raises(InputError, match="groups has 2 entries for 4 annotators"):
        GroupConfusion(groups=["a", "b"]).fit(crowd)
    with pytest.raises(InputError, match="groups: 3 of the 4 annotators are missing: 'bob', 'dan', 'eve'"):
        GroupConfusion(groups={"ann": "a"}).fit(crowd)
    with pytest.warns(DataWarning, match="groups: ignored 1 of 5"):
        GroupConfusion(groups=dict.fromkeys(["ann", "bob", "dan", "eve", "who"], "a")).fit(crowd)


# ---------------------------------------------------------------- merging, and held-out parts


@pytest.mark.parametrize("seed", range(3))
def test_merging_agrees_with_slow_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts, alpha = rng.gamma(2.0, size=(7, 3, 3)), rng.gamma(2.0, size=(3, 3))

    def evidence(n: Any) -> float:
        return sum(log_beta(alpha[c] + n[c]) - log_beta(alpha[c]) for c in range(3))

    groups = [[r] for r in range(7)]
    while len(groups) > 3:
        pairs = [(a, b) for a in range(len(groups)) for b in range(a + 1, len(groups))]
        pooled = [counts[group].sum(0) for group in groups]
        gain = [evidence(pooled[a] + pooled[b]) - evidence(pooled[a]) - evidence(pooled[b]) for a, b in pairs]
        a, b = pairs[int(np.argmax(gain))]
        groups[a] += groups.pop(b)
    found = merged_groups(counts, alpha, 3)
    assert sorted(map(sorted, groups)) == sorted(np.flatnonzero(found == k).tolist() for k in range(3))


def test_more_annotators_than_can_be_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conal.aggregation.group_confusion.MOST", 4)
    counts = np.arange(1.0, 7.0)[:, None, None] * np.ones((6, 2, 2))
    found = merged_groups(counts, np.ones((2, 2)), 2)
    assert found[:2].tolist() == [-1, -1]
    assert set(found[2:].tolist()) == {0, 1}
    crowd, _ = crowd_of_families(50, 1)
    fitted = GroupConfusion(groups=3, pooling=1.0).fit(crowd)
    np.testing.assert_allclose(fitted.membership_.sum(1), 1.0)


def test_every_label_is_held_out_once_and_no_task_is_left_without() -> None:
    crowd = graded_crowd(1, share=0.8)
    parts = list(fifths(crowd, np.random.default_rng(0)))
    labelled = crowd.labels_per_task() > 0
    held_out = np.sum([mask for _, mask in parts], axis=0)
    assert len(parts) == 5
    assert held_out.max() == 1
    assert all((rest.labels_per_task()[labelled] > 0).all() for rest, _ in parts)
    alone = crowd.labels_per_task()[crowd.tasks] == 1
    assert (held_out[alone] == 0).all()
    assert held_out[crowd.labels_per_task()[crowd.tasks] > 3].mean() > 0.95
