"""Features that single precision would erase: large offsets and tiny scales, through every part of a model's life."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch

import conal
from conal.datasets import CrowdDataset
from conal.errors import FeatureWarning
from conal.io import read_features
from conal.training.batches import Instances
from conal.training.scaling import fit_scaler

OFFSET = 1e8
Features = npt.NDArray[np.float64]


def moved(x: Any) -> Features:
    return np.asarray(x, dtype=np.float64) + OFFSET


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return conal.datasets.synthetic(n_train=300, n_classes=3, seed=0)


def score(data: CrowdDataset, change: Any, method: str = "conal", **options: Any) -> float:
    assert data.test is not None
    made = conal.make(method, epochs=10, seed=0, verbose=False, **options)
    return made.fit(change(data.x), data.annotations).score(change(data.test.x), data.test.y)


CHANGES = {
    "offset": moved,
    "negative offset": lambda x: -moved(x),
    "tiny": lambda x: np.asarray(x, dtype=np.float64) * 1e-15,
    "tinier than single precision": lambda x: np.asarray(x, dtype=np.float64) * 1e-42,
    "every second feature": lambda x: np.asarray(x, dtype=np.float64) + OFFSET * (np.arange(x.shape[1]) % 2),
    "whole numbers": lambda x: (np.asarray(x) * 1000).astype(np.int64) + 10**12,
}


@pytest.mark.parametrize("method", ["conal", "xconal"])
@pytest.mark.parametrize("change", CHANGES)
def test_offsets_and_scales_cost_no_accuracy(method: str, change: str, data: CrowdDataset) -> None:
    assert score(data, CHANGES[change], method) > 0.92  # without a change, 0.949 and 0.969


@pytest.mark.parametrize("precision", ["64-true", "bf16-mixed", "bf16-true"])
def test_in_every_precision_of_the_network(precision: str, data: CrowdDataset) -> None:
    assert score(data, moved, precision=precision) > 0.9


@pytest.mark.parametrize("scaling", ["standard", "robust"])
def test_scaling_is_exact_and_double_only_where_it_must_be(scaling: Any) -> None:
    x = np.random.default_rng(0).normal(size=(500, 3))
    for plain in (x, x.astype(np.float32), x + 50, 1000 * x + 2000):
        assert fit_scaler(Instances(plain), scaling).dtype == torch.float32
    far = x + OFFSET
    scaler = fit_scaler(Instances(far), scaling)
    assert scaler.dtype == torch.float64
    scaled = scaler(torch.from_numpy(far))
    assert scaled.dtype == torch.float32
    values = np.sqrt(far) if scaling == "robust" else far
    np.testing.assert_allclose(scaled.numpy(), (values - values.mean(0)) / values.std(0), atol=1e-3)
    assert scaler.float().shift.dtype == torch.float64  # a network that becomes single precision leaves it alone
    assert scaler.double()(torch.from_numpy(far)).dtype == torch.float64


@pytest.mark.parametrize("scaling", ["none", "global"])
def test_without_a_shift_the_user_is_warned(scaling: Any) -> None:
    x = np.random.default_rng(0).random((50, 3))
    fit_scaler(Instances(x + 1000), scaling)  # a warning would be an error
    x[:, 1] += OFFSET
    with pytest.warns(FeatureWarning, match=r"1 of 3 differ by less than single precision .* column 2 \(1e\+08 "):
        fit_scaler(Instances(x), scaling)


def test_after_saving_in_updates_and_in_exports(data: CrowdDataset, tmp_path: Path) -> None:
    assert data.test is not None
    x, test = moved(data.x), moved(data.test.x)
    clf = conal.make("xconal", epochs=4, seed=0, verbose=False).fit(x, data.annotations)
    probas = clf.predict_proba(test)
    clf.save(tmp_path / "m", keep_data=True)
    loaded = conal.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(test), probas)
    np.testing.assert_allclose(loaded.to_torch()(torch.from_numpy(test)).numpy(), probas, atol=1e-6)
    done = loaded.export(tmp_path / "m.pt2")
    assert done.metadata["input_type"] == "float64"
    program = torch.export.load(tmp_path / "m.pt2").module()
    np.testing.assert_allclose(program(torch.from_numpy(test)).numpy(), probas, atol=1e-6)
    new = conal.Annotations.from_triples(np.arange(20), ["new"] * 20, data.classes[data.y_true[:20]])
    assert loaded.update(None, new).score(test, data.test.y) > 0.9


@pytest.mark.parametrize("ending", ["csv", "parquet", "npy", "lists"])
def test_files_keep_the_digits(
    ending: str, data: CrowdDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conal.io.binary_tables.BATCH_BYTES", 4000)  # several batches
    for x, kind in ((moved(data.x), np.float64), (np.asarray(data.x, dtype=np.float32), np.float32)):
        frame = pd.DataFrame(x, columns=[f"f{k}" for k in range(x.shape[1])])
        path = tmp_path / f"x.{'parquet' if ending == 'lists' else ending}"
        if ending == "npy":
            np.save(path, x)
        elif ending == "csv":
            frame.to_csv(path, index=False)
        else:
            (pd.DataFrame({"x": list(x)}) if ending == "lists" else frame).to_parquet(path)
        found = read_features(path).values
        assert found.dtype == kind
        np.testing.assert_allclose(found, x, rtol=1e-15)


@pytest.mark.parametrize("scaling", ["standard", "robust", "none"])
def test_mapped_files_are_read_by_pieces(scaling: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", moved(np.random.default_rng(0).normal(size=(5000, 4))))
    monkeypatch.setattr("conal.training.batches.CHUNK_BYTES", 6400)
    sizes = []
    take = Instances.take

    def noted(self: Instances, index: npt.NDArray[np.int64]) -> torch.Tensor:
        sizes.append(len(index))
        return take(self, index)

    monkeypatch.setattr(Instances, "take", noted)
    instances = Instances(np.load(tmp_path / "x.npy", mmap_mode="r"))
    with pytest.warns(FeatureWarning) if scaling == "none" else nullcontext():
        fit_scaler(instances, scaling)
    assert max(sizes) <= 1000  # a sample, or a piece
    assert instances.source.dtype == np.float64
