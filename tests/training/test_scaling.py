"""Feature scaling: what "auto" chooses, and the statistics behind it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conal.errors import InputError
from conal.training import Instances, fit_scaler
from conal.training import instances as instances_module
from conal.training.scaling import GLOBAL_STD

RNG = np.random.default_rng(0)
SIGNED = (RNG.normal(size=(200, 5)) * [1, 2, 3, 4, 5] + [0, 10, -3, 5, 1]).astype(np.float32)


@pytest.fixture(params=[32 * 2**20, 100])
def _chunk_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole arrays at once, and pieces of a few rows."""
    monkeypatch.setattr(instances_module, "CHUNK_BYTES", request.param)


@pytest.mark.usefixtures("_chunk_size")
def test_standard_scaling() -> None:
    scaled = fit_scaler(Instances(SIGNED), "standard")(torch.from_numpy(SIGNED)).numpy()
    np.testing.assert_allclose(scaled, (SIGNED - SIGNED.mean(0)) / SIGNED.std(0), atol=1e-4)


@pytest.mark.usefixtures("_chunk_size")
def test_global_scaling_is_one_factor() -> None:
    x = np.abs(SIGNED)
    scaled = fit_scaler(Instances(x), "global")(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(scaled, x * (GLOBAL_STD / x.std()), rtol=1e-4)


def test_auto_is_global_for_non_negative_vectors_and_standard_otherwise() -> None:
    assert fit_scaler(Instances(np.abs(SIGNED))).factor.shape == ()
    assert fit_scaler(Instances(SIGNED)).factor.shape == (5,)


def test_images_are_scaled_by_channel() -> None:
    images = RNG.integers(0, 256, size=(20, 3, 4, 4)).astype(np.uint8)
    images[:, 1] //= 4
    scaled = fit_scaler(Instances(images))(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(scaled.mean((0, 2, 3)), np.zeros(3), atol=1e-4)
    np.testing.assert_allclose(scaled.std((0, 2, 3)), np.ones(3), atol=1e-4)


def test_a_constant_feature_stays_finite() -> None:
    x = SIGNED.copy()
    x[:, 2] = 7
    scaled = fit_scaler(Instances(x), "standard")(torch.from_numpy(x))
    assert torch.isfinite(scaled).all()
    assert (scaled[:, 2] == 0).all()


def test_none_leaves_features_alone_and_unknown_names_are_refused() -> None:
    torch.testing.assert_close(
        fit_scaler(Instances(SIGNED), "none")(torch.from_numpy(SIGNED)), torch.from_numpy(SIGNED)
    )
    with pytest.raises(InputError, match="'auto', 'robust', 'global', 'standard' or 'none', not 'minmax'"):
        fit_scaler(Instances(SIGNED), "minmax")  # type: ignore[arg-type]


def test_robust_scaling_takes_roots_or_cuts_off() -> None:
    counts = np.array([[0.0, 4.0], [1.0, 16.0], [4.0, 36.0]], dtype=np.float32)
    scaled = fit_scaler(Instances(counts), "robust")(torch.from_numpy(counts))
    root = np.sqrt(counts)
    expected = (root - root.mean(0)) / root.std(0)
    torch.testing.assert_close(scaled, torch.from_numpy(expected.astype(np.float32)))

    heavy = np.r_[np.linspace(-1, 1, 99), 50.0].astype(np.float32)[:, None]
    scaled = fit_scaler(Instances(heavy), "robust")(torch.from_numpy(heavy))
    standard = (heavy - heavy.mean()) / heavy.std()
    assert standard.max() > 9
    torch.testing.assert_close(scaled, torch.from_numpy(np.clip(standard, -3, 3)))
