"""Worker clustering against slow loops and a directly summed lower bound, and on crowds that come in groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conal import aggregation
from conal.aggregation import DawidSkene, MajorityVote, WorkerClustering
from conal.aggregation.clustering import Clusters
from conal.aggregation.counts import Votes
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import InputError
from helpers.crowds import sparse_crowd, thin_matrices
from helpers.iterations import assert_iteration

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def random_state(crowd: Annotations, n_groups: int, seed: int) -> tuple[Floats, Clusters]:
    """A posterior and parameters that have nothing to do with the crowd."""
    rng = np.random.default_rng(seed)
    N, R, C = crowd.n_tasks, crowd.n_annotators, crowd.n_classes
    theta = rng.dirichlet(np.ones(C), size=(n_groups, C))
    members = rng.dirichlet(np.ones(n_groups), size=R)
    parameters = Clusters(rng.dirichlet(np.ones(C)), rng.dirichlet(np.ones(n_groups)), theta, members)
    return rng.dirichlet(np.ones(C), size=N), parameters


def draw_crowd(z: Ints, confusion: Floats, per_task: int, rng: np.random.Generator) -> Annotations:
    """``per_task`` different annotators for every task, who err by their matrices ``confusion[r]``."""
    R, C = confusion.shape[:2]
    matrix = np.full((len(z), R), -1)
    for i, c in enumerate(z):
        for r in rng.choice(R, per_task, replace=False):
            matrix[i, r] = rng.choice(C, p=confusion[r, c])
    return Annotations.from_matrix(matrix, classes=range(C))


def two_kinds(seed: int, kind: str, *, N: int = 400, n_good: int = 9, n_bad: int = 6, per_task: int = 5) -> Any:
    """Good annotators, right 3 times out of 4, and ones who name the next class or just any."""
    rng = np.random.default_rng(seed)
    C = 3
    good = 0.75 * np.eye(C) + 0.25 * (1 - np.eye(C)) / (C - 1)
    bad = {"shift": np.roll(good, 1, axis=1), "spam": np.full((C, C), 1 / C)}[kind]
    groups = rng.permutation(np.repeat([0, 1], [n_good, n_bad]))
    z = rng.integers(C, size=N)
    return draw_crowd(z, np.stack([good, bad])[groups], per_task, rng), z, groups, np.stack([good, bad])


# -------------------------------------------------------------------- the equations, slowly


def slow_iteration(crowd: Annotations, q: Floats, old: Clusters, alpha: float) -> tuple[Clusters, Floats, float]:
    """q(h), theta, tau, rho and then q(z), one number after the other; and the lower bound, summed as it is defined."""
    N, R, C, K = crowd.n_tasks, crowd.n_annotators, crowd.n_classes, len(old.tau)
    matrix = crowd.to_matrix()
    labels = [(i, r, int(matrix[i, r])) for i in range(N) for r in range(R) if matrix[i, r] >= 0]
    members = np.zeros((R, K))
    for r in range(R):
        for k in range(K):
            members[r, k] = old.tau[k] * np.prod(
                [old.theta[k, c, y] ** q[i, c] for i, who, y in labels if who == r for c in range(C)]
            )
        members[r] /= members[r].sum()
    theta = np.full((K, C, C), alpha)
    for i, r, y in labels:
        for k in range(K):
            for c in range(C):
                theta[k, c, y] += members[r, k] * q[i, c]
    theta = np.array([[row / row.sum() for row in group] for group in theta])
    tau = np.array([sum(members[:, k]) + alpha for k in range(K)])
    tau = tau / tau.sum()
    rho = np.array([sum(q[:, c]) / N for c in range(C)])
    new_q = np.array(
        [
            [
                rho[c] * np.prod([theta[k, c, y] ** members[r, k] for t, r, y in labels if t == i for k in range(K)])
                for c in range(C)
            ]
            for i in range(N)
        ]
    )
    new_q /= new_q.sum(1, keepdims=True)
    bound = alpha * (np.log(theta).sum() + np.log(tau).sum())
    bound += sum(new_q[i, c] * (np.log(rho[c]) - np.log(new_q[i, c])) for i in range(N) for c in range(C))
    bound += sum(members[r, k] * (np.log(tau[k]) - np.log(members[r, k])) for r in range(R) for k in range(K))
    for i, r, y in labels:
        bound += sum(new_q[i, c] * members[r, k] * np.log(theta[k, c, y]) for c in range(C) for k in range(K))
    return Clusters(rho, tau, theta, members), new_q, float(bound)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_groups", [1, 2, 4])
def test_an_iteration_agrees_with_slow_loops(seed: int, n_groups: int) -> None:
    crowd = sparse_crowd(seed)
    q, old = random_state(crowd, n_groups, seed)
    model = WorkerClustering(n_groups=n_groups, prior=0.3)
    assert_iteration(model, crowd, (q, old), *slow_iteration(crowd, q, old, 0.3))


@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(1, 4),
    n_groups=st.integers(1, 7),
    prior=st.sampled_from([1e-6, 0.1, 2.0]),
    known=st.integers(0, 5),
)
@settings(max_examples=30, deadline=None)
@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
def test_the_lower_bound_never_falls(seed: int, n_classes: int, n_groups: int, prior: float, known: int) -> None:
    crowd = sparse_crowd(seed, n_classes=n_classes)
    model = WorkerClustering(n_groups=n_groups, prior=prior, n_iter=30, tol=0, n_restarts=1 + seed % 3, seed=seed)
    fitted = model.fit(crowd, true_labels=dict.fromkeys(range(known), n_classes - 1))
    assert (np.diff(fitted.objective_history_) >= -1e-9).all()
    np.testing.assert_allclose(fitted.probas_.sum(1), np.ones(15))
    np.testing.assert_allclose(fitted.membership_.sum(1), np.ones(5))
    np.testing.assert_allclose(fitted.group_confusion_.sum(-1), np.ones((n_groups, n_classes)))
    np.testing.assert_allclose(fitted.confusion_.sum(-1), np.ones((5, n_classes)))
    assert np.isfinite(fitted.skills_).all()
    np.testing.assert_array_equal(fitted.probas_[:known], np.eye(n_classes)[[n_classes - 1] * known])


# -------------------------------------------------------------------- crowds


def test_perfect_annotators_give_the_truth() -> None:
    z = np.arange(30) % 3
    fitted = WorkerClustering().fit(np.repeat(z[:, None], 4, axis=1))
    assert (fitted.codes_ == z).all()
    assert fitted.groups_.tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(fitted.confusion_, np.broadcast_to(np.eye(3), (4, 3, 3)), atol=0.01)
    assert (fitted.skills_ > 0.99).all()
    assert fitted.converged_


@pytest.mark.parametrize("kind", ["shift", "spam"])
@pytest.mark.parametrize("seed", range(4))
def test_two_kinds_of_annotators_are_told_apart(kind: str, seed: int) -> None:
    crowd, z, groups, matrices = two_kinds(seed, kind)
    fitted = WorkerClustering(n_groups=2).fit(crowd)
    assert (fitted.groups_ == groups).all()  # the good are more, so they come first
    assert (fitted.membership_[np.arange(15), groups] > 0.99).all()
    np.testing.assert_allclose(fitted.group_prior_, [9.1 / 15.2, 6.1 / 15.2], atol=0.01)
    assert np.abs(fitted.group_confusion_ - matrices).mean() < 0.05
    np.testing.assert_allclose(fitted.confusion_, fitted.group_confusion_[groups], atol=0.02)
    right, votes = ((model.codes_ == z).mean() for model in (fitted, MajorityVote().fit(crowd)))
    assert right > votes + (0.1 if kind == "shift" else 0.02)


def test_surplus_groups_do_no_harm() -> None:
    for seed in range(3):
        crowd, z, groups, _ = two_kinds(seed, "shift")
        fitted = WorkerClustering().fit(crowd)
        assert (fitted.codes_ == z).mean() > (MajorityVote().fit(crowd).codes_ == z).mean() + 0.1
        assert (fitted.skills_[groups == 0] > 0.6).all()
        assert (fitted.skills_[groups == 1] < 0.3).all()
        assert fitted.converged_


def test_a_group_lends_strength_to_those_with_few_labels() -> None:
    """60 annotators with 13 labels each: too few for a matrix of one's own, plenty for two groups."""
    better = []
    for seed in range(4):
        crowd, z, _, _ = two_kinds(seed, "shift", N=200, n_good=36, n_bad=24, per_task=4)
        right = (WorkerClustering(n_groups=2).fit(crowd).codes_ == z).mean()
        better.append(right - (DawidSkene().fit(crowd).codes_ == z).mean())
        assert right > (MajorityVote().fit(crowd).codes_ == z).mean() + 0.05
    assert np.mean(better) > 0.03


