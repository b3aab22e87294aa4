"""Intervals: the distributions that they claim to be, by closed forms where the true labels are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from conal.annotations import Annotations
from conal.findings import Evidence, intervals
from conal.findings.intervals import confusion_interval, quality_interval


@pytest.fixture(autouse=True)
def _many_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "DRAWS", 8000)


def evidence(labels: list[list[int]], posterior: list[list[float]]) -> Evidence:
    crowd = Annotations.from_matrix(labels, classes=range(len(posterior[0])))
    q = np.array(posterior)
    C, R = q.shape[1], crowd.n_annotators
    return Evidence(crowd, q, q, np.eye(C), np.stack([np.eye(C)] * R))


def test_quality_of_known_labels_is_a_beta_distribution() -> None:
    """Annotator 0 is right 8 times of 10, annotator 1 always, annotator 2 never."""
    labels = [[0, 0, 1]] * 8 + [[1, 0, 1]] * 2
    low, high = quality_interval(evidence(labels, [[1.0, 0.0]] * 10), seed=1)
    np.testing.assert_allclose([low[0], high[0]], stats.beta.ppf([0.025, 0.975], 8.5, 2.5), atol=0.012)
    np.testing.assert_allclose(low[1], stats.beta.ppf(0.025, 10.5, 0.5), atol=0.012)
    np.testing.assert_allclose(high[2], stats.beta.ppf(0.975, 0.5, 10.5), atol=0.012)
    assert (high[1], low[2]) == (1.0, 0.0)


def test_doubt_about_the_true_labels_widens_the_interval() -> None:
    """Twenty labels, each right with probability 0.7: the mixture of Betas over a binomial number of right ones."""
    labels, q = [[0, 1]] * 20, [[0.7, 0.3]] * 20
    low, high = quality_interval(evidence(labels, q), seed=2)
    rng = np.random.default_rng(5)
    k = rng.binomial(20, 0.7, size=200_000)
    expected = np.quantile(rng.beta(k + 0.5, 20 - k + 0.5), [0.025, 0.975])
    np.testing.assert_allclose([low[0], high[0]], expected, atol=0.012)
    sure = quality_interval(evidence(labels, [[1.0, 0.0]] * 14 + [[0.0, 1.0]] * 6), seed=2)
    assert high[0] - low[0] > sure.high[0] - sure.low[0] + 0.1


def test_confusion_of_known_labels_is_a_dirichlet_distribution() -> None:
    """One label per task: 30 of class 0, of which 6 are called 1 and none 2."""
    labels = [[0]] * 24 + [[1]] * 6 + [[1]] * 5 + [[2]] * 5
    q = [[1.0, 0.0, 0.0]] * 30 + [[0.0, 1.0, 0.0]] * 5 + [[0.0, 0.0, 1.0]] * 5
    low, high = confusion_interval(evidence(labels, q), seed=3)
    expected = stats.beta.ppf([0.025, 0.975], 6.5, 24.5 + 0.5)
    np.testing.assert_allclose([low[0, 1], high[0, 1]], expected, atol=0.012)
    np.testing.assert_allclose(high[0, 2], stats.beta.ppf(0.975, 0.5, 31), atol=0.012)
    assert low[0, 2] == 0.0
    assert high[1, 1] == 1.0


def test_labels_of_one_task_count_as_one_witness() -> None:
    """Ten tasks with eight equal labels each say less than eighty tasks with one: the bootstrap is over tasks."""
    together = evidence([[0] * 8] * 7 + [[1] * 8] * 3, [[1.0, 0.0]] * 10)
    apart = evidence([[0]] * 56 + [[1]] * 24, [[1.0, 0.0]] * 80)
    wide, narrow = confusion_interval(together, seed=4), confusion_interval(apart, seed=4)
    assert wide.high[0, 1] - wide.low[0, 1] > 2 * (narrow.high[0, 1] - narrow.low[0, 1])


def test_the_seed_decides() -> None:
    found = evidence([[0, 1], [1, 1]] * 9, [[0.6, 0.4], [0.3, 0.7]] * 9)
    np.testing.assert_array_equal(quality_interval(found, seed=1).low, quality_interval(found, seed=1).low)
    assert (quality_interval(found, seed=1).low != quality_interval(found, seed=2).low).any()
