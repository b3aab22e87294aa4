"""Dawid-Skene against a slow textbook version, hand-worked cases, and real crowds with gold labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conal.aggregation import DawidSkene, MajorityVote, OneCoinDawidSkene
from conal.aggregation.engines import CompiledEngine
from conal.data.annotations import Annotations
from conal.errors import ConvergenceWarning, InputError
from helpers.crowds import graded_crowd, thin_matrices
from helpers.real import labelled_crowd
from studies.crowds import JUDGES

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")

CLASSES: list[type[DawidSkene]] = [DawidSkene, OneCoinDawidSkene]


def textbook(crowd: Annotations, iterations: int) -> tuple[Any, Any, Any, list[float]]:
    """Dawid and Skene's equations with loops over plain numbers, no logarithms and no sparse products."""
    N, R, C = crowd.n_tasks, crowd.n_annotators, crowd.n_classes
    matrix = crowd.to_matrix()
    q = np.array([[np.mean(row[row >= 0] == c) if (row >= 0).any() else 1 / C for c in range(C)] for row in matrix])
    likelihoods = []
    for _ in range(iterations + 1):
        rho = q.mean(0)
        pi = np.full((R, C, C), 1 / C)
        for r in range(R):
            for c in range(C):
                total = sum(q[i, c] for i in range(N) if matrix[i, r] >= 0)
                if total > 0:
                    pi[r, c] = [sum(q[i, c] for i in range(N) if matrix[i, r] == y) / total for y in range(C)]
        joint = np.array(
            [[rho[c] * np.prod([pi[r, c, y] for r, y in enumerate(row) if y >= 0]) for c in range(C)] for row in matrix]
        )
        likelihoods.append(float(np.log(joint.sum(1)).sum()))
        q = joint / joint.sum(1, keepdims=True)
    return q, rho, pi, likelihoods


@pytest.mark.parametrize("seed", range(5))
def test_it_agrees_with_the_textbook(seed: int) -> None:
    crowd = graded_crowd(seed)
    with pytest.warns(ConvergenceWarning, match="not converged after 12 iterations"):
        fitted = DawidSkene(n_iter=12, tol=0).fit(crowd)
    q, rho, pi, likelihoods = textbook(crowd, 12)
    np.testing.assert_allclose(fitted.probas_, q, atol=1e-10)
    np.testing.assert_allclose(fitted.class_prior_, rho, atol=1e-10)
    np.testing.assert_allclose(fitted.confusion_, pi, atol=1e-10)
    np.testing.assert_allclose(fitted.objective_history_, likelihoods, rtol=1e-10)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
@given(seed=st.integers(0, 10_000), prior=st.sampled_from([0.0, 0.1, 2.0]), known=st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_the_objective_never_falls(cls: type[DawidSkene], seed: int, prior: float, known: int) -> None:
    crowd = graded_crowd(seed, n_tasks=15, n_annotators=5, n_classes=int(2 + seed % 3) + (seed % 3 == 0))
    fitted = cls(prior=prior, n_iter=30, tol=0).fit(crowd, true_labels=dict.fromkeys(range(known), 0))
    assert (np.diff(fitted.objective_history_) >= -1e-9).all()
    assert np.isfinite(fitted.probas_).all()
    np.testing.assert_allclose(fitted.probas_.sum(1), np.ones(15))
    np.testing.assert_allclose(fitted.confusion_.sum(-1), np.ones((5, crowd.n_classes)))


@pytest.mark.parametrize("cls", CLASSES)
def test_perfect_annotators_give_the_truth(cls: type[DawidSkene]) -> None:
    z = np.arange(30) % 3
    fitted = cls().fit(np.repeat(z[:, None], 4, axis=1))
    assert (fitted.codes_ == z).all()
    np.testing.assert_allclose(fitted.confusion_, np.broadcast_to(np.eye(3), (4, 3, 3)), atol=1e-12)
    np.testing.assert_allclose(fitted.skills_, np.ones(4))
    assert fitted.converged_


def test_one_coin_by_hand() -> None:
    """Two annotators who always agree and one who never does with them: p = 1, 1, 0, and the pair is right."""
    fitted = OneCoinDawidSkene().fit(np.array([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 0]]))
    np.testing.assert_allclose(fitted.skills_, [1, 1, 0], atol=1e-6)
    assert fitted.labels_.tolist() == [0, 1, 0, 1]


