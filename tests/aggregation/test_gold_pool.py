"""Gold pool: what each reading of the votes is, how they are weighted, and that true labels pay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax
from sklearn.linear_model import Ridge

from conal import Annotations, aggregation
from conal.aggregation import DawidSkene, GoldPool
from conal.aggregation import gold_pool as module
from conal.aggregation.gold_pool import pool_weights, ridge, weighted_vote

RNG = np.random.default_rng


def crowd_and_truth(seed: int, n_tasks: int = 120, n_annotators: int = 9) -> tuple[Annotations, np.ndarray]:
    """Three classes; two annotators in three fall for the same wrong class of most tasks; some labels are absent."""
    rng = RNG(seed)
    truth = rng.integers(0, 3, n_tasks)
    trap, hard = (truth + rng.integers(1, 3, n_tasks)) % 3, rng.random(n_tasks) < 0.8
    labels = np.where(rng.random((n_annotators, n_tasks)) < 0.75, truth, rng.integers(0, 3, (n_annotators, n_tasks)))
    falls = hard & (rng.random((n_annotators, n_tasks)) < 0.85) & (np.arange(n_annotators) % 3 > 0)[:, None]
    labels = np.where(falls, trap, labels)
    labels[rng.random(labels.shape) < 0.1] = -1
    return Annotations.from_matrix(labels.T, classes=[0, 1, 2]), truth


def gold_of(truth: np.ndarray, count: int, seed: int = 0) -> dict[int, int]:
    return {int(i): int(truth[i]) for i in RNG(seed).choice(len(truth), count, replace=False)}


def one_hot(crowd: Annotations) -> np.ndarray:
    votes = np.zeros((crowd.n_tasks, crowd.n_annotators, crowd.n_classes))
    votes[crowd.tasks, crowd.annotators, crowd.labels] = 1
    return votes


@pytest.mark.parametrize("penalty", [1.0, 30.0])
def test_ridge_is_that_of_scikit_learn_also_without_each_task(monkeypatch: pytest.MonkeyPatch, penalty: float) -> None:
    monkeypatch.setattr(module, "RIDGES", (penalty,))
    crowd, truth = crowd_and_truth(0)
    gold = np.arange(0, 60, 3)
    found = ridge(module._one_hot(crowd), 3, gold, truth[gold])
    votes, targets = one_hot(crowd).reshape(crowd.n_tasks, -1), np.eye(3)[truth]
    model = Ridge(alpha=penalty).fit(votes[gold], targets[gold])
    np.testing.assert_allclose(found.scores, model.predict(votes), atol=1e-9)
    for place, task in enumerate(gold):
        others = np.delete(gold, place)
        without = Ridge(alpha=penalty).fit(votes[others], targets[others]).predict(votes[[task]])[0]
        np.testing.assert_allclose(found.left_out[place], without, atol=1e-9)


def test_the_penalty_has_the_least_error_on_tasks_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd, truth = crowd_and_truth(1)
    gold = np.arange(40)
    best = ridge(module._one_hot(crowd), 3, gold, truth[gold])
    errors = {}
    for penalty in module.RIDGES:
        monkeypatch.setattr(module, "RIDGES", (penalty,))
        each = ridge(module._one_hot(crowd), 3, gold, truth[gold])
        errors[penalty] = ((np.eye(3)[truth[gold]] - each.left_out) ** 2).mean()
        if np.array_equal(each.scores, best.scores):
            chosen = penalty
    assert chosen == min(errors, key=lambda penalty: errors[penalty])


def test_the_weighted_vote_also_without_each_task() -> None:
    crowd, truth = crowd_and_truth(2)
    gold = np.array([5, 1, 17, 30, 44, 80])
    found = weighted_vote(crowd, gold, truth[gold])
    votes = one_hot(crowd)
    per_task = crowd.n_annotations / (crowd.labels_per_task() > 0).sum()

    def weights(tasks: np.ndarray) -> np.ndarray:
        right = np.array([[votes[i, r, truth[i]] for i in tasks] for r in range(crowd.n_annotators)]).sum(1)
        given = votes[tasks].sum((0, 2))
        usual = (right.sum() + 1) / (given.sum() + 3)
        skill = np.clip((right + 2 * usual) / (given + 2), 0.02, 0.98)
        return np.asarray(np.log(skill * 2 / (1 - skill)) / np.sqrt(per_task))

    np.testing.assert_allclose(found.scores, np.einsum("nrc,r->nc", votes, weights(gold)), atol=1e-12)
    for place, task in enumerate(gold):
        expected = np.einsum("rc,r->c", votes[task], weights(np.delete(gold, place)))
        np.testing.assert_allclose(found.left_out[place], expected, atol=1e-12)


def test_the_weights_minimise_the_penalised_log_loss() -> None:
    rng = RNG(3)
    truth = rng.integers(0, 3, 30)
    scores = rng.normal(size=(3, 30, 3)) + np.array([0.5, 1.5, 0.0])[:, None, None] * np.eye(3)[truth]

    def loss(weights: np.ndarray) -> float:
        pooled = log_softmax(np.einsum("k,kgc->gc", weights, scores), axis=1)
        penalty = 0.03 * np.log(weights[0] / 0.3) ** 2 + (weights[1:] ** 2).sum()
        return float(-pooled[np.arange(30), truth].sum() + penalty)

    found = pool_weights(scores, truth)
    bounds = [(1e-3, None), (0, None), (0, None)]
    slow = minimize(loss, [0.6, 1.0, 0.1], bounds=bounds, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10})
    assert loss(found) <= slow.fun + 1e-7
    np.testing.assert_allclose(found, slow.x, atol=2e-3)
    slope = approx_fprime(found, loss, 1e-7)
    assert np.abs(slope[found > 0.01]).max() < 1e-3
    assert (slope[found <= 0.01] >= 0).all()


@pytest.mark.parametrize("known", [{}, {0: 0, 1: 1, 2: 2, 3: 0}, dict.fromkeys(range(12), 1)])
def test_without_enough_true_labels_it_is_dawid_skene(known: dict[int, int]) -> None:
    crowd, _ = crowd_and_truth(4)
    fitted = GoldPool(guard="off").fit(crowd, true_labels=known or None)
    expected = DawidSkene(guard="off").fit(crowd, true_labels=known or None).probas_
    np.testing.assert_allclose(fitted.probas_, expected, atol=1e-12)
    assert fitted.weights_ == {"dawid-skene": 1.0, "ridge": 0.0, "weighted-vote": 0.0}


def test_the_posterior_is_the_weighted_pool() -> None:
    crowd, truth = crowd_and_truth(5)
    known = gold_of(truth, 25)
    fitted = GoldPool(seed=3).fit(crowd, true_labels=known)
    codes = np.full(crowd.n_tasks, -1)
    codes[list(known)] = list(known.values())
    gold = RNG(3).permutation(np.flatnonzero(codes >= 0))
    posterior = DawidSkene(guard="repair").fit(crowd, true_labels=known).probas_
    readings = [
        np.log(0.97 * posterior + 0.01),
        ridge(module._one_hot(crowd), 3, gold, codes[gold]).scores,
        weighted_vote(crowd, gold, codes[gold]).scores,
    ]
    pooled = sum(weight * scores for weight, scores in zip(fitted.weights_.values(), readings, strict=True))
    expected = np.exp(log_softmax(pooled, axis=1))
    expected[gold] = np.eye(3)[codes[gold]]
    np.testing.assert_allclose(fitted.probas_, expected, atol=1e-9)
    assert fitted.why_.startswith("weights by 25 true labels: dawid-skene ")


def test_a_loaded_pool_has_its_weights(tmp_path: Path) -> None:
    crowd, truth = crowd_and_truth(6)
    fitted = GoldPool().fit(crowd, true_labels=gold_of(truth, 25))
    fitted.save(tmp_path / "jury")
    loaded = aggregation.load(tmp_path / "jury")
    assert isinstance(loaded, GoldPool)
    assert loaded.weights_ == fitted.weights_
    assert loaded.combiner().document == fitted.combiner().document


def test_true_labels_rescue_a_crowd_that_errs_together() -> None:
    """Most annotators fall for the same wrong class: without true labels nothing helps; with forty, the pool does."""
    gains, calibration = [], []
    for seed in range(5):
        crowd, truth = crowd_and_truth(seed, n_tasks=300)
        known = gold_of(truth, 40, seed)
        rest = np.setdiff1d(np.arange(300), list(known))
        alone = DawidSkene(guard="off").fit(crowd).codes_
        fitted = GoldPool(guard="off").fit(crowd, true_labels=known)
        right = (fitted.codes_ == truth)[rest].mean()
        gains.append(right - (alone == truth)[rest].mean())
        calibration.append(fitted.probas_[rest].max(1).mean() - right)
    assert min(gains) > 0.3
    assert abs(np.mean(calibration)) < 0.05
