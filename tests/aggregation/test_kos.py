"""KOS against slow loops over messages, simulated crowds, and crowd-kit on crowds with two classes."""

from __future__ import annotations

from typing import Any

import crowdkit.aggregation as crowdkit
import numpy as np
import pytest

from conal.aggregation import KOS, MajorityVote
from conal.data.annotations import Annotations
from helpers.crowds import graded_crowd, sparse_crowd
from helpers.real import labelled_crowd


def slow_messages(matrix: Any, n_iter: int, known: dict[int, int]) -> dict[tuple[int, int], float]:
    """Messages from annotators to tasks, for labels 0 and 1, one sum after the other."""
    labels = {(i, r): 1.0 if y == 1 else -1.0 for i, row in enumerate(matrix) for r, y in enumerate(row) if y >= 0}
    y = dict.fromkeys(labels, 1.0)
    for _ in range(n_iter):
        x = {(i, r): sum(labels[a, b] * y[a, b] for a, b in labels if a == i and b != r) for i, r in labels}
        top = max(abs(value) for value in x.values())
        x = {pair: (2.0 * known[pair[0]] - 1 if pair[0] in known else x[pair] / top) for pair in x}
        y = {(i, r): sum(labels[a, b] * x[a, b] for a, b in labels if b == r and a != i) for i, r in labels}
        top = max(abs(value) for value in y.values())
        y = {pair: value / top for pair, value in y.items()}
    return y


@pytest.mark.parametrize("known", [{}, {1: 0, 4: 1}])
@pytest.mark.parametrize("seed", range(3))
def test_it_agrees_with_slow_loops(seed: int, known: dict[int, int]) -> None:
    matrix = graded_crowd(seed, n_tasks=14, n_annotators=5, n_classes=2).to_matrix()[1:, 1:]
    y = slow_messages(matrix, 6, known)
    expected = []
    for i, row in enumerate(matrix):
        own = [(y[i, r], label) for r, label in enumerate(row) if label >= 0]
        most = sum(abs(weight) for weight, _ in own)
        said = sum(weight * (1 if label == 1 else -1) for weight, label in own)
        share = (1 + said / most) / 2 if most else 0.5
        expected.append([1 - share, share] if i not in known else [1.0 - known[i], float(known[i])])
    fitted = KOS(n_iter=6).fit(Annotations.from_matrix(matrix, classes=range(2)), true_labels=known)
    np.testing.assert_allclose(fitted.probas_, expected, atol=1e-10)


def test_hammers_outvote_spammers() -> None:
    """The crowd it was made for: 400 tasks for 5 random annotators of 200, a quarter right 95 in 100, others guess."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=400)
    able = rng.random(200) < 0.3
    matrix = np.full((400, 200), -1)
    for i in range(400):
        for r in rng.choice(200, 15, replace=False):
            matrix[i, r] = z[i] if rng.random() < (0.95 if able[r] else 0.5) else 1 - z[i]
    right, votes = ((model.fit(matrix).codes_ == z).mean() for model in (KOS(), MajorityVote()))
    assert right > votes + 0.05
    assert right > 0.95


def test_several_classes() -> None:
    rng = np.random.default_rng(1)
    z = rng.integers(4, size=300)
    skill = np.repeat([0.9, 0.3], [8, 12])
    matrix = np.where(rng.random((300, 20)) < skill, z[:, None], rng.integers(4, size=(300, 20)))
    right, votes = ((model.fit(matrix).codes_ == z).mean() for model in (KOS(), MajorityVote()))
    assert right >= votes
    assert right > 0.97


def test_parts_of_a_crowd_that_share_no_task_are_independent() -> None:
    """With one scale for all messages, those of the smaller part would vanish, and its labels be ties."""
    big = graded_crowd(0, n_tasks=60, n_annotators=8, n_classes=2, worst=0.7, share=0.9).to_matrix()[1:, 1:]
    small = graded_crowd(1, n_tasks=12, n_annotators=4, n_classes=2, worst=0.7, share=0.9).to_matrix()[1:, 1:]
    both = np.full((len(big) + len(small), big.shape[1] + small.shape[1]), -1)
    both[: len(big), : big.shape[1]], both[len(big) :, big.shape[1] :] = big, small
    together = KOS(n_iter=500).fit(both).probas_
    for part, alone in ((together[: len(big)], big), (together[len(big) :], small)):
        np.testing.assert_allclose(part, KOS(n_iter=500).fit(alone).probas_, atol=1e-10)


def test_without_common_tasks_everybody_counts() -> None:
    matrix = np.full((6, 3), -1)
    matrix[np.arange(6), np.arange(6) % 3] = [0, 1, 1, 0, 1, 0]
    assert KOS().fit(matrix).labels_.tolist() == [0, 1, 1, 0, 1, 0]
    assert np.isfinite(KOS().fit(sparse_crowd(0)).probas_).all()


@pytest.mark.parametrize("name", ["bluebird", "product", "sentiment", "conv_go_awry", "persuasion"])
@pytest.mark.filterwarnings("ignore::Warning:crowdkit")
def test_labels_are_those_of_crowdkit(name: str) -> None:
    """It starts at random numbers and ours at their mean; after 100 rounds the start is forgotten."""
    frame, _ = labelled_crowd(name)
    ours = KOS(guard="off").fit(frame)
    theirs = crowdkit.KOS(random_state=0).fit_predict(frame)
    assert ours.labels_.tolist() == theirs[ours.task_ids_].tolist()