def test_an_adversary_counts_backwards() -> None:
    """Three random annotators are outvoted by the structure: an annotator who is always wrong is as good as right."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=400)
    noisy = np.where(rng.random((400, 3)) < 0.75, z[:, None], 1 - z[:, None])
    matrix = np.column_stack([noisy, 1 - z])
    fitted = DawidSkene().fit(matrix)
    assert (fitted.codes_ == z).mean() > 0.97
    assert (MajorityVote().fit(matrix).codes_ == z).mean() < 0.8
    assert fitted.skills_[3] < 0.05


def test_a_prior_pulls_rare_rows_to_uniform() -> None:
    crowd = Annotations.from_matrix([[0, 0], [1, 1], [0, -1]])
    strong = DawidSkene(prior=1000.0).fit(crowd)
    np.testing.assert_allclose(strong.confusion_, np.full((2, 2, 2), 0.5), atol=1e-2)


def test_known_labels_are_certain_and_teach() -> None:
    """Two annotators who always disagree: a tie without gold, settled by a few true labels."""
    z = np.arange(40) % 2
    matrix = np.column_stack([z, 1 - z])
    gold = {task: int(z[task]) for task in range(6)}
    for labels in (gold, pd.Series(gold)):
        fitted = DawidSkene().fit(matrix, true_labels=labels)
        assert (fitted.codes_ == z).all()
        np.testing.assert_array_equal(fitted.probas_[:6], np.eye(2)[z[:6]])
    with pytest.raises(InputError, match="'x' are not among the classes"):
        DawidSkene().fit(matrix, true_labels={0: "x"})
    with pytest.raises(InputError, match="must map task ids to labels"):
        DawidSkene().fit(matrix, true_labels=[0, 1])


def test_restarts_keep_the_best_and_are_seeded() -> None:
    crowd = graded_crowd(7)
    single = DawidSkene(n_iter=500).fit(crowd)
    many, again = (DawidSkene(n_iter=500, n_restarts=8, seed=1).fit(crowd) for _ in range(2))
    assert many.objective_history_[-1] >= single.objective_history_[-1]
    np.testing.assert_array_equal(many.probas_, again.probas_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_iter": 0}, "n_iter"),
        ({"tol": -1}, "tol"),
        ({"prior": float("nan")}, "prior"),
        ({"n_restarts": 0}, "n_restarts"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"{message} must be"):
        DawidSkene(**options).fit(graded_crowd(0))


@pytest.mark.parametrize("cls", [MajorityVote, *CLASSES])
def test_frames_come_back_as_frames(cls: Any) -> None:
    rows = {"task": ["b", "a", "b", "a"], "worker": [1, 1, 2, 2], "label": ["x", "y", "x", "y"]}
    series = cls().fit_predict(pd.DataFrame(rows))
    assert isinstance(series, pd.Series)
    assert series.to_dict() == {"a": "y", "b": "x"}
    assert series.index.name == "task"
    probas = cls().fit_predict_proba(pd.DataFrame(rows))
    np.testing.assert_allclose(probas.loc["a", ["x", "y"]].to_numpy(dtype=float), [0, 1], atol=1e-6)
    frame = cls().fit_predict(pl.DataFrame(rows))
    assert frame.to_dict(as_series=False) == {"task": ["a", "b"], "label": ["y", "x"]}
    assert cls().fit_predict(Annotations.from_frame(pd.DataFrame(rows))).tolist() == ["y", "x"]


@pytest.mark.parametrize("cls", [MajorityVote, *CLASSES])
@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
def test_thin_crowds_give_numbers(cls: Any) -> None:
    """One label per task, one annotator in all, a class nobody chose, ten identical annotators, N = R."""
    _, _, same, *_ = matrices = list(thin_matrices())
    for matrix in matrices:
        fitted = cls().fit(Annotations.from_matrix(matrix, classes=range(4)))
        assert np.isfinite(fitted.probas_).all()
        np.testing.assert_allclose(fitted.probas_.sum(1), np.ones(len(matrix)))
    assert (cls().fit(same).labels_ == same[:, 0]).all()


def counted_anew(crowd: Annotations, fitted: DawidSkene, known: dict[int, int], m: float) -> Any:
    """Posterior, class prior and matrices by loops, from the posterior of EM and the true labels."""
    C = crowd.n_classes
    true_counts, counts = np.zeros((2, crowd.n_annotators, C, C))
    true_tasks, tasks = np.zeros((2, C))
    for i, r, label in zip(crowd.tasks, crowd.annotators, crowd.labels, strict=True):
        if i in known:
            true_counts[r, known[i], label] += 1
        else:
            counts[r, :, label] += fitted.probas_[i]
    for i in range(crowd.n_tasks):
        if i in known:
            true_tasks[known[i]] += 1
        else:
            tasks += fitted.probas_[i]
    by_inferred = (counts + 0.5) / (counts + 0.5).sum(2, keepdims=True)
    pi = (true_counts + m * by_inferred) / (true_counts.sum(2, keepdims=True) + m)
    rho = (true_tasks + 50 * (tasks + 0.5) / (tasks + 0.5).sum()) / (len(known) + 50)
    q = np.tile(rho, (crowd.n_tasks, 1))
    for i, r, label in zip(crowd.tasks, crowd.annotators, crowd.labels, strict=True):
        q[i] *= pi[r, :, label]
    q /= q.sum(1, keepdims=True)
    for i, c in known.items():
        q[i] = np.eye(C)[c]
    return q, rho, pi


@pytest.mark.parametrize("compiled", [False, True])
def test_true_labels_count_anew_in_the_end(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = graded_crowd(3, n_tasks=60, n_annotators=6)
    monkeypatch.setattr(CompiledEngine, "pays", staticmethod(lambda votes: compiled))
    known = {0: 1, 1: 2, 5: 0, 7: 1, 9: 2}
    by_em = DawidSkene(inferred_labels=None).fit(crowd, true_labels=known)
    fitted = DawidSkene(inferred_labels=4.0).fit(crowd, true_labels=known)
    q, rho, pi = counted_anew(crowd, by_em, known, 4.0)
    np.testing.assert_allclose(fitted.probas_, q, atol=1e-10)
    np.testing.assert_allclose(fitted.class_prior_, rho, atol=1e-10)
    np.testing.assert_allclose(fitted.confusion_, pi, atol=1e-10)
    np.testing.assert_allclose(fitted.skills_, np.einsum("c,rcc->r", rho, pi), atol=1e-10)
    assert np.abs(fitted.probas_ - by_em.probas_).max() > 0.01
    assert fitted.objective_history_ == by_em.objective_history_


def test_without_true_labels_nothing_counts_anew() -> None:
    crowd = graded_crowd(3, n_tasks=60, n_annotators=6)
    np.testing.assert_array_equal(DawidSkene().fit(crowd).probas_, DawidSkene(inferred_labels=None).fit(crowd).probas_)


def test_true_labels_that_count_anew_help_juries_that_err_together() -> None:
    gains = []
    for name in JUDGES:
        labels, truth = labelled_crowd(name)
        for seed in range(3):
            gold = truth.sample(50, random_state=seed)
            others = truth.drop(gold.index)
            right = [
                (made.fit_predict(labels, true_labels=gold).astype(str).reindex(others.index) == others).mean()
                for made in (DawidSkene(), DawidSkene(inferred_labels=None))
            ]
            gains.append(right[0] - right[1])
    assert np.mean(gains) > 0.003