def test_it_does_not_matter_who_comes_first() -> None:
    """Tasks, annotators and classes in another order: the same truth and the same groups by the same numbers."""
    crowd, _, _, _ = two_kinds(3, "shift", N=150)
    matrix = crowd.to_matrix()
    rng = np.random.default_rng(0)
    rows, columns, classes = (rng.permutation(n) for n in (*matrix.shape, 3))
    shuffled = np.where(matrix >= 0, np.argsort(classes)[matrix], -1)[np.ix_(rows, columns)]
    model = {"n_groups": 4, "n_restarts": 1, "tol": 1e-10, "n_iter": 3000}
    one = WorkerClustering(**model).fit(crowd)  # type: ignore[arg-type]
    two = WorkerClustering(**model).fit(Annotations.from_matrix(shuffled, classes=range(3)))  # type: ignore[arg-type]
    np.testing.assert_allclose(two.probas_, one.probas_[np.ix_(rows, classes)], atol=1e-6)
    np.testing.assert_allclose(two.membership_, one.membership_[columns], atol=1e-6)
    np.testing.assert_allclose(two.group_prior_, one.group_prior_, atol=1e-6)
    np.testing.assert_allclose(
        two.group_confusion_, one.group_confusion_[:, classes[:, None], classes[None, :]], atol=1e-6
    )
    assert (np.diff(one.group_prior_) <= 1e-9).all()


