"""Common and individual confusion in closed form, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from conal.methods.two_source_noise import PseudoLabels, TwoSourceNoise

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
