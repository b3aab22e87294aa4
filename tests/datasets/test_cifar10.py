"""CIFAR-10 in its two layouts, from tiny files and, where they are present, from real features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from conal.datasets import cifar10
from conal.datasets.base import data_folder
from conal.datasets.cifar10 import CLASSES, SIMILAR
from conal.errors import InputError

BATCHES = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
Images = npt.NDArray[np.uint8]


def tiny_batches() -> list[tuple[str, Images, list[int]]]:
    """(name, (4, 3072) pixels, labels) of six batches."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, size=(6, 4, 3072), dtype=np.uint8)
    labels = rng.integers(0, 10, size=(6, 4)).tolist()
    return list(zip(BATCHES, pixels, labels, strict=True))


def write_binary(folder: Path) -> Path:
    """As ``cifar-10-binary.tar.gz`` has them: one byte for the label, 3,072 for the pixels."""
    folder.mkdir(exist_ok=True)
    for name, pixels, labels in tiny_batches():
        records = np.column_stack([np.array(labels, dtype=np.uint8), pixels])
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return folder


def write_features(folder: Path, width: int = 5) -> Path:
    folder.mkdir(exist_ok=True)
    for part, n in (("train", 20), ("test", 4)):
        np.save(folder / f"features_{part}.npy", np.arange(n * width, dtype=np.float16).reshape(n, width))
        np.save(folder / f"labels_{part}.npy", (np.arange(n) % 10).astype(np.uint8))
    return folder


def labels_by_pixels(x: npt.NDArray[Any], y: npt.NDArray[np.int64]) -> dict[bytes, int]:
    return {image.tobytes(): int(label) for image, label in zip(x, y, strict=True)}


def test_images_keep_their_pixels_and_labels(tmp_path: Path) -> None:
    data = cifar10(write_binary(tmp_path), n_valid=5)
    assert data.valid is not None
    assert data.test is not None
    assert (data.x.shape, data.x.dtype.name) == ((15, 3, 32, 32), "uint8")
    assert (len(data.valid), len(data.test)) == (5, 4)
    *train, (_, test_pixels, test_labels) = tiny_batches()
    np.testing.assert_array_equal(data.test.x, test_pixels.reshape(-1, 3, 32, 32))
    assert data.test.y.tolist() == test_labels
    found = labels_by_pixels(data.x, data.y_true) | labels_by_pixels(data.valid.x, data.valid.y)
    expected: dict[bytes, int] = {}
    for _, pixels, labels in train:
        expected |= labels_by_pixels(pixels, np.array(labels))
    assert found == expected


def test_folder_may_hold_the_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_binary(tmp_path / "cifar-10-batches-bin")
    assert len(cifar10(tmp_path, n_valid=5).x) == 15
    monkeypatch.setenv("CONAL_DATA", str(tmp_path))
    assert len(cifar10(n_valid=5).x) == 15


def test_features_become_float32(tmp_path: Path) -> None:
    data = cifar10(write_features(tmp_path), n_valid=0)
    assert (data.x.shape, data.x.dtype.name) == ((20, 5), "float32")
    np.testing.assert_array_equal(data.y_true, data.x[:, 0] / 5 % 10)
    assert data.classes.tolist() == list(CLASSES)


def test_seed_moves_the_split(tmp_path: Path) -> None:
    write_features(tmp_path)
    first, again, other = (cifar10(tmp_path, n_valid=5, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)


def test_symmetric_crowd_swaps_similar_classes(tmp_path: Path) -> None:
    data = cifar10(write_features(tmp_path), n_valid=5, common_type="symmetric")
    assert data.truth is not None
    assert sorted(name for pair in SIMILAR for name in pair) == sorted(CLASSES)
    for a, b in SIMILAR:
        assert data.truth.pi_g[CLASSES.index(a), CLASSES.index(b)] == 0.4


@pytest.mark.parametrize(
    ("n_valid", "message"),
    [
        (-1, "n_valid must be a whole number of at least 0, not -1"),
        (20, r"n_valid must be in range\(20\), the number of training images, not 20"),
    ],
)
def test_impossible_hold_out_is_an_error(tmp_path: Path, n_valid: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cifar10(write_features(tmp_path), n_valid=n_valid)


def test_wrong_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"contains none of data_batch_1.bin, features_train.npy"):
        cifar10(tmp_path)
    images = write_binary(tmp_path / "bin")
    (images / "data_batch_4.bin").unlink()
    with pytest.raises(InputError, match=r"missing data_batch_4\.bin"):
        cifar10(images)


def test_damaged_batches_are_errors(tmp_path: Path) -> None:
    binary = write_binary(tmp_path / "bin")
    (binary / "test_batch.bin").write_bytes(b"\0" * 100)
    with pytest.raises(InputError, match=r"found 100 bytes, expected a multiple of 3,073"):
        cifar10(binary)
    (binary / "test_batch.bin").write_bytes(bytes([10, *[0] * 3072]))
    with pytest.raises(InputError, match=r"test_batch\.bin: found 1 values such as 10"):
        cifar10(binary)


def test_fewer_labels_than_features_are_an_error(tmp_path: Path) -> None:
    write_features(tmp_path)
    np.save(tmp_path / "labels_test.npy", np.zeros(3, dtype=np.uint8))
    with pytest.raises(InputError, match="found 3 labels, expected 4"):
        cifar10(tmp_path)


def test_features_of_two_widths_are_an_error(tmp_path: Path) -> None:
    write_features(tmp_path)
    np.save(tmp_path / "features_test.npy", np.zeros((4, 6), dtype=np.float16))
    with pytest.raises(InputError, match="5 training features but 6 test features"):
        cifar10(tmp_path)


def test_real_features() -> None:
    try:
        folder = data_folder("cifar10-features")
    except InputError as absent:
        pytest.skip(str(absent))
    data = cifar10(folder, labels_per_instance=3.0)
    assert data.valid is not None
    assert data.test is not None
    assert (len(data.x), len(data.valid), len(data.test)) == (40_000, 10_000, 10_000)
    assert np.bincount(data.test.y).tolist() == [1000] * 10
    assert data.annotations.n_annotations / 40_000 == pytest.approx(3.0, abs=0.05)


def test_images_come_before_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_binary(tmp_path / "cifar-10-batches-bin")
    write_features(tmp_path / "cifar10-features")
    monkeypatch.setenv("CONAL_DATA", str(tmp_path))
    settings: Any = {"n_valid": 4, "n_annotators": 3}
    assert cifar10(**settings).x.shape[1:] == (3, 32, 32)
    assert cifar10(inputs="features", **settings).x.shape[1:] == (5,)
    with pytest.raises(InputError, match="inputs must be 'any', 'images' or 'features', not 'pixels'"):
        cifar10(inputs="pixels", **settings)  # type: ignore[arg-type]


def test_the_crowd_may_label_a_part(tmp_path: Path) -> None:
    write_features(tmp_path)
    settings: Any = {"n_valid": 4, "n_annotators": 3}
    whole, part = cifar10(tmp_path, **settings), cifar10(tmp_path, n_train=7, **settings)
    assert len(part.x) == part.annotations.n_tasks == 7
    np.testing.assert_array_equal(part.x, whole.x[:7])
    assert part.valid is not None
    assert whole.valid is not None
    np.testing.assert_array_equal(part.valid.x, whole.valid.x)
    with pytest.raises(InputError, match=r"n_train must be in range\(1, 17\), the images not held out, not 17"):
        cifar10(tmp_path, n_train=17, **settings)
