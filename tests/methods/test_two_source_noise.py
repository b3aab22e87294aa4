"""Common and individual confusion in closed form, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from conal.aggregation.group_confusion import levels_of
from conal.methods.two_source_noise import PseudoLabels, TwoSourceNoise, learned_prior, prior_strength

from .loops import slow_sources

R, C = 4, 3


def noise_model(n_annotators: int, pooling: float, **options: Any) -> TwoSourceNoise:
    pseudo = PseudoLabels(common=0.5, diagonal=1.5, pooling=pooling)
    return TwoSourceNoise(n_annotators, C, pseudo, omega_start=0.2, **options)


def test_the_two_sources_against_loops() -> None:
    rng = np.random.default_rng(3)
    noise = noise_model(R, pooling=0.7)
    counts = rng.random((R, C, C)) * 9
    noise.fit(torch.from_numpy(counts).float())
    state = [tensor.double().numpy().copy() for tensor in (noise.pi_g, noise.pi_r, noise.omega)]
    more = rng.random((R, C, C)) * 9
    noise.fit(torch.from_numpy(more).float())
    expected_state = slow_sources(more, state[0], state[1], state[2], 0.7)
    for found, expected in zip((noise.pi_g, noise.pi_r, noise.omega), expected_state, strict=True):
        np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)


def test_pooled_matrices_are_counts_drawn_to_the_common_ones() -> None:
    rng = np.random.default_rng(4)
    counts = rng.random((R, C, C)) * 9
    noise = noise_model(R, pooling=2.0, learn_omega=False)
    noise.fit(torch.from_numpy(counts).float())
    pi_g = counts.sum(0) + 0.5 + 1.5 * np.eye(C)
    pi_g /= pi_g.sum(1, keepdims=True)
    expected = (counts + 2.0 * pi_g) / (counts.sum(2, keepdims=True) + 2.0)
    np.testing.assert_allclose(noise.pi_r.numpy(), expected, atol=1e-6)
    log_prob = noise.log_prob(torch.tensor([1, -1]), torch.tensor([2, 0]), torch.tensor([True, False]))
    np.testing.assert_allclose(log_prob[0].exp().numpy(), expected[1, :, 2], atol=1e-6)
    np.testing.assert_allclose(log_prob[1].exp().numpy(), pi_g[:, 0], atol=1e-6)


def test_the_matrices_are_those_of_all_labels() -> None:
    every = torch.cartesian_prod(torch.arange(R), torch.arange(C))
    for learned in (True, False):
        noise = noise_model(R, pooling=1.0, learn_omega=learned)
        noise.fit(torch.rand(R, C, C, generator=torch.Generator().manual_seed(1)) * 9)
        one_by_one = noise.log_prob(every[:, 0], every[:, 1], torch.ones(len(every), dtype=torch.bool))
        found = noise.log_matrices().transpose(1, 2).reshape(R * C, C)
        torch.testing.assert_close(found, one_by_one)


def test_names_are_given_to_the_matrices_too() -> None:
    noise = noise_model(2, pooling=1.0)
    noise.fit(torch.rand(2, 3, 3) * 5)
    before = noise.pi_g.clone(), noise.pi_r.clone()
    noise.reorder(torch.tensor([2, 0, 1]))
    torch.testing.assert_close(noise.pi_g[0], before[0][2])
    torch.testing.assert_close(noise.pi_r[1, 1], before[1][1, 0])


def test_a_uniform_start_halves_every_label() -> None:
    counts = torch.rand(R, C, C) * 9
    noise = TwoSourceNoise(R, C, PseudoLabels(common=0.1, individual=0.1), omega_start=0.5, uniform_start=True)
    noise.fit(counts)
    torch.testing.assert_close(noise.omega, torch.full((R,), 0.5))
    expected = counts / 2 + 0.1
    torch.testing.assert_close(noise.pi_r, expected / expected.sum(-1, keepdim=True))


def test_matrices_are_drawn_to_those_of_groups() -> None:
    """The groups' pseudo-labels are those of the aggregator; omega is their share."""
    rng = np.random.default_rng(5)
    counts = rng.random((R, C, C)) * 9
    groups = np.array([0, 1, 0, 1])
    noise = noise_model(R, pooling=2.0, learn_omega=False, groups=torch.from_numpy(groups))
    noise.fit(torch.from_numpy(counts).float())
    pseudo = levels_of(counts, groups).alpha[groups]
    expected = (counts + pseudo) / (counts + pseudo).sum(2, keepdims=True)
    np.testing.assert_allclose(noise.pi_r.numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(noise.row_pseudo.numpy(), pseudo.sum(2), rtol=1e-5)
    share = pseudo.sum((1, 2)) / (counts + pseudo).sum((1, 2))
    np.testing.assert_allclose(noise.omega.numpy(), share, rtol=1e-5)
    np.testing.assert_array_equal(pseudo[0], pseudo[2])
    assert not np.allclose(pseudo[0], pseudo[1])


def test_the_mixture_has_no_groups() -> None:
    counts = torch.rand(R, C, C) * 9
    with_groups, without = noise_model(R, pooling=0.7, groups=torch.tensor([0, 0, 1, 1])), noise_model(R, pooling=0.7)
    for noise in (with_groups, without):
        noise.fit(counts)
    torch.testing.assert_close(with_groups.pi_r, without.pi_r)


@pytest.mark.parametrize("strength", [3.0, 20.0])
def test_the_strength_of_a_prior_is_found_again(strength: float) -> None:
    rng = np.random.default_rng(5)
    mean = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8]])
    rows = np.stack([[rng.dirichlet(strength * row) for row in mean] for _ in range(300)])
    counts = torch.from_numpy(rng.multinomial(40, rows)).double()
    found = prior_strength(counts, torch.from_numpy(mean).expand(300, C, C))
    assert strength / 1.15 < found < strength * 1.15


def test_matrices_are_drawn_to_the_common_one_at_the_annotators_skill() -> None:
    """With labels of one class only, an annotator's skill says what the matrix is like in the others."""
    common = torch.tensor([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]])
    counts = torch.zeros(20, C, C)
    counts[:10, 0] = torch.tensor([100.0, 0.0, 0.0])
    counts[10:, 0] = torch.tensor([40.0, 40.0, 20.0])
    found = learned_prior(counts, common, 30.0)
    mean = found / found.sum(2, keepdim=True)
    torch.testing.assert_close(found.sum(2), found[0, 0].sum().expand(20, C))  # as many pseudo-labels in every row
    assert float(mean[0, 1, 1]) > 0.95
    assert float(mean[10, 1, 1]) == pytest.approx(0.41, abs=0.03)
    torch.testing.assert_close(mean[:, 1, 0] / mean[:, 1, 2], torch.full((20,), 2.0))  # mistakes as in the common one


def test_an_annotator_without_labels_has_the_common_prior() -> None:
    common = torch.tensor([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]])
    counts = 20 * common.expand(R, C, C).clone()
    counts[0] = 0
    found = learned_prior(counts, common, 30.0)[0]
    torch.testing.assert_close(found / found.sum(1, keepdim=True), common)
    noise = TwoSourceNoise(R, C, PseudoLabels(0.5, pooling=30.0, learned=True), omega_start=0.2, learn_omega=False)
    noise.fit(counts)
    assert float(noise.omega[0]) == pytest.approx(1.0)  # all of it is due to the prior
    assert 0 < float(noise.omega[1]) < 1
