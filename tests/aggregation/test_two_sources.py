"""The noise model of two sources: the same on NumPy arrays and torch tensors, against explicit loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from conal.aggregation.common_confusion import mixture, share_of_common, updated_omega
from conal.aggregation.counts import normalised

R, C = 4, 3


def model(seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Counts, omega, common and individual confusion."""
    rng = np.random.default_rng(seed)
    pi_g, pi_r = rng.dirichlet(np.ones(C), size=C), rng.dirichlet(np.ones(C), size=(R, C))
    return rng.random((R, C, C)) * 9, rng.random(R), pi_g, pi_r


def test_the_split_of_counts_agrees_with_loops() -> None:
    _, omega, pi_g, pi_r = model()
    mixed, share = mixture(omega, pi_g, pi_r), share_of_common(omega, pi_g, pi_r)
    for r, c, y in np.ndindex(R, C, C):
        both = omega[r] * pi_g[c, y] + (1 - omega[r]) * pi_r[r, c, y]
        assert mixed[r, c, y] == pytest.approx(both)
        assert share[r, c, y] == pytest.approx(omega[r] * pi_g[c, y] / both)


def test_omega_is_the_mode_of_its_prior() -> None:
    counts, omega, pi_g, pi_r = model()
    common = counts * share_of_common(omega, pi_g, pi_r)
    expected = [(common[r].sum() + 0.5) / (counts[r].sum() + 2.5) for r in range(R)]
    np.testing.assert_allclose(updated_omega(common, counts, 0.5, 2.0), expected)


def test_labels_have_an_omega_each() -> None:
    """Omega (P,) beside the columns (P, C) of the labels, or beside one probability (P,) each."""
    rng = np.random.default_rng(1)
    omega, common, own = rng.random(6), rng.random((6, C)), rng.random((6, C))
    np.testing.assert_allclose(mixture(omega, common, own), (omega * common.T + (1 - omega) * own.T).T)
    a, b = common[:, 0], own[:, 0]
    np.testing.assert_allclose(share_of_common(omega, a, b), omega * a / (omega * a + (1 - omega) * b))


def test_without_labels_nothing_is_nan() -> None:
    nothing = np.zeros((R, C, C))
    np.testing.assert_array_equal(updated_omega(nothing, nothing, 0.0, 0.0), np.full(R, 0.5))
    np.testing.assert_array_equal(normalised(nothing), np.full((R, C, C), 1 / C))
    omega, pi_g = np.full(R, 0.3), np.zeros((C, C))
    np.testing.assert_array_equal(share_of_common(omega, pi_g, nothing), np.full((R, C, C), 0.5))


def test_a_share_is_never_above_one() -> None:
    """Without pseudo-labels the rest of the counts would be negative."""
    _, omega, pi_g, _ = model(2)
    assert (share_of_common(omega, pi_g, np.zeros((R, C, C))) == 1).all()


@pytest.mark.parametrize("seed", range(3))
def test_tensors_give_what_arrays_give(seed: int) -> None:
    arrays = counts, omega, pi_g, pi_r = model(seed)
    n, w, g, r = (torch.tensor(array) for array in arrays)
    common = counts * share_of_common(omega, pi_g, pi_r)
    pairs = [
        (mixture(w, g, r), mixture(omega, pi_g, pi_r)),
        (share_of_common(w, g, r), share_of_common(omega, pi_g, pi_r)),
        (updated_omega(n * share_of_common(w, g, r), n, 1.0, 1.0), updated_omega(common, counts, 1.0, 1.0)),
        (normalised(n), normalised(counts)),
        (normalised(n * 0), normalised(counts * 0)),
    ]
    for ours, theirs in pairs:
        assert isinstance(ours, torch.Tensor)
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6 if ours is pairs[-1][0] else 1e-13)
