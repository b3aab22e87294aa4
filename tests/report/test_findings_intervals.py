"""Intervals: the distributions that they claim to be, by closed forms where the true labels are known."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from conal.data.annotations import Annotations
from conal.report import intervals as draws
from conal.report.evidence import Evidence
from conal.report.intervals import Intervals, gibbs_draws, intervals_from, intervals_of, label_draws, posterior_draws

N_DRAWS = 8000
FIXED = 1.0
"""Pseudo-labels in every cell, where the prior is held fixed."""


def evidence(labels: list[list[int]], posterior: list[list[float]]) -> Evidence:
    crowd = Annotations.from_matrix(labels, classes=range(len(posterior[0])))
    q = np.array(posterior)
    C, R = q.shape[1], crowd.n_annotators
    return Evidence(crowd, q, q, np.eye(C), np.stack([np.eye(C)] * R))


def by_posterior(found: Evidence, seed: int) -> Intervals:
    rng = np.random.default_rng(seed)
    return intervals_from(found, posterior_draws(found, rng, N_DRAWS), rng)


def test_quality_of_known_labels_is_a_beta_distribution() -> None:
    """Annotator 0 is right 8 times of 10, annotator 1 always, annotator 2 never."""
    labels = [[0, 0, 1]] * 8 + [[1, 0, 1]] * 2
    value, low, high = by_posterior(evidence(labels, [[1.0, 0.0]] * 10), seed=1).quality
    np.testing.assert_allclose(value, [0.8, 1.0, 0.0])
    np.testing.assert_allclose([low[0], high[0]], stats.beta.ppf([0.025, 0.975], 8.5, 2.5), atol=0.012)
    np.testing.assert_allclose(low[1], stats.beta.ppf(0.025, 10.5, 0.5), atol=0.012)
    np.testing.assert_allclose(high[2], stats.beta.ppf(0.975, 0.5, 10.5), atol=0.012)
    assert (high[1], low[2]) == (1.0, 0.0)


def test_doubt_about_the_true_labels_widens_the_interval() -> None:
    """Twenty labels, each right with probability 0.7: the mixture of Betas over a binomial number of right ones."""
    labels, q = [[0, 1]] * 20, [[0.7, 0.3]] * 20
    value, low, high = by_posterior(evidence(labels, q), seed=2).quality
    np.testing.assert_allclose(value, [0.7, 0.3], atol=0.01)
    rng = np.random.default_rng(5)
    k = rng.binomial(20, 0.7, size=200_000)
    expected = np.quantile(rng.beta(k + 0.5, 20 - k + 0.5), [0.025, 0.975])
    np.testing.assert_allclose([low[0], high[0]], expected, atol=0.012)
    sure = by_posterior(evidence(labels, [[1.0, 0.0]] * 14 + [[0.0, 1.0]] * 6), seed=2).quality
    assert high[0] - low[0] > sure.high[0] - sure.low[0] + 0.1


def test_confusion_of_known_labels_is_a_dirichlet_distribution() -> None:
    """One label per task: 30 of class 0, of which 6 are called 1 and none 2."""
    labels = [[0]] * 24 + [[1]] * 6 + [[1]] * 5 + [[2]] * 5
    q = [[1.0, 0.0, 0.0]] * 30 + [[0.0, 1.0, 0.0]] * 5 + [[0.0, 0.0, 1.0]] * 5
    value, low, high = by_posterior(evidence(labels, q), seed=3).confusion
    np.testing.assert_allclose(value[0], [0.8, 0.2, 0.0])
    expected = stats.beta.ppf([0.025, 0.975], 6.5, 24.5 + 0.5)
    np.testing.assert_allclose([low[0, 1], high[0, 1]], expected, atol=0.012)
    np.testing.assert_allclose(high[0, 2], stats.beta.ppf(0.975, 0.5, 31), atol=0.012)
    assert low[0, 2] == 0.0
    assert high[1, 1] == 1.0


def test_labels_of_one_task_count_as_one_witness() -> None:
    """Ten tasks with eight equal labels each say less than eighty tasks with one: the bootstrap is over tasks."""
    together = evidence([[0] * 8] * 7 + [[1] * 8] * 3, [[1.0, 0.0]] * 10)
    apart = evidence([[0]] * 56 + [[1]] * 24, [[1.0, 0.0]] * 80)
    wide, narrow = (by_posterior(each, seed=4).confusion for each in (together, apart))
    assert wide.high[0, 1] - wide.low[0, 1] > 2 * (narrow.high[0, 1] - narrow.low[0, 1])


def exact_marginals(found: Evidence) -> npt.NDArray[np.float64]:
    """P(z_i = c) by summing over all true labels, with the matrices integrated out."""
    crowd, C = found.annotations, found.annotations.n_classes
    assert found.classifier is not None
    total = np.zeros(found.posterior.shape)
    for z in itertools.product(range(C), repeat=crowd.n_tasks):
        chance = float(np.prod(found.classifier[np.arange(len(z)), list(z)]))
        counts = np.zeros((crowd.n_annotators, C, C))
        for task, annotator, label in zip(crowd.tasks, crowd.annotators, crowd.labels, strict=True):
            counts[annotator, z[task], label] += 1
        for row in counts.reshape(-1, C):
            chance *= dirichlet_multinomial(row, np.full(C, FIXED))
        total[np.arange(len(z)), list(z)] += chance
    return np.asarray(total / total.sum(1, keepdims=True))


def dirichlet_multinomial(counts: npt.NDArray[np.float64], alpha: npt.NDArray[np.float64]) -> float:
    from scipy.special import gammaln

    value = (
        gammaln(alpha.sum()) - gammaln(alpha.sum() + counts.sum()) + (gammaln(alpha + counts) - gammaln(alpha)).sum()
    )
    return float(np.exp(value))


def test_the_sampler_has_the_exact_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a fixed Dirichlet prior, the share of draws is P(z | labels, classifier), summed over all labelings."""

    def fixed_prior(
        found: Evidence, z: npt.NDArray[np.int64], order: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> npt.NDArray[np.float64]:
        crowd = found.annotations
        counts = np.zeros((crowd.n_annotators, 2, 2))
        np.add.at(counts, (crowd.annotators, crowd.labels, z[crowd.tasks]), 1)
        drawn = rng.gamma(counts + FIXED)
        return np.asarray(np.log(drawn / drawn.sum(1, keepdims=True)))

    monkeypatch.setattr(draws, "_draw_log_confusion", fixed_prior)
    prior = [[0.7, 0.3], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5], [0.9, 0.1]]
    found = evidence([[0, 1], [0, -1], [1, 1], [0, 1], [-1, -1]], prior)
    rng = np.random.default_rng(0)
    drawn = np.stack(list(gibbs_draws(found, rng, 30_000)))
    share = np.stack([(drawn == c).mean(0) for c in range(2)], axis=1)
    np.testing.assert_allclose(share, exact_marginals(found), atol=0.015)
    np.testing.assert_allclose(share[4], [0.9, 0.1], atol=0.01)  # nobody labelled it: the classifier alone speaks


