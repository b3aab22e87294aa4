"""How sure posteriors may be: by a slow loop, and where annotators err independently or together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

import conal
from conal.aggregation.held_out import CANDIDATES, REJECTED_LOG_RATIO, Triples, held_out_certainty

N, R, C = 400, 12, 3


def crowd(seed: int = 0) -> tuple[np.ndarray, Triples]:
    """Truth, and votes of four independent annotators per task."""
    rng = np.random.default_rng(seed)
    z = rng.integers(C, size=N)
    tasks = np.repeat(np.arange(N), 4)
    annotators = np.concatenate([rng.choice(R, 4, replace=False) for _ in range(N)])
    labels = np.where(rng.random(4 * N) < 0.75, z[tasks], rng.integers(C, size=4 * N))
    return z, (tasks, annotators, labels)


def posterior(votes: Triples) -> np.ndarray:
    """Logarithm of Dawid and Skene's, by EM from the votes."""
    tasks, annotators, labels = votes
    q = np.full((N, C), 0.1)
    np.add.at(q, (tasks, labels), 1.0)
    q /= q.sum(1, keepdims=True)
    for _ in range(30):
        counts = counts_of(np.log(q), votes)
        pi = (counts + 0.3) / (counts + 0.3).sum(2, keepdims=True)
        log_q = np.zeros((N, C))
        np.add.at(log_q, tasks, np.log(pi[annotators, :, labels]))
        q = softmax(log_q, axis=1)
    return np.asarray(np.log(q))


def counts_of(log_q: np.ndarray, votes: Triples) -> np.ndarray:
    counts = np.zeros((R, C, C))
    for i, r, y in zip(*votes, strict=True):
        counts[r, :, y] += np.exp(log_q[i])
    return counts


def test_it_is_the_smallest_that_left_out_labels_do_not_reject() -> None:
    _, votes = crowd()
    log_q = 2.5 * posterior(votes)
    log_q -= np.log(np.exp(log_q).sum(1, keepdims=True))
    counts = counts_of(log_q, votes)
    common = (counts.sum(0) + 0.5) / (counts.sum(0) + 0.5).sum(1, keepdims=True)
    losses = []
    for tau in CANDIDATES:
        loss = 0.0
        for i, r, y in zip(*votes, strict=True):
            rest = np.empty(C)
            predicted = 0.0
            for c in range(C):
                with_it = (counts[r, c, y] + common[c, y]) / (counts[r, c].sum() + 1)
                rest[c] = tau * (log_q[i, c] - 0.7 * np.log(with_it))
            q = softmax(rest)
            for c in range(C):
                own = np.exp(log_q[i, c])
                without = (counts[r, c, y] - own + common[c, y]) / (counts[r, c].sum() - own + 1)
                predicted += q[c] * without
            loss -= np.log(predicted)
        losses.append(loss)
    expected = next(
        tau for tau, loss in zip(CANDIDATES, losses, strict=True) if loss <= min(losses) + REJECTED_LOG_RATIO
    )
    found = held_out_certainty(log_q, votes, counts, vote_weight=0.7, pooling=1.0)
    assert found == pytest.approx(expected, abs=1e-12)
    assert found < 0.7  # it was made too sure


def test_independent_annotators_may_be_believed() -> None:
    z, votes = crowd()
    log_q = posterior(votes)
    found = held_out_certainty(log_q, votes, counts_of(log_q, votes), vote_weight=1.0, pooling=1.0)
    assert found > 0.6
    claimed, right = softmax(found * log_q, axis=1).max(1).mean(), (log_q.argmax(1) == z).mean()
    assert abs(claimed - right) < 0.03


def test_no_votes_say_nothing() -> None:
    none = np.empty(0, np.int64)
    assert (
        held_out_certainty(np.zeros((3, C)), (none, none, none), np.zeros((R, C, C)), vote_weight=1, pooling=1) == 1.0
    )


def test_xconal_says_labels_to_be_as_sure_as_left_out_labels_allow(tmp_path: Path) -> None:
    """The same labels as by the model alone; every posterior is flattened by the one exponent that is saved."""
    data = conal.datasets.digits()
    x, crowd = data.x, data.annotations
    own, honest = (
        conal.CrossCoNAL(epochs=15, verbose=False, confidence=kind).fit(x, crowd) for kind in ("model", "held-out")
    )
    certainty = float(honest.model_.get_buffer("certainty"))
    assert 0.1 <= certainty < 1
    expected = softmax(certainty * np.log(np.maximum(own.probas_, 1e-38)), axis=1)
    np.testing.assert_allclose(honest.probas_, expected, atol=1e-5)
    np.testing.assert_array_equal(honest.labels_, own.labels_)
    honest.save(tmp_path / "m")
    again = conal.load(tmp_path / "m")
    assert float(again.model_.get_buffer("certainty")) == certainty
    np.testing.assert_array_equal(again.predict_proba(x), honest.predict_proba(x))
