"""What other labels change: counted, bounded by what differs, and judged by true labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import betabinom

from conal.metrics import rates as label_change
from conal.metrics.rates import LabelChange, Relabelling, joined, label_changes, relabelling

NOTHING_SEEN = np.zeros((0, 3))


def one_hot(codes: Any, n_classes: int = 3) -> Any:
    return np.eye(n_classes)[codes]


def test_relabelling_expects_by_both_posteriors_and_a_uniform_one() -> None:
    before = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    after = np.array([[0.1, 0.8, 0.1], [0.1, 0.3, 0.6], [0.9, 0.1, 0.0], [1.0, 0.0, 0.0]])
    found = relabelling(before, after, known=np.array([2, 2, 0, 0]), counted=np.array([True, True, True, False]))
    gained = (0.2 + 0.8) / 4 + 1 / 6 + (0.3 + 0.6) / 4 + 1 / 6
    lost = (0.7 + 0.1) / 4 + 1 / 6 + (0.5 + 0.3) / 4 + 1 / 6
    assert found.n_changed == 2
    np.testing.assert_allclose(found.expected, [gained, lost, 2 - gained - lost])
    assert found.seen.tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]


def test_labels_that_stay_change_nothing() -> None:
    (found,) = label_changes([Relabelling(0, np.zeros(3), np.zeros((50, 3)))], 50)
    assert found[:4] == (0, 0.0, 0.0, 0.0)
    assert found.within(1e-9) == 1.0
    assert label_changes([], 50) == []


def test_known_changes_are_exact() -> None:
    """Where the truth of every task is known, the change is a fact."""
    old, new, truth = np.random.default_rng(0).integers(3, size=(3, 400))
    (found,) = label_changes([relabelling(one_hot(old), one_hot(new), known=truth)], 400)
    exact = (new == truth).mean() - (old == truth).mean()
    assert found.n_changed == (old != new).sum()
    np.testing.assert_allclose([found.value, found.low, found.high], exact, atol=1e-12)


def test_draws_are_those_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """One relabelling of two classes: given the common probability, gains are beta-binomial."""
    monkeypatch.setattr(label_change, "DRAWS", 100_000)
    seen = np.array([[1.0, 0, 0]] * 3 + [[0, 1.0, 0]] + [[0, 0, 0]] * 10)  # those that stay say nothing
    made = Relabelling(12, np.array([6.0, 6.0, 0.0]), seen)
    (found,) = label_changes([made], 100)
    prior = label_change.MODEL_WEIGHT * (made.expected + 1 / 3) / 13 + [3, 1, 0]
    phi = np.random.default_rng(5).dirichlet(prior, size=20_000)
    chances = label_change.ALIKE * phi + [3, 1, 0]
    mean = (8 * chances / chances.sum(1, keepdims=True)).mean(0)
    assert found.value == pytest.approx((3 - 1 + mean[0] - mean[1]) / 100, abs=5e-4)
    lower = betabinom.cdf(2, 8, chances[:, 0], chances[:, 1] + chances[:, 2]).mean()  # at most two of the eight
    at_most = (3 - 1 + 2 - 6) / 100 + 1e-9
    assert (found.draws <= at_most).mean() == pytest.approx(lower, abs=0.02)
    assert -0.06 - 1e-9 <= found.low <= found.high <= 0.1 + 1e-9


def test_true_labels_of_one_relabelling_tell_about_the_others() -> None:
    gains = np.tile([1.0, 0.0, 0.0], (40, 1))
    both = [
        Relabelling(40, np.array([20.0, 20.0, 0.0]), gains),
        Relabelling(40, np.array([20.0, 20.0, 0.0]), 0 * gains),
    ]
    alone = label_changes([each._replace(seen=NOTHING_SEEN) for each in both], 400)[1]
    informed = label_changes(both, 400)[1]
    assert abs(alone.value) < 0.01
    assert informed.value > 0.03
    assert informed.low > alone.low


def test_evidence_from_elsewhere_informs_but_is_no_fact() -> None:
    made = Relabelling(10, np.array([5.0, 5.0, 0.0]), NOTHING_SEEN)
    gains = np.tile([1.0, 0.0, 0.0], (30, 1))
    (found,) = label_changes([made], 100, evidence=[gains])
    assert 0.05 < found.value < 0.1
    assert found.low < 0.1
    assert found.high <= 0.1 + 1e-9  # only ten labels differ


def test_intervals_hold_if_labels_behave_as_assumed() -> None:
    """Changed labels become right or wrong at random, with rates that differ from crowd to crowd."""
    held = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        outcomes = np.where(rng.random((6, 30)) < rng.beta(8, 8), 1, -1)
        known = rng.random((6, 30)) < 0.1
        made = [
            Relabelling(30, np.array([15.0, 15.0, 0.0]), _placed(k, outcomes[k], known[k]))
            for k in range(len(outcomes))
        ]
        for each, found in zip(outcomes, label_changes(made, 500), strict=True):
            held.append(found.low - 1e-12 <= each.sum() / 500 <= found.high + 1e-12)
    assert 0.92 < np.mean(held) <= 1.0


def _placed(k: int, outcomes: Any, known: Any) -> Any:
    """Outcomes of relabelling k, which changes tasks of its own."""
    seen = np.zeros((180, 3))
    at = 30 * k + np.flatnonzero(known)
    seen[at, np.where(outcomes[known] > 0, 0, 1)] = 1.0
    return seen


def test_probabilities_of_statements() -> None:
    found = LabelChange.of(3, np.array([-0.02, -0.004, 0.0, 0.004, 0.02]), 0.95)
    assert found.within(0.005) == pytest.approx(0.6)
    assert found.loses_less_than(0.01) == pytest.approx(0.8)
    both = joined(found, LabelChange.of(5, np.zeros(5), 0.95))
    assert both.n_changed == 5
    assert both.within(0.005) == pytest.approx(0.8)
    assert both.value == pytest.approx(0.0)
    more = joined(LabelChange.of(1, np.ones(600), 0.95), LabelChange.of(1, np.zeros(600), 0.95), 0.6)
    assert more.value == pytest.approx(0.6)
