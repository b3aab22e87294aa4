"""Reading the three layouts of CIFAR-10."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal.datasets.base import Split
from conal.datasets.files import check_count, class_codes, load_array, require_files
from conal.datasets.pickles import read_batch
from conal.errors import InputError

__all__ = ["ARCHIVE", "CIFAR10", "CLASSES", "Cifar10Counts", "read_cifar10"]

ARCHIVE = "cifar-10-python.tar.gz"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
IMAGE_SHAPE = (3, 32, 32)
PIXELS = 3072
TRAIN_BATCHES = tuple(f"data_batch_{k}" for k in range(1, 6))
TEST_BATCH = "test_batch"


@dataclass(frozen=True)
class Cifar10Counts:
    """How many images there are, for training (in five batches) and for testing."""

    train: int = 50_000
    test: int = 10_000


CIFAR10 = Cifar10Counts()


class _Layout(NamedTuple):
    marker: str  # the file that identifies the layout
    read: Callable[[Path], tuple[Split, Split]]


def read_cifar10(folder: Path, expected: Cifar10Counts) -> tuple[Split, Split]:
    """Training and test part, in the order of the files."""
    layout = next((layout for layout in _LAYOUTS if (folder / layout.marker).is_file()), None)
    if layout is None:
        markers = ", ".join(layout.marker for layout in _LAYOUTS)
        raise InputError(f"{folder}: contains none of {markers}; unpack {ARCHIVE} and pass the folder it makes")
    train, test = layout.read(folder)
    check_count(folder, "training images", len(train), expected.train, ARCHIVE)
    check_count(folder, "test images", len(test), expected.test, ARCHIVE)
    return train, test


def _read_pickles(folder: Path) -> tuple[Split, Split]:
    require_files(folder, (*TRAIN_BATCHES, TEST_BATCH), ARCHIVE)
    train = _join([_pickled_batch(folder / name) for name in TRAIN_BATCHES])
    return train, _pickled_batch(folder / TEST_BATCH)


def _pickled_batch(path: Path) -> Split:
    pixels, labels = read_batch(path)
    if pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        raise InputError(f"{path}: pixels have shape {pixels.shape}, expected (n, {PIXELS}); unpack {ARCHIVE} again")
    check_count(path, "labels", len(labels), len(pixels), ARCHIVE)
    return Split(pixels.reshape(-1, *IMAGE_SHAPE), class_codes(np.array(labels), len(CLASSES), path))


def _read_binary(folder: Path) -> tuple[Split, Split]:
    require_files(folder, [f"{name}.bin" for name in (*TRAIN_BATCHES, TEST_BATCH)], "cifar-10-binary.tar.gz")
    train = _join([_binary_batch(folder / f"{name}.bin") for name in TRAIN_BATCHES])
    return train, _binary_batch(folder / f"{TEST_BATCH}.bin")


def _binary_batch(path: Path) -> Split:
    """Records of one byte for the label, then the red, green and blue planes."""
    raw = np.fromfile(path, dtype=np.uint8)
    if raw.size % (PIXELS + 1):
        raise InputError(
            f"{path}: found {raw.size:,} bytes, expected a multiple of {PIXELS + 1:,}; "
            "unpack cifar-10-binary.tar.gz again"
        )
    records = raw.reshape(-1, PIXELS + 1)
    return Split(records[:, 1:].reshape(-1, *IMAGE_SHAPE), class_codes(records[:, 0], len(CLASSES), path))


def _read_features(folder: Path) -> tuple[Split, Split]:
    parts = ("train", "test")
    require_files(folder, [f"{kind}_{part}.npy" for part in parts for kind in ("features", "labels")], "the features")
    train, test = (_feature_part(folder, part) for part in parts)
    if train.x.shape[1] != test.x.shape[1]:
        raise InputError(f"{folder}: {train.x.shape[1]} training features but {test.x.shape[1]} test features")
    return train, test


def _feature_part(folder: Path, part: str) -> Split:
    features, labels = folder / f"features_{part}.npy", folder / f"labels_{part}.npy"
    x: npt.NDArray[Any] = load_array(features, (2,)).astype(np.float32)
    y = class_codes(load_array(labels, (1,)), len(CLASSES), labels)
    check_count(labels, "labels", len(y), len(x), "the features")
    return Split(x, y)


def _join(batches: list[Split]) -> Split:
    return Split(np.concatenate([batch.x for batch in batches]), np.concatenate([batch.y for batch in batches]))


_LAYOUTS = (
    _Layout("data_batch_1", _read_pickles),
    _Layout("data_batch_1.bin", _read_binary),
    _Layout("features_train.npy", _read_features),
)
