"""Cross-fitting: every network is trained without its fold, and predicts nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from conal.networks import MLP
from conal.networks.cross_fitting import cross_fitted_loss, held_out_log_proba, mean_log_proba, mixed_pairs

N, D, C, K = 20, 4, 3, 3


class Recorder(nn.Linear):
    """A layer that remembers how many instances it was given."""

    def __init__(self) -> None:
        super().__init__(D, C)
        self.given: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        """As the layer."""
        self.given.append(len(x))
        return super().forward(x)


@pytest.fixture
def networks() -> list[Recorder]:
    torch.manual_seed(0)
    return [Recorder() for _ in range(K)]


def test_predictions_are_those_of_the_network_that_has_not_seen_the_instance(networks: list[Recorder]) -> None:
    x, fold = torch.randn(N, D), torch.arange(N) % K
    found = held_out_log_proba(networks, x, fold)
    assert [network.given for network in networks] == [[7], [7], [6]]
    for i in range(N):
        torch.testing.assert_close(found[i], networks[int(fold[i])](x[i : i + 1])[0].log_softmax(-1))


def test_a_network_without_held_out_instances_is_not_evaluated(networks: list[Recorder]) -> None:
    held_out_log_proba(networks, torch.randn(2, D), torch.tensor([2, 0]))
    assert [network.given for network in networks] == [[1], [], [1]]


def test_the_loss_leaves_every_network_its_fold(networks: list[Recorder]) -> None:
    x, target, fold = torch.randn(N, D), torch.rand(N, C), torch.arange(N) % K
    expected = torch.zeros(())
    for k, network in enumerate(networks):
        for i in range(N):
            if fold[i] != k:
                expected = expected - 0.5 * (target[i] * network(x[i : i + 1])[0].log_softmax(-1)).sum() / K
    torch.testing.assert_close(cross_fitted_loss(networks, x, target, fold, weight=0.5), expected)


def test_a_network_left_without_instances_has_zero_gradients(networks: list[Recorder]) -> None:
    cross_fitted_loss(networks, torch.randn(4, D), torch.rand(4, C), torch.ones(4), weight=1.0).backward()
    gradients = [network.weight.grad for network in networks]
    assert [gradient is not None and bool(gradient.any()) for gradient in gradients] == [True, False, True]
    assert gradients[1] is not None


def test_networks_of_conal_share_the_dropout_of_their_inputs_and_no_other() -> None:
    networks = [MLP(D, C, dropout=0.5, input_dropout=0.5) for _ in range(K)]
    with torch.no_grad():
        for network in networks[1:]:
            network.load_state_dict(networks[0].state_dict())
    given: list[list[Tensor]] = [[] for _ in networks]
    for network, own in zip(networks, given, strict=True):
        for layer in network:
            if isinstance(layer, nn.Linear):
                layer.register_forward_hook(lambda _layer, args, _out, own=own: own.append(args[0]))
    x, fold = torch.ones(N, D), torch.arange(N) % K
    cross_fitted_loss(networks, x, torch.rand(N, C), fold, weight=1.0)
    first, second = ([torch.full((N, own[level].shape[1]), -1.0) for own in given] for level in range(2))
    for k, own in enumerate(given):
        first[k][fold != k], second[k][fold != k] = own
    both = fold == 2  # what networks 0 and 1 see
    assert torch.equal(first[0][both], first[1][both])
    assert set(first[0][both].unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(second[0][both], second[1][both])


def test_probabilities_are_averaged(networks: list[Recorder]) -> None:
    x = torch.randn(N, D)
    expected = torch.stack([network(x).softmax(-1) for network in networks]).mean(0)
    torch.testing.assert_close(mean_log_proba(networks, x).exp(), expected)


def test_mixed_pairs_are_between_two_instances_in_features_as_in_targets() -> None:
    torch.manual_seed(0)
    x = torch.randn(N, D)
    mixed, weights = mixed_pairs(x, torch.eye(N))
    torch.testing.assert_close(weights @ x, mixed)
    torch.testing.assert_close(weights.sum(1), torch.ones(N))
    assert int((weights > 0).sum(1).max()) == 2
    assert bool((weights.diagonal() > 0).all())
    assert len(weights.diagonal().unique()) > N / 2  # every instance has a share of its own


def test_networks_are_trained_on_mixtures_of_what_they_may_see(networks: list[Recorder]) -> None:
    fold = torch.arange(N) % K
    x = torch.where((fold == 1)[:, None], torch.nan, torch.randn(N, D))  # whoever sees fold 1 has a loss of nan
    cross_fitted_loss(networks, x, torch.rand(N, C), fold, weight=0.5, mixup=True).backward()
    assert [bool(network.weight.grad.isnan().any()) for network in networks] == [True, False, True]  # type: ignore[union-attr]