def test_matrices_are_drawn_around_their_counts() -> None:
    """Forty labels of a class, ten of them wrong, drawn to the crowd's shares by two more."""
    found = evidence([[0, 0]] * 30 + [[1, 0]] * 10 + [[1, 1]] * 40, [[1.0, 0.0]] * 40 + [[0.0, 1.0]] * 40)
    rng = np.random.default_rng(0)
    drawn = np.exp([draws._draw_log_confusion(found, found.inferred, np.array([1, 0]), rng) for _ in range(4000)])
    np.testing.assert_allclose(drawn.sum(2), 1, rtol=1e-9)  # over observed labels
    shares = np.array([70.5, 10.5]) / 81
    alpha = np.array([30, 10]) + draws.POOLING * shares
    np.testing.assert_allclose(drawn[:, 0, :, 0].mean(0), alpha / alpha.sum(), atol=0.004)
    expected = stats.beta(alpha[0], alpha[1]).std()
    np.testing.assert_allclose(drawn[:, 0, 0, 0].std(), expected, rtol=0.05)


def test_a_large_crowd_is_drawn_from_the_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "MAX_WORK", 10)
    q = np.array([[0.3, 0.7], [0.9, 0.1]])
    found = Evidence(Annotations.from_matrix([[0, 0], [0, 0]], classes=[0, 1]), q, 1 - q, np.eye(2), np.ones((2, 2, 2)))
    share = np.mean([z for seed in range(40) for z in label_draws(found, np.random.default_rng(seed))], axis=0)
    np.testing.assert_allclose(share, q[:, 1], atol=0.03)


def test_crowds_are_judged_by_a_tempered_posterior_as_it_is() -> None:
    """The sampler is sure that the first annotator is right; the posterior, which was made less sure, is not."""
    q = [[0.7, 0.3]] * 40 + [[0.3, 0.7]] * 40
    votes = [[0, 0, 0]] * 40 + [[1, 1, 1]] * 40
    plain = evidence(votes, q)
    tempered = replace(plain, tempered=True)
    usual, found = (intervals_of(each, seed=1) for each in (plain, tempered))
    rng = np.random.default_rng(5)
    k = rng.binomial(80, 0.7, size=100_000)
    expected = np.quantile(rng.beta(k + 0.5, 80 - k + 0.5), [0.025, 0.975])
    np.testing.assert_allclose([found.quality.low[0], found.quality.high[0]], expected, atol=0.04)
    assert usual.quality.low[0] > 0.9
    np.testing.assert_allclose(found.confusion.value, [[0.7, 0.3], [0.3, 0.7]], atol=0.02)


def test_the_seed_decides() -> None:
    found = evidence([[0, 1], [1, 1]] * 9, [[0.6, 0.4], [0.3, 0.7]] * 9)
    first, again, other = (intervals_of(found, seed=seed) for seed in (1, 1, 2))
    for one, same in zip((*first.quality, *first.confusion), (*again.quality, *again.confusion), strict=True):
        np.testing.assert_array_equal(one, same)
    assert (first.quality.low != other.quality.low).any()


def test_intervals_hold_the_truth_of_a_simulated_crowd() -> None:
    """Twenty crowds of known truth, whose classifier says little: nineteen in twenty intervals are right."""
    held = total = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        z = rng.integers(3, size=300)
        pi = 0.55 * np.eye(3) + 0.45 * rng.dirichlet(np.ones(3), size=(12, 3))
        matrix = (pi[:, z].cumsum(-1) > rng.random((12, 300, 1))).argmax(-1).T
        matrix[rng.random(matrix.shape) < 0.6] = -1
        crowd = Annotations.from_matrix(matrix, classes=range(3))
        f = 0.3 * np.eye(3)[z] + 0.7 * rng.dirichlet(np.ones(3), size=300)
        f /= f.sum(1, keepdims=True)
        found = Evidence(crowd, f, f, pi.mean(0), pi)
        _, low, high = intervals_of(found, seed=seed).quality
        right = np.bincount(crowd.annotators, weights=pi[crowd.annotators, z[crowd.tasks], z[crowd.tasks]])
        truth = right / crowd.labels_per_annotator()
        held += ((low <= truth) & (truth <= high)).sum()
        total += len(truth)
    assert 0.90 <= held / total <= 1.0
