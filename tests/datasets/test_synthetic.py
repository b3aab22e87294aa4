"""Gaussian classes with the paper's crowd."""

from __future__ import annotations

import numpy as np
import pytest

from conal.datasets import CrowdDataset, synthetic
from conal.errors import InputError


def nearest_mean_accuracy(data: CrowdDataset) -> float:
    """Test accuracy of the nearest class mean, which is Bayes-optimal up to the error of 8,000 instances' means."""
    assert data.test is not None
    means = np.stack([data.x[data.y_true == c].mean(axis=0) for c in range(len(data.classes))])
    distance = ((data.test.x[:, None] - means) ** 2).sum(axis=2)
    return float((distance.argmin(axis=1) == data.test.y).mean())


def test_sizes_are_the_papers() -> None:
    data = synthetic()
    assert data.valid is not None
    assert data.test is not None
    assert (data.x.shape, data.x.dtype.name) == ((8000, 20), "float32")
    assert (len(data.valid), len(data.test)) == (1000, 1000)
    ann = data.annotations
    assert (ann.n_tasks, ann.n_annotators, ann.n_classes) == (8000, 30, 6)
    assert ann.n_annotations / ann.n_tasks == pytest.approx(3.0, abs=0.1)
    assert ann.by_position
    assert data.y_true.dtype == np.int64


def test_classes_are_separable_but_not_trivially() -> None:
    accuracy = [nearest_mean_accuracy(synthetic(seed=seed)) for seed in range(5)]
    assert 0.94 < np.mean(accuracy) < 0.98
    assert f"accuracy is about {100 * np.mean(accuracy):.0f} %" in " ".join(str(synthetic.__doc__).split())


def test_features_have_unit_variance_around_the_class_mean() -> None:
    data = synthetic(n_train=6000, separation=3.0)
    spread = np.stack([data.x[data.y_true == c].std(axis=0) for c in range(6)])
    np.testing.assert_allclose(spread, 1.0, atol=0.12)
    np.testing.assert_allclose(np.bincount(data.y_true) / 6000, 1 / 6, atol=0.03)


def test_other_noise_keeps_the_instances() -> None:
    first, second = synthetic(n_train=100), synthetic(n_train=100, common_strength=0.8, proportion=0.7, n_annotators=9)
    np.testing.assert_array_equal(first.x, second.x)
    np.testing.assert_array_equal(first.y_true, second.y_true)


def test_same_seed_same_data() -> None:
    first, second, other = (synthetic(n_train=50, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.x, second.x)
    assert first.annotations == second.annotations
    assert not np.array_equal(first.x, other.x)


def test_truth_is_returned() -> None:
    data = synthetic(n_train=200, common_strength=0.6, common_type="symmetric", individual_strength=0.7)
    assert data.truth is not None
    assert data.truth.pi_g.shape == (6, 6)
    assert data.truth.pi_r.shape == (30, 6, 6)
    np.testing.assert_allclose(np.diagonal(data.truth.pi_g), 0.4)
    np.testing.assert_allclose(np.diagonal(data.truth.pi_r, axis1=1, axis2=2), 0.3)
    np.testing.assert_array_equal(data.truth.z, data.y_true)


def test_empty_training_set_is_an_error() -> None:
    with pytest.raises(InputError, match="n_train must be a whole number of at least 1, not 0"):
        synthetic(n_train=0)
