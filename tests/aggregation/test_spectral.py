"""The spectral start of Dawid-Skene: exact moments, slow loops, simulated crowds, and crowds without such a start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conal.aggregation import DawidSkene, FastDawidSkene, OneCoinDawidSkene
from conal.aggregation.counts import Votes
from conal.aggregation.dawid_skene import Moments, NoMoments, _dealt, _means, decomposed, moments_of, spectral_confusion
from conal.data.annotations import Annotations
from conal.errors import DataWarning, InputError
from helpers.crowds import graded_crowd, thin_matrices
from helpers.real import labelled_crowd

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")


def simulated(matrices: Any, N: int, share: float, seed: int, w: Any = None) -> tuple[Annotations, Any]:
    """Annotators with the confusion matrices (R, C, C) give a share of all labels; and the truth."""
    rng = np.random.default_rng(seed)
    R, C = matrices.shape[:2]
    z = rng.choice(C, p=w, size=N)
    labels = (rng.random((N, R, 1)) > np.cumsum(matrices, axis=2)[:, z].transpose(1, 0, 2)).sum(2).clip(max=C - 1)
    return Annotations.from_matrix(np.where(rng.random(labels.shape) < share, labels, -1), classes=range(C)), z


@pytest.mark.parametrize("C", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_exact_moments_give_exact_matrices(C: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w = rng.dirichlet(np.full(C, 5.0))
    a, b, c = (0.6 * np.eye(C) + 0.4 * rng.dirichlet(np.ones(C), size=C).T for _ in range(3))
    exact = Moments(c * w @ a.T, c * w @ b.T, a * w @ b.T, np.einsum("l,al,bl,cl->abc", w, a, b, c))
    shares, columns = decomposed(exact, rng)
    order = [int(np.abs(columns - c[:, [true]]).sum(0).argmin()) for true in range(C)]
    np.testing.assert_allclose(shares[order], w, atol=1e-10)
    np.testing.assert_allclose(columns[:, order], c, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_moments_agree_with_slow_loops(seed: int) -> None:
    crowd = graded_crowd(seed, n_annotators=9)
    votes = Votes(crowd)
    groups = _dealt(votes, np.random.default_rng(seed))
    matrix = crowd.to_matrix()
    Z: list[list[Any]] = []
    for g in range(3):
        Z.append([])
        for row in matrix:
            mine = [y for r, y in enumerate(row) if groups[r] == g and y >= 0]
            Z[g].append([mine.count(c) / len(mine) for c in range(3)] if mine else None)
    for ours, slow in zip(_means(votes, groups), Z, strict=True):
        np.testing.assert_allclose(ours, [row or [0.0] * 3 for row in slow], atol=1e-10)
    found = moments_of(*_means(votes, groups))
    for name, first, second in (("ca", 2, 0), ("cb", 2, 1), ("ab", 0, 1)):
        pairs = [(x, y) for x, y in zip(Z[first], Z[second], strict=True) if x and y]
        expected = [[sum(x[k] * y[m] for x, y in pairs) / len(pairs) for m in range(3)] for k in range(3)]
        np.testing.assert_allclose(getattr(found, name), expected, atol=1e-10)
    triples = [(x, y, v) for x, y, v in zip(*Z, strict=True) if x and y and v]
    for k, m, n in np.ndindex(3, 3, 3):
        expected_one = sum(x[k] * y[m] * v[n] for x, y, v in triples) / len(triples)
        assert found.abc[k, m, n] == pytest.approx(expected_one, abs=1e-10)


def test_groups_have_about_as_many_labels_each() -> None:
    crowd = graded_crowd(0, n_tasks=100, n_annotators=20)
    groups = _dealt(Votes(crowd), np.random.default_rng(0))
    labels = np.bincount(groups, weights=crowd.labels_per_annotator(), minlength=3)
    assert labels.max() < 1.15 * labels.min()


def test_matrices_are_recovered_before_any_step_of_em() -> None:
    rng = np.random.default_rng(0)
    matrices = 0.55 * np.eye(3) + 0.45 * rng.dirichlet(np.ones(3), size=(9, 3))
    crowd, _ = simulated(matrices, 4000, 0.7, 1, w=[0.5, 0.3, 0.2])
    shares, found = spectral_confusion(Votes(crowd), np.random.default_rng(0))
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=0.06)
    assert np.abs(found - matrices).mean() < 0.04


def test_it_finds_the_truth_where_the_majority_is_wrong() -> None:
    """Of ten annotators, six call half of class 2 class 1: EM from the votes ends in a worse optimum."""
    swayed = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.05, 0.6, 0.35]])
    good = 0.1 + 0.7 * np.eye(3)
    crowd, z = simulated(np.stack([swayed] * 8 + [good] * 4), 1500, 0.8, 0)
    spectral, votes = (DawidSkene(start=start, n_iter=2000, tol=1e-9).fit(crowd) for start in ("spectral", "votes"))
    assert spectral.start_ == "spectral"
    assert votes.start_ == "votes"
    assert spectral.objective_history_[0] > votes.objective_history_[0]
    assert (spectral.codes_ == z).mean() >= (votes.codes_ == z).mean()
    assert (spectral.codes_ == z).mean() > 0.9


@pytest.mark.parametrize("cls", [DawidSkene, OneCoinDawidSkene, FastDawidSkene])
def test_all_models_of_the_family_take_it(cls: Any) -> None:
    crowd, z = simulated(np.stack([0.1 + 0.7 * np.eye(3)] * 9), 500, 0.7, 3)
    fitted = cls(start="spectral").fit(crowd)
    assert fitted.start_ == "spectral"
    assert (fitted.codes_ == z).mean() > 0.95
    assert (np.diff(fitted.objective_history_) >= -1e-9).all()
    again = cls(start="spectral").fit(crowd)
    np.testing.assert_array_equal(again.probas_, fitted.probas_)


@pytest.mark.filterwarnings("ignore::conal.errors.CollapseWarning")
def test_a_crowd_without_such_a_start_begins_at_the_votes() -> None:
    two = Annotations.from_matrix(np.array([[0, 1], [1, 1], [0, 0]]))
    with pytest.warns(DataWarning, match="no spectral start, because fewer than three annotators have labels"):
        fitted = DawidSkene(start="spectral").fit(two)
    np.testing.assert_array_equal(fitted.probas_, DawidSkene().fit(two).probas_)
    for matrix in thin_matrices():
        crowd = Annotations.from_matrix(matrix, classes=range(4))  # nobody uses the last class
        with pytest.raises(NoMoments):
            spectral_confusion(Votes(crowd), np.random.default_rng(0))
        with pytest.warns(DataWarning, match="it starts from the votes"):
            assert np.isfinite(DawidSkene(start="spectral").fit(crowd).probas_).all()


KNOWN = {"bluebird": 89.9, "dog": 83.1}
"""Published accuracy of Dawid-Skene from the spectral start: Zhang et al. (2016)."""


@pytest.mark.parametrize("name", KNOWN)
def test_published_accuracy(name: str) -> None:
    """The mean of ten deals, within 1.1 points; the paper stops after a few iterations, these converge."""
    frame, truth = labelled_crowd(name)
    right = []
    for seed in range(10):
        fitted = DawidSkene(start="spectral", seed=seed, guard="off").fit(frame)
        right.append(100 * np.mean(fitted.labels_ == truth[fitted.task_ids_].to_numpy()))
    assert abs(np.mean(right) - KNOWN[name]) <= 1.1


def test_an_unknown_start_is_refused() -> None:
    with pytest.raises(InputError, match="start must be 'votes' or 'spectral', not 'gold'"):
        DawidSkene(start="gold").fit(graded_crowd(0))  # type: ignore[arg-type]
