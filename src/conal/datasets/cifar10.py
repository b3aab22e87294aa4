"""CIFAR-10 images, or features of them, labelled by a simulated crowd."""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from conal.datasets.adversaries import stream
from conal.datasets.base import (
    CrowdDataset,
    Folder,
    Split,
    check_count,
    class_codes,
    data_folder,
    dataset,
    inner_folder,
    load_array,
    require_files,
)
from conal.datasets.crowd import simulate_crowd
from conal.errors import InputError
from conal.parameters import Doc, frozen_parameters, keywords_of, whole
from conal.parameters.simulation import CrowdSettings

# Reading the two layouts of CIFAR-10: the binary archive, and features of its images.

ARCHIVE = "cifar-10-binary.tar.gz"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
IMAGE_SHAPE = (3, 32, 32)
PIXELS = 3072
TRAIN_BATCHES = tuple(f"data_batch_{k}.bin" for k in range(1, 6))
TEST_BATCH = "test_batch.bin"


def _read(folder: Path) -> tuple[Split, Split]:
    """Training and test part, in the order of the files."""
    if (folder / TRAIN_BATCHES[0]).is_file():
        return _read_binary(folder)
    if (folder / "features_train.npy").is_file():
        return _read_features(folder)
    raise InputError(
        f"{folder}: contains none of {TRAIN_BATCHES[0]}, features_train.npy; unpack {ARCHIVE} and pass the folder it "
        "makes"
    )


def _read_binary(folder: Path) -> tuple[Split, Split]:
    require_files(folder, (*TRAIN_BATCHES, TEST_BATCH), ARCHIVE)
    batches = [_binary_batch(folder / name) for name in TRAIN_BATCHES]
    train = Split(np.concatenate([batch.x for batch in batches]), np.concatenate([batch.y for batch in batches]))
    return train, _binary_batch(folder / TEST_BATCH)


def _binary_batch(path: Path) -> Split:
    """Records of one byte for the label, then the red, green and blue planes."""
    raw = np.fromfile(path, dtype=np.uint8)
    if raw.size % (PIXELS + 1):
        raise InputError(
            f"{path}: found {raw.size:,} bytes, expected a multiple of {PIXELS + 1:,}; unpack {ARCHIVE} again"
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


# CIFAR-10 images, or features of them, labelled by a simulated crowd.

Inputs = Literal["any", "images", "features"]
IMAGES, FEATURES = ("cifar-10-batches-bin",), ("cifar10-features",)
FOLDERS: dict[Inputs, tuple[str, ...]] = {"any": IMAGES + FEATURES, "images": IMAGES, "features": FEATURES}

SIMILAR = (("bird", "airplane"), ("cat", "dog"), ("automobile", "truck"), ("deer", "horse"), ("frog", "ship"))
"""The classes that symmetric confusion swaps. The paper names bird and airplane; frog and ship are what is left."""


@frozen_parameters
class Cifar10Settings(CrowdSettings):
    """Which images are read, how they are divided, and the crowd that labels them."""

    folder: Annotated[Folder, Doc("Where one of the layouts is, or the folder that contains it.")] = field(
        default=None, kw_only=False
    )
    inputs: Annotated[Inputs, Doc("Which layouts to look for: images, features, or any of them.")] = "any"
    n_train: Annotated[
        int | None, whole(1), Doc("Number of images that the crowd labels (default: all that are not held out).")
    ] = None
    n_valid: Annotated[int, whole(0), Doc("Number of training images held out.")] = 10_000


@dataset("cifar10")
@keywords_of(Cifar10Settings)
def cifar10(settings: Cifar10Settings) -> CrowdDataset:
    """CIFAR-10 with the paper's crowd: 40,000 annotated images, 10,000 for validation, 10,000 for testing.

    The 50,000 training images are shuffled by ``seed``; the last ``n_valid`` become validation data and the crowd of
    :func:`conal.datasets.simulate_crowd` labels the others. ``x`` contains (n, 3, 32, 32) uint8 images, or float32
    features where the folder contains features. omega comes from a random projection of the pixels or features.

    ``folder`` is, or contains, one of two layouts: ``cifar-10-batches-bin``, which ``cifar-10-binary.tar.gz`` unpacks
    to, or ``cifar10-features`` with ``features_{train,test}.npy`` and ``labels_{train,test}.npy``. By default it is the
    first of these in the data folder (:func:`conal.datasets.base.data_folder`).

    Symmetric confusion swaps the pairs of :data:`SIMILAR` unless you give others. Asymmetric confusion is random, as
    in the paper.

    References
    ----------
    Krizhevsky. Learning multiple layers of features from tiny images. Technical report, 2009.
    Chu, Ma, Wang. Learning from Crowds by Modeling Common Confusions. AAAI 2021.

    Examples
    --------
    >>> cifar10("no/such/folder")
    Traceback (most recent call last):
    ...
    conal.errors.InputError: cifar-10-batches-bin: no such folder (looked in no/such/folder); unpack ...
    """
    if settings.pairs is None and settings.common_type == "symmetric":
        settings = replace(settings, pairs=SIMILAR)
    names = FOLDERS[settings.inputs]
    labelled, test = _read(inner_folder(data_folder(names, settings.folder, archive=ARCHIVE), *names))
    train, valid = _hold_out(labelled, settings.n_train, settings.n_valid, settings.seed)
    annotations, truth = simulate_crowd(train.y, train.x, CLASSES, settings)
    return CrowdDataset("cifar10", train.x, annotations, train.y, valid, test, truth)


def _hold_out(labelled: Split, n_train: int | None, n_valid: int, seed: int) -> tuple[Split, Split]:
    if n_valid >= len(labelled):
        raise InputError(f"n_valid must be in range({len(labelled)}), the number of training images, not {n_valid}")
    order = stream(seed, "split").permutation(len(labelled))
    train, valid = np.split(order, [len(labelled) - n_valid])
    if n_train is not None and n_train > len(train):
        raise InputError(f"n_train must be in range(1, {len(train) + 1}), the images not held out, not {n_train}")
    train = train[:n_train]
    return Split(labelled.x[train], labelled.y[train]), Split(labelled.x[valid], labelled.y[valid])
