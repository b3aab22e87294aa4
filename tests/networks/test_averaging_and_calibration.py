"""Moving averages of weights by the formula, and temperatures against an independent optimiser."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import nn

from conal.networks.cross_fitting import WeightAverage, fit_temperature


def test_averages_follow_the_formula_and_statistics_are_copied() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(2, 2)
    network = nn.Sequential(layer, nn.BatchNorm1d(2))
    average = WeightAverage([network], decay=0.3)
    expected = layer.weight.detach().clone()
    for step in range(1, 6):
        with torch.no_grad():
            layer.weight.add_(torch.randn(2, 2))
        network(torch.randn(8, 2))
        average.update()
        decay = min(0.3, step / (step + 10))
        expected = decay * expected + (1 - decay) * layer.weight.detach()
        torch.testing.assert_close(next(average.parameters()).detach(), expected)
    assert not any(parameter.requires_grad for parameter in average.parameters())
    for mine, theirs in zip(average.networks[0].buffers(), network.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("truth", [0.2, 0.7, 1.3])
def test_the_temperature_is_the_optimum(truth: float) -> None:
    torch.manual_seed(1)
    log_proba = (3 * torch.randn(400, 4)).log_softmax(-1)
    target = torch.nn.functional.one_hot(
        torch.distributions.Categorical(logits=truth * log_proba).sample(), num_classes=4
    ).float()

    def loss(beta: float) -> float:
        return -float((target * (beta * log_proba).log_softmax(-1)).sum(-1).mean())

    best = minimize_scalar(loss, bounds=(0.05, 1.5), method="bounded", options={"xatol": 1e-6}).x
    found = float(fit_temperature(log_proba, target))
    np.testing.assert_allclose(found, best, atol=5e-3)
    np.testing.assert_allclose(found, truth, rtol=0.25)


def test_the_slope_is_zero_at_the_temperature_and_not_beyond_the_ends() -> None:
    torch.manual_seed(3)
    log_proba = (4 * torch.randn(300, 5, dtype=torch.float64)).log_softmax(-1)
    for truth, end in ((0.4, None), (2.5, 1.5), (0.001, 0.05)):
        target = (truth * log_proba).softmax(-1)
        found = float(fit_temperature(log_proba, target))
        assert found == pytest.approx(truth if end is None else end, abs=1e-4)


def test_a_limit_is_kept() -> None:
    log_proba = torch.tensor([[0.8, 0.2]]).log()
    target = torch.tensor([[0.9, 0.1]])
    assert float(fit_temperature(log_proba, target)) > 1.2
    assert float(fit_temperature(log_proba, target, highest=1.0)) == 1.0


def test_a_network_that_knows_nothing_is_hardly_heard() -> None:
    torch.manual_seed(2)
    log_proba = (5 * torch.randn(2000, 3)).log_softmax(-1)
    target = torch.nn.functional.one_hot(torch.randint(3, (2000,)), num_classes=3).float()
    assert float(fit_temperature(log_proba, target)) < 0.1