def test_groups_of_one_size_come_by_skill() -> None:
    """Right and wrong annotators, two each; three settled labels say who is who."""
    z = np.arange(40) % 2
    for matrix in (np.column_stack([1 - z, z, z, 1 - z]), np.column_stack([z, 1 - z, 1 - z, z])):
        gold = {task: int(z[task]) for task in range(6)}
        fitted = WorkerClustering(n_groups=2).fit(matrix, true_labels=gold)
        assert (fitted.codes_ == z).all()
        assert fitted.groups_.tolist() == (matrix[0] != z[0]).astype(int).tolist()
        np.testing.assert_array_equal(fitted.probas_[:6], np.eye(2)[z[:6]])


def test_restarts_differ_in_their_groups_and_keep_the_best() -> None:
    crowd = sparse_crowd(2, n_tasks=60, n_annotators=12)
    votes = Votes(crowd)
    model = WorkerClustering(n_groups=3)
    shares = model._initialize(votes, np.random.default_rng(0))
    np.testing.assert_array_equal(shares, model._initialize(votes, None))
    first = model.engine(votes, np.full(crowd.n_tasks, MISSING)).start(shares)
    starts = [model._first_parameters(votes, first, np.random.default_rng(seed)).theta for seed in range(6)]
    assert max(np.abs(start - starts[0]).max() for start in starts) > 0.01
    single = WorkerClustering(n_restarts=1).fit(crowd)
    many, again = (WorkerClustering(n_restarts=12, seed=1).fit(crowd) for _ in range(2))
    assert many.objective_history_[-1] >= single.objective_history_[-1]
    np.testing.assert_array_equal(many.membership_, again.membership_)


