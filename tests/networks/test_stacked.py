"""Networks that are trained as one: the same losses, gradients and statistics as one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import conal
from conal.methods import cross_conal as cross_fitted_em
from conal.networks import MLP
from conal.networks.cross_fitting import (
    Seen,
    StackedNetworks,
    WeightAverage,
    all_but_one_fold,
    cross_fitted_loss,
    stack,
    stacked_loss,
)

K, N, D, C = 3, 20, 4, 5


class Branching(nn.Module):
    """What it computes depends on the values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(D, C)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layer(x)
        return logits if logits.sum() > 0 else -logits


MAKERS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: MLP(D, C, hidden=(6, 7), dropout=0.0),
    "mlp with batch norm": lambda: MLP(D, C, hidden=(6,), dropout=0.0, batch_norm=True),
    "a user's module": lambda: nn.Sequential(nn.Linear(D, 6), nn.Tanh(), nn.Linear(6, C)),
    "a user's convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, D)), nn.Conv1d(1, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(3 * (D - 1), C)
    ),
}


def problem(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Instances, targets, folds of unequal size."""
    made = torch.Generator().manual_seed(seed)
    x, target = torch.randn(N, D, generator=made), torch.rand(N, C, generator=made).softmax(1)
    return x, target, torch.tensor([0] * 9 + [1] * 6 + [2] * 5)[torch.randperm(N, generator=made)]


def one_by_one(networks: list[nn.Module], x: Tensor, target: Tensor, fold: Tensor) -> dict[str, list[Tensor]]:
    """Loss and gradients by separate passes."""
    loss = cross_fitted_loss(networks, x, target, fold, weight=0.5)
    loss.backward()
    names = [name for name, _ in networks[0].named_parameters()]
    return {"loss": [loss]} | {name: [net.get_parameter(name).grad.clone() for net in networks] for name in names}  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", MAKERS)
def test_loss_and_gradients_are_those_of_separate_networks(kind: str) -> None:
    networks = [MAKERS[kind]() for _ in range(K)]
    x, target, fold = problem()
    expected = one_by_one(networks, x, target, fold)
    stacked = stack(networks, x[:2])
    assert stacked is not None
    loss = stacked_loss(stacked, x, target, fold, weight=0.5)
    loss.backward()
    torch.testing.assert_close(loss, expected["loss"][0])
    for name, parameter in zip(list(expected)[1:], stacked.parameters, strict=True):
        torch.testing.assert_close(parameter.grad, torch.stack(expected[name]), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("hidden", [(), (6,), (6, 7)])
def test_the_step_written_out_is_that_of_automatic_differentiation(hidden: tuple[int, ...]) -> None:
    """With the same dropout, and in steps of unequal size that use the same memory."""
    stacked = StackedNetworks([MLP(D, C, hidden=hidden, dropout=0.5, input_dropout=0.3) for _ in range(K)])
    for n in (N, N - 6, N):
        x, target, fold = (each[:n] for each in problem())
        seen = all_but_one_fold(fold, K)
        torch.manual_seed(n)
        expected = 0.3 * cross_entropy(stacked(x, seen), 2 * target[seen.rows], reduction="sum")
        gradients = torch.autograd.grad(expected, stacked.parameters)
        torch.manual_seed(n)
        loss = stacked.loss(x, seen, 2 * target[seen.rows], 0.3)
        torch.testing.assert_close(loss, expected)
        assert loss.grad_fn is not None
        assert "Step" in loss.grad_fn.name()
        torch.testing.assert_close(torch.autograd.grad(3 * loss, stacked.parameters), [3 * each for each in gradients])
    with torch.no_grad():
        assert not stacked.loss(x, seen, target[seen.rows], 0.3).requires_grad


def test_a_network_that_sees_one_instance_has_no_loss() -> None:
    """As for separate networks: batch normalisation cannot take a single one."""
    networks = [MAKERS["mlp"]() for _ in range(2)]
    x, target, _ = problem()
    fold = torch.tensor([0, 1, 1, 1])
    expected = cross_fitted_loss(networks, x[:4], target[:4], fold, weight=0.5)
    torch.testing.assert_close(stacked_loss(StackedNetworks(networks), x[:4], target[:4], fold, 0.5), expected)


def test_running_statistics_are_those_of_batch_norm() -> None:
    networks, twins = [MAKERS["mlp with batch norm"]() for _ in range(K)], []
    for network in networks:
        twin = MAKERS["mlp with batch norm"]()
        twin.load_state_dict(network.state_dict())
        twins.append(twin)
    stacked = StackedNetworks(networks)
    for seed in range(3):
        x, target, fold = problem(seed)
        cross_fitted_loss(twins, x, target, fold, 1.0)
        stacked_loss(stacked, x, target, fold, 1.0)
    for network, twin in zip(networks, twins, strict=True):
        for name, buffer in twin.named_buffers():
            torch.testing.assert_close(network.get_buffer(name), buffer)
    x, _, _ = problem(7)
    for network in networks:
        network.eval()
    seen = Seen(torch.arange(N), [0] * K, [N] * K)
    torch.testing.assert_close(stacked(x, seen), torch.cat([network(x) for network in networks]))


def test_networks_follow_the_stack_and_it_follows_what_is_loaded() -> None:
    networks = [MAKERS["mlp"]() for _ in range(K)]
    averages = WeightAverage(networks, decay=0.5)
    stacked = StackedNetworks(networks)
    averages.follow(stacked)
    before = [network[1].weight.clone() for network in averages.networks]  # type: ignore[index]
    with torch.no_grad():
        stacked.parameters[0].add_(1)
    averages.update()  # of the first step, whose decay is 1 / 11
    for network, average, old in zip(networks, averages.networks, before, strict=True):
        torch.testing.assert_close(average[1].weight, old / 11 + network[1].weight * 10 / 11)  # type: ignore[index]
    other = MAKERS["mlp"]()
    networks[1].load_state_dict(other.state_dict())
    torch.testing.assert_close(stacked.parameters[0][1], other[1].weight)  # type: ignore[index]


@pytest.mark.parametrize(
    "make", [Branching, lambda: nn.Sequential(nn.Linear(D, 6), nn.BatchNorm1d(6), nn.Linear(6, C))]
)
def test_what_cannot_be_computed_as_one_is_left_alone(make: Callable[[], nn.Module]) -> None:
    networks = [make() for _ in range(K)]
    state = torch.get_rng_state()
    assert stack(networks, problem()[0][:2]) is None
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for network in networks for parameter in network.parameters())


@pytest.mark.parametrize("batch_norm", [False, True])
def test_a_fit_is_that_of_separate_networks(batch_norm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data = conal.datasets.synthetic(n_train=120, n_classes=3, seed=1)

    def fitted() -> conal.CrossCoNAL:
        clf = conal.CrossCoNAL(epochs=6, dropout=0.0, input_dropout=0.0, batch_norm=batch_norm, verbose=False)
        return clf.fit(data.x, data.annotations)

    together = fitted()
    monkeypatch.setattr(cross_fitted_em, "stack", lambda networks, example: None)
    alone = fitted()
    assert data.test is not None
    np.testing.assert_allclose(together.predict_proba(data.test.x), alone.predict_proba(data.test.x), atol=2e-4, rtol=0)
    np.testing.assert_allclose(together.annotator_confusion_, alone.annotator_confusion_, atol=2e-4, rtol=0)
