"""The embedded default."""

from __future__ import annotations

import numpy as np

from conal.datasets import digits
from conal.datasets.simulated import LOOK_ALIKES, SWAPS


def test_split_has_the_documented_sizes_and_no_overlap() -> None:
    data = digits()
    assert data.valid is not None
    assert data.test is not None
    assert (data.x.shape, data.valid.x.shape, data.test.x.shape) == ((1000, 64), (297, 64), (500, 64))
    assert (data.x.dtype.name, data.x.min(), data.x.max()) == ("float32", 0, 1)
    images = np.concatenate([data.x, data.valid.x, data.test.x])
    assert len(np.unique(images, axis=0)) == 1797
    for y in (data.y_true, data.valid.y, data.test.y):
        np.testing.assert_allclose(np.bincount(y, minlength=10) / len(y), 0.1, atol=0.006)


def test_crowd_confuses_look_alikes() -> None:
    truth = digits(common_strength=0.45).truth
    assert truth is not None
    for true, observed in LOOK_ALIKES.items():
        assert truth.pi_g[true, observed] == 0.45
        assert truth.pi_g[true, true] == 0.55


def test_symmetric_crowd_swaps_pairs() -> None:
    truth = digits(common_type="symmetric", common_strength=0.5).truth
    assert truth is not None
    assert sorted(digit for pair in SWAPS for digit in pair) == list(range(10))
    for a, b in SWAPS:
        assert truth.pi_g[a, b] == truth.pi_g[b, a] == 0.5


def test_own_pairs_replace_the_look_alikes() -> None:
    truth = digits(pairs={1: 2}).truth
    assert truth is not None
    assert truth.pi_g[1, 2] == 0.5
    assert truth.pi_g[3, 3] == 1.0


def test_seed_changes_the_crowd_and_not_the_split() -> None:
    first, again, other = digits(seed=0), digits(seed=0), digits(seed=1)
    np.testing.assert_array_equal(first.x, other.x)
    assert first.annotations == again.annotations
    assert first.annotations != other.annotations