def slow_seeds(counts: Floats, n_groups: int, alpha: float) -> Floats:
    """The pooled matrix, then that of the annotator whom the nearest of those before explains worst, else uniform."""
    R, C = counts.shape[:2]
    pooled = np.array([[(counts[:, c, y].sum() + alpha) for y in range(C)] for c in range(C)])
    pooled /= pooled.sum(1, keepdims=True)
    own = np.array([[row / row.sum() for row in counts[r] + alpha + pooled] for r in range(R)])
    seeds = [pooled]
    while len(seeds) < n_groups:
        gains = [min((counts[r] * np.log(own[r] / seed)).sum() for seed in seeds) for r in range(R)]
        if max(gains) < 1e-9:
            return np.array(seeds + [np.full((C, C), 1 / C)] * (n_groups - len(seeds)))
        seeds.append(own[int(np.argmax(gains))])
    return np.array(seeds)


@pytest.mark.parametrize("n_groups", [1, 3, 9])
@pytest.mark.parametrize("seed", range(5))
def test_the_start_looks_for_whom_the_groups_before_explain_worst(seed: int, n_groups: int) -> None:
    crowd = sparse_crowd(seed)
    counts = Votes(crowd).counts(random_state(crowd, 1, seed)[0])
    seeds = WorkerClustering(n_groups=n_groups, prior=0.2)._seeds(counts, None)
    np.testing.assert_allclose(seeds, slow_seeds(counts, n_groups, 0.2), atol=1e-10)


def test_an_annotator_without_labels_is_like_the_crowd() -> None:
    crowd, _, _, _ = two_kinds(0, "shift")
    silent = np.column_stack([crowd.to_matrix(), np.full(crowd.n_tasks, -1)])
    fitted = WorkerClustering(n_groups=2, tol=1e-9).fit(Annotations.from_matrix(silent, classes=range(3)))
    np.testing.assert_allclose(fitted.membership_[-1], fitted.group_prior_, atol=1e-3)
    assert fitted.groups_[-1] == 0
    assert fitted.groups_.dtype == np.int64


# -------------------------------------------------------------------- edges


@pytest.mark.parametrize("n_groups", [1, 2, 5, 40])
@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
def test_thin_crowds_give_numbers(n_groups: int) -> None:
    """One label per task, one annotator in all, a class nobody chose, ten identical annotators, N = R, one class."""
    _, _, same, *_ = matrices = list(thin_matrices())
    for matrix in matrices:
        fitted = WorkerClustering(n_groups=n_groups).fit(Annotations.from_matrix(matrix, classes=range(4)))
        for values in (fitted.probas_, fitted.membership_, fitted.group_confusion_, fitted.confusion_, fitted.skills_):
            assert np.isfinite(values).all()
        np.testing.assert_allclose(fitted.probas_.sum(1), np.ones(len(matrix)))
        assert fitted.membership_.shape == (matrix.shape[1], n_groups)
    alike = WorkerClustering(n_groups=n_groups).fit(same)
    assert (alike.labels_ == same[:, 0]).all()
    assert (alike.groups_ == 0).all()
    one = WorkerClustering(n_groups=n_groups).fit(Annotations.from_matrix([["x", "x"], ["x", ""]]))
    assert one.labels_.tolist() == ["x", "x"]


def test_an_empty_group_is_uniform() -> None:
    fitted = WorkerClustering(n_groups=3).fit(np.repeat(np.arange(30)[:, None] % 3, 4, axis=1))
    np.testing.assert_allclose(fitted.group_confusion_[1:], np.full((2, 3, 3), 1 / 3), atol=1e-3)
    np.testing.assert_allclose(fitted.group_prior_, [4.1 / 4.3, 0.1 / 4.3, 0.1 / 4.3], atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_groups": 0}, "n_groups must be a whole number of at least 1"),
        ({"n_groups": 2.0}, "n_groups must be"),
        ({"prior": 0}, "prior must be a finite number above 0"),
        ({"prior": float("nan")}, "prior must be"),
        ({"n_iter": 0}, "n_iter must be"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        WorkerClustering(**options).fit(sparse_crowd(0))


def test_it_goes_by_a_name() -> None:
    assert "worker-clustering" in aggregation.names()
    model = aggregation.make("worker-clustering", n_groups=3)
    assert isinstance(model, WorkerClustering)
    assert model.n_groups == 3
