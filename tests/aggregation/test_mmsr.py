"""MMSR against slow loops, adversaries, and crowd-kit on real crowds."""

from __future__ import annotations

from typing import Any

import crowdkit.aggregation as crowdkit
import numpy as np
import pytest

from conal.aggregation import MMSR, MajorityVote
from conal.aggregation.message_passing import _corrected_agreement, _leading, _reduced_means
from conal.data.annotations import Annotations
from conal.errors import ConvergenceWarning
from helpers.crowds import graded_crowd, sparse_crowd
from helpers.real import labelled_crowd


def slow_agreement(crowd: Annotations) -> tuple[Any, Any]:
    matrix, C, R = crowd.to_matrix(), crowd.n_classes, crowd.n_annotators
    X, shared = np.zeros((R, R)), np.zeros((R, R), dtype=bool)
    for a in range(R):
        for b in range(R):
            pairs = [(row[a], row[b]) for row in matrix if row[a] >= 0 and row[b] >= 0]
            if a != b and pairs:
                shared[a, b] = True
                X[a, b] = (C * sum(x == y for x, y in pairs) / len(pairs) - 1) / (C - 1)
    return X, shared


def slow_means(X: Any, u: Any, v: Any, shared: Any, F: int) -> list[float]:
    """Of each column's ratios: sorted, cut below and above the present value, and averaged."""
    result = []
    for j in range(len(X)):
        values = sorted(X[i, j] / u[i] for i in range(len(X)) if shared[i, j])
        low = sum(value < v[j] for value in values)
        high = sum(value > v[j] for value in values)
        kept = values[min(low, F) : len(values) - min(high, F)]
        result.append(sum(kept) / len(kept) if kept else v[j])
    return result


@pytest.mark.parametrize("crowd", [*map(graded_crowd, range(3)), *map(sparse_crowd, range(3))])
@pytest.mark.parametrize("F", [0, 1, 2])
def test_steps_agree_with_slow_loops(crowd: Annotations, F: int) -> None:
    X, shared = _corrected_agreement(crowd)
    slow, slow_shared = slow_agreement(crowd)
    np.testing.assert_array_equal(shared, slow_shared)
    np.testing.assert_allclose(X[shared], slow[shared], atol=1e-10)
    u, v = np.random.default_rng(F).uniform(0.1, 1, size=(2, len(X)))
    ours = _reduced_means(np.abs(X), u, v, shared, F, 0.1)
    np.testing.assert_allclose(ours, slow_means(np.abs(slow), u, v, shared, F), atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_the_fit_agrees_with_slow_loops(seed: int) -> None:
    crowd = graded_crowd(seed, share=0.9)
    X, shared = slow_agreement(crowd)
    values, vectors = np.linalg.eigh(X)
    start = vectors[:, -1] * np.sqrt(values[-1])
    np.testing.assert_allclose(np.abs(_leading(X)), np.abs(start))
    F = max(int(shared.sum(0).min()) // 2 - 1, 0)
    u = v = np.abs(start)
    for _ in range(4):
        v = slow_means(np.abs(X), u, v, shared, F)
        u = slow_means(np.abs(X), v, u, shared, F)
    s = np.array(u) * np.sqrt(np.linalg.norm(v) / np.linalg.norm(u)) * np.sign(start * np.sign(start).sum())
    s[0] = s[1:].mean()  # without labels
    s = np.clip(s, -1 / 2 + 1 / np.sqrt(40), 1 - 1 / np.sqrt(40))
    p = s * 2 / 3 + 1 / 3
    with pytest.warns(ConvergenceWarning, match="MMSR has not converged after 4 iterations"):
        fitted = MMSR(n_iter=4, tol=0).fit(crowd)
    np.testing.assert_allclose(fitted.skills_, p, atol=1e-10)
    odds = np.log(2 * p / (1 - p))
    for row, q in zip(crowd.to_matrix(), fitted.probas_, strict=True):
        score = np.exp([sum(odds[r] for r, y in enumerate(row) if y == c) for c in range(3)])
        np.testing.assert_allclose(q, score / score.sum(), atol=1e-10)


def test_skills_are_recovered_and_adversaries_count_backwards() -> None:
    rng = np.random.default_rng(0)
    skill = np.array([0.9, 0.8, 0.75, 0.7, 0.85, 0.8, 0.1, 0.15])
    z = rng.integers(2, size=2000)
    matrix = np.where(rng.random((2000, 8)) < skill, z[:, None], 1 - z[:, None])
    fitted = MMSR().fit(matrix)
    np.testing.assert_allclose(fitted.skills_, skill, atol=0.04)
    assert fitted.converged_
    assert (fitted.codes_ == z).mean() > (MajorityVote().fit(matrix).codes_ == z).mean() + 0.03


def test_extreme_partners_do_not_move_a_skill() -> None:
    """Two annotators copy a third's mistakes. Without cutting, they would raise its skill."""
    rng = np.random.default_rng(1)
    z = rng.integers(2, size=3000)
    honest = np.where(rng.random((3000, 9)) < 0.8, z[:, None], 1 - z[:, None])
    bad = np.where(rng.random(3000) < 0.55, z, 1 - z)
    fitted = MMSR().fit(np.column_stack([honest, bad, bad, bad]))
    assert np.abs(fitted.skills_[:9] - 0.8).max() < 0.04
    assert fitted.skills_[9:].max() < 0.65


@pytest.mark.filterwarnings("ignore::Warning:crowdkit")
@pytest.mark.parametrize("name", ["bluebird", "emotion", "raop", "semeval_stance", "wiki_politeness"])
def test_labels_are_those_of_crowdkit(name: str) -> None:
    """Where its start leads to the same fixed point.

    Elsewhere the two may differ: from another start a mean may leave out other partners (conv_go_awry, persuasion), and
    crowd-kit counts annotators who share no task as pairs that disagree, which turns skills around (face,
    discourse, flute). It also divides votes by their sum: where that is negative, its label is the least likely one.
    """
    frame, _ = labelled_crowd(name)
    ours = MMSR(guard="off").fit(frame)
    peer: Any = crowdkit.MMSR(random_state=0).fit(frame)
    np.testing.assert_allclose(ours.weights_, peer.skills_[ours.annotator_ids_], atol=1e-6)
    votes = frame.assign(weight=peer.skills_[frame["worker"]].to_numpy()).pivot_table(
        index="task", columns="label", values="weight", aggfunc="sum", fill_value=0.0
    )
    assert ours.labels_.tolist() == votes.idxmax(axis=1)[ours.task_ids_].tolist()
    positive = (votes.sum(axis=1) > 0)[ours.task_ids_].to_numpy() & (votes.max(axis=1) > 0)[ours.task_ids_].to_numpy()
    theirs = peer.predict(frame)[ours.task_ids_]
    assert positive.mean() > 0.4
    assert ours.labels_[positive].tolist() == theirs[positive].tolist()
