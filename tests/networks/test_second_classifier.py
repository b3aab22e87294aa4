"""The second classifier: its closed form against slow references, its components, and its weight."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch import Tensor, nn

from conal.networks import second_classifier as components
from conal.networks.cross_fitting import held_out_log_proba
from conal.networks.second_classifier import (
    GaussianExpert,
    MixtureOfExperts,
    mixture_weights,
    principal_components,
)

N, D, C, K = 240, 12, 3, 4


def instances(seed: int = 0) -> tuple[Tensor, Tensor, npt.NDArray[np.int64]]:
    """Correlated features that tell the classes apart, folds, and classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, C, size=N)
    x = rng.normal(size=(N, D)) @ rng.normal(size=(D, D)) + 2.0 + rng.normal(size=(C, D))[y]
    return torch.from_numpy(x).float(), torch.from_numpy(rng.permutation(N) % K), y


def held_out(x: Tensor, fold: Tensor, q: Tensor, block: int = 37) -> tuple[npt.NDArray[np.float32], GaussianExpert]:
    """(N, C) probabilities by the classifiers that have not seen each fold, and what was fitted."""

    def blocks() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        return zip(x.split(block), fold.split(block), q.split(block), strict=True)

    found = GaussianExpert(D, C, K)
    without = found.fit(blocks, len(x))
    assert without is not None
    return held_out_log_proba(without, x, fold).exp().numpy(), found


def test_hard_labels_give_the_discriminant_analysis_of_scikit_learn() -> None:
    x, fold, y = instances()
    proba, found = held_out(x, fold, nn.functional.one_hot(torch.from_numpy(y), C).float())
    expected = np.empty((N, C))
    for k in range(K):
        own = fold.numpy() == k
        reference = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(x.numpy()[~own], y[~own])
        expected[own] = reference.predict_proba(x.numpy()[own])
    np.testing.assert_allclose(proba, expected, atol=2e-5)
    whole = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(x.numpy(), y)
    np.testing.assert_allclose(found.log_proba(x).exp().numpy(), whole.predict_proba(x.numpy()), atol=2e-5)


def test_soft_labels_on_principal_components_against_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five components of twelve; sums over instances one by one."""
    monkeypatch.setattr("conal.networks.second_classifier.TASKS_PER_COMPONENT", N // 5)
    x, fold, _ = instances(1)
    q = torch.from_numpy(np.random.default_rng(2).dirichlet(np.ones(C), size=N)).float()
    proba, _ = held_out(x, fold, q)
    centred = x.double().numpy() - x.double().numpy().mean(0)
    z = centred @ np.linalg.svd(centred, full_matrices=False)[2][:5].T
    for k in range(K):
        seen, own = np.flatnonzero(fold.numpy() != k), np.flatnonzero(fold.numpy() == k)
        weights = q.double().numpy()[seen]
        means = (weights.T @ z[seen]) / weights.sum(0)[:, None]
        covariance = np.zeros((5, 5))
        for i, row in zip(seen, weights, strict=True):
            for c in range(C):
                covariance += row[c] * np.outer(z[i] - means[c], z[i] - means[c]) / len(seen)
        shrunk = 0.9 * covariance + 0.1 * np.trace(covariance) / 5 * np.eye(5)
        for i in own:
            away = z[i] - means
            score = np.log(weights.mean(0)) - 0.5 * np.einsum("cp,pq,cq->c", away, np.linalg.inv(shrunk), away)
            expected = np.exp(score - score.max()) / np.exp(score - score.max()).sum()
            np.testing.assert_allclose(proba[i], expected, atol=2e-5)


def test_many_features_have_the_same_components_without_their_covariance(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(150, 60)) * 0.8 ** np.arange(60) + 1.0).float()
    exact = principal_components(lambda: x.split(40), 6)
    monkeypatch.setattr(components, "EXACT_WIDTH", 8)
    found = principal_components(lambda: x.split(40), 6)
    torch.testing.assert_close(found.mean, exact.mean)
    torch.testing.assert_close(found.basis @ found.basis.T, exact.basis @ exact.basis.T, atol=1e-4, rtol=0)


def test_the_weights_of_experts_never_make_labels_less_likely() -> None:
    log_likelihood = torch.from_numpy(np.random.default_rng(3).normal(size=(200, 2)) * 3)
    values = []
    for rounds in range(1, 30):
        weights = mixture_weights(log_likelihood, rounds)
        assert float(weights.sum()) == pytest.approx(1)
        values.append(float((log_likelihood + weights.log()).logsumexp(1).sum()))
    assert (np.diff(values) >= -1e-9).all()
    assert values[-1] > values[0]
    grid = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    every = (log_likelihood[:, :, None] + torch.stack([grid, 1 - grid]).log()).logsumexp(1).sum(0)
    assert float(mixture_weights(log_likelihood)[0]) == pytest.approx(float(grid[every.argmax()]), abs=2e-3)


def test_a_class_without_tasks_and_features_without_variance_give_numbers() -> None:
    x, fold, y = instances()
    q = nn.functional.one_hot(torch.from_numpy(np.minimum(y, 1)), C).float()
    assert np.isfinite(held_out(x, fold, q)[0]).all()
    assert np.isfinite(held_out(torch.ones_like(x), fold, q)[0]).all()


def test_too_few_tasks_have_no_second_classifier() -> None:
    assert GaussianExpert(D, C, 2).fit(list, 7) is None


def test_copies_have_nothing_that_another_fit_makes_again() -> None:
    x, fold, y = instances()
    _, found = held_out(x, fold, nn.functional.one_hot(torch.from_numpy(y), C).float())
    made = copy.deepcopy(found)
    assert found.scatter is not None
    assert made.scatter is None
    assert made.components is None
    torch.testing.assert_close(made.log_proba(x), found.log_proba(x))


def test_the_mixture_is_a_weighted_mean_of_calibrated_probabilities() -> None:
    torch.manual_seed(0)
    expert, networks = GaussianExpert(D, C, K), [nn.Linear(D, C), nn.Linear(D, C)]
    x = torch.randn(5, D)
    module = MixtureOfExperts(networks, expert)
    by_networks = torch.stack([network(x).softmax(-1) for network in networks]).mean(0)
    torch.testing.assert_close(module(x).exp(), by_networks)  # alone, until it is fitted
    expert.weight.normal_()
    expert.bias.normal_()
    expert.temperatures.copy_(torch.tensor([0.5, 1.4]))
    expert.shares.copy_(torch.tensor([0.3, 0.7]))
    first = (0.5 * by_networks.log()).softmax(-1)
    second = (1.4 * (x @ expert.weight.T + expert.bias).log_softmax(-1)).softmax(-1)
    torch.testing.assert_close(module(x).exp(), 0.3 * first + 0.7 * second)
