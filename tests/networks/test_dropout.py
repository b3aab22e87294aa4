"""Dropout by 16 random bits: the right share, the right scale, no pattern."""

from __future__ import annotations

import pytest
import torch

from conal.networks.backbones import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_share_scale_and_independence(p: float) -> None:
    torch.manual_seed(1)
    made = Dropout(p)(torch.ones(400, 401))
    dropped = (made == 0).double()
    assert float(dropped.mean()) == pytest.approx(p, abs=4 * (p * (1 - p) / dropped.numel()) ** 0.5)
    assert made[made > 0].unique().tolist() == [pytest.approx(1 / (1 - p), rel=1e-4)]
    for lag in (1, 2, 3, 4, 401):  # within a random word, between words, between rows
        a, b = dropped.flatten()[:-lag], dropped.flatten()[lag:]
        assert abs(float(torch.corrcoef(torch.stack([a, b]))[0, 1])) < 0.01


def test_gradients_pass_where_values_do() -> None:
    x = torch.randn(50, 7, dtype=torch.float64, requires_grad=True)
    made = Dropout(0.4)(x)
    (gradient,) = torch.autograd.grad(made.sum(), x)
    torch.testing.assert_close(gradient * x, made)


def test_nothing_is_dropped_in_evaluation_and_everything_next_to_one() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert float((Dropout(0.9999999)(torch.ones(1000)) == 0).float().mean()) > 0.99


def test_same_seed_same_units() -> None:
    found = []
    for _ in range(2):
        torch.manual_seed(5)
        found.append(Dropout(0.5)(torch.ones(101)))
    torch.testing.assert_close(*found)
