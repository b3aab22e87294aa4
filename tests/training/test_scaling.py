"""Feature scaling: what "auto" chooses, and the statistics behind it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import conal
from conal.errors import FeatureWarning, InputError
from conal.training import batches as instances_module
from conal.training.batches import Instances
from conal.training.scaling import GLOBAL_STD, PENALTIES, fit_scaler, leave_one_out_error

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


@pytest.mark.parametrize("shape", [(8, 8, 3), (6, 9, 1), (4, 4, 3), (7, 7, 64), (3, 8, 8), (64, 7, 7), (3, 4, 4)])
@pytest.mark.parametrize("scaling", ["auto", "standard", "robust"])
def test_channels_are_found_first_or_last(shape: tuple[int, ...], scaling: str) -> None:
    """Images of colours that differ in brightness, with a darker upper half, which is no channel."""
    axis = 1 if shape[0] in (3, 64) else 3
    images = RNG.integers(0, 256, size=(20, *shape)).astype(np.uint8)
    images[:, :, :4] //= 2
    pixels = tuple(k for k in range(4) if k != axis)
    scaled = fit_scaler(Instances(images), scaling)(torch.from_numpy(images)).numpy()  # type: ignore[arg-type]
    np.testing.assert_allclose(scaled.mean(pixels), 0, atol=1e-4)
    np.testing.assert_allclose(scaled.std(pixels), 1, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 9, 3), (16, 20, 12), (8, 8, 8)])
def test_a_warning_says_where_the_channels_cannot_be_found(shape: tuple[int, ...]) -> None:
    images = RNG.integers(0, 256, size=(20, *shape)).astype(np.uint8)
    with pytest.warns(FeatureWarning, match=r"images of shape .*: the first or the last axis may be the channels"):
        made = fit_scaler(Instances(images))
    assert made.shift.shape == (shape[0], 1, 1)
    assert fit_scaler(Instances(images), channels_first=True).shift.equal(made.shift)


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


def moments_as_before(x: np.ndarray) -> tuple[float, np.ndarray]:
    """The overall factor and the factors of the features, straight from their definitions."""
    wide = x.astype(np.float64)
    return GLOBAL_STD / wide.std(), 1 / wide.std(0)


@pytest.mark.parametrize(
    "x",
    [
        np.abs(SIGNED),
        RNG.lognormal(sigma=1.5, size=(500, 8)),
        RNG.poisson(0.02, size=(500, 40)) * RNG.integers(1, 20, size=(500, 40)),
        np.c_[RNG.random((500, 3)), 1e9 * RNG.random(500)],
    ],
    ids=["normal", "log-normal", "rare counts", "one feature in other units"],
)
def test_long_tails_and_other_units_are_no_outliers(x: np.ndarray) -> None:
    x = x.astype(np.float32)
    one, each = moments_as_before(x)
    for scaling, expected in (("global", one), ("standard", each)):
        made = fit_scaler(Instances(x), scaling)  # type: ignore[arg-type]  # a warning would be an error
        np.testing.assert_allclose(made.factor.numpy(), expected, rtol=1e-5)
        assert made.limit == float("inf")


@pytest.mark.usefixtures("_chunk_size")
@pytest.mark.parametrize("scaling", ["auto", "global", "standard", "robust"])
@pytest.mark.parametrize("absurd", [1e8, -1e8, 3e38])
def test_an_absurd_cell_does_not_count(scaling: str, absurd: float) -> None:
    clean = np.abs(SIGNED)
    x = clean.copy()
    x[123, 3] = absurd
    with pytest.warns(FeatureWarning, match=r"1 cell is far outside: row 124, column 4 \(") as caught:
        made = fit_scaler(Instances(x), scaling)  # type: ignore[arg-type]
    assert len(caught) == 1
    usual = fit_scaler(Instances(clean), scaling)  # type: ignore[arg-type]
    np.testing.assert_allclose(made.factor.numpy(), usual.factor.numpy(), rtol=0.05)
    scaled, others = made(torch.from_numpy(x)), usual(torch.from_numpy(np.delete(clean, 123, axis=0)))
    np.testing.assert_allclose(np.delete(scaled.numpy(), 123, axis=0), others.numpy(), rtol=0.06, atol=0.06)
    assert float(scaled.abs().max()) <= float(others.abs().max()) * 1.06


def test_absurd_cells_are_counted_and_the_first_are_named() -> None:
    x = np.abs(SIGNED)
    x[[7, 50, 90, 120], [0, 1, 1, 4]] = 1e6
    with pytest.warns(FeatureWarning, match=r"4 cells .*: row 8, column 1 \(1e\+06\), row 51, .* and 1 more; each"):
        fit_scaler(Instances(x))


@pytest.mark.parametrize("name", ["conal", "xconal"])
def test_one_absurd_cell_does_not_cost_the_model(name: str) -> None:
    data = conal.datasets.digits(seed=0)
    assert data.test is not None
    x = np.array(data.x, dtype=np.float32)
    x[17, 30] = 1e8
    with pytest.warns(FeatureWarning, match="row 18, column 31"):
        clf = conal.make(name, epochs=20, seed=0).fit(x, data.annotations)
    assert clf.score(data.test.x, data.test.y) > 0.85


def test_absurd_cells_are_named_by_the_rows_of_the_users_features() -> None:
    x = np.abs(SIGNED)
    x[40, 2] = 1e9
    with pytest.warns(FeatureWarning, match="row 41, column 3"):
        fit_scaler(Instances(x, rows=np.arange(len(x))[::-1].copy()))


def test_leave_one_out_error_is_that_of_refitted_regressions() -> None:
    rng = np.random.default_rng(0)
    x, q = rng.normal(size=(12, 20)), rng.dirichlet(np.ones(3), size=12)
    centred = x - x.mean(0)
    scale = np.linalg.eigvalsh(centred @ centred.T).clip(min=0).mean()
    errors = []
    for penalty in PENALTIES * scale:
        left_out = []
        for i in range(12):
            others = np.arange(12) != i
            mean, target = x[others].mean(0), q[others].mean(0)
            centred = x[others] - mean
            slope = np.linalg.solve(centred.T @ centred + penalty * np.eye(20), centred.T @ (q[others] - target))
            left_out.append(target + (x[i] - mean) @ slope)
        errors.append(((q - np.array(left_out)) ** 2).sum(1).mean())
    assert leave_one_out_error(x, q) == pytest.approx(min(errors), rel=1e-9)


@pytest.mark.parametrize("kind", ["rare", "units"])
def test_votes_of_few_tasks_decide_between_one_factor_and_one_for_each_feature(kind: str) -> None:
    """Features that single tasks have count little; features in other units count as much as any."""
    rng = np.random.default_rng(1)
    z = np.arange(60) % 3
    telling = np.abs(rng.normal(size=(60, 6)) + 4 * np.eye(3)[z].repeat(2, 1))
    if kind == "rare":
        x = np.hstack([telling, 0.3 * (rng.random((60, 300)) < 0.03)])
    else:
        x = np.hstack([telling, 1e6 * np.abs(rng.normal(size=(60, 3)))])
    votes = np.arange(60), np.eye(3)[z]
    found = fit_scaler(Instances(x.astype(np.float32)), "robust", votes)
    assert (len(found.factor.unique()) == 1) == (kind == "rare")
    without = fit_scaler(Instances(x.astype(np.float32)), "robust")
    assert len(without.factor.unique()) > 1
    torch.testing.assert_close(found.shift, without.shift)
