"""CIFAR-10 images, or features of them, labelled by a simulated crowd."""

from __future__ import annotations

import os
from typing import Literal

import numpy as np

from conal.datasets.base import CrowdDataset, Split, data_folder, dataset
from conal.datasets.cifar10_files import ARCHIVE, CIFAR10, CLASSES, Cifar10Counts, read_cifar10
from conal.datasets.crowd import simulate_crowd
from conal.datasets.files import inner_folder
from conal.datasets.settings import CommonType, CrowdSettings, Pairs
from conal.datasets.streams import stream
from conal.errors import InputError

__all__ = ["SIMILAR", "cifar10"]

Inputs = Literal["any", "images", "features"]

IMAGES = ("cifar-10-batches-py", "cifar-10-batches-bin")
FEATURES = ("cifar10-features",)
FOLDERS: dict[Inputs, tuple[str, ...]] = {"any": IMAGES + FEATURES, "images": IMAGES, "features": FEATURES}

SIMILAR = (("bird", "airplane"), ("cat", "dog"), ("automobile", "truck"), ("deer", "horse"), ("frog", "ship"))
"""The classes that symmetric confusion swaps. The paper names bird and airplane; frog and ship are what is left."""


@dataset("cifar10")
def cifar10(
    folder: str | os.PathLike[str] | None = None,
    *,
    inputs: Inputs = "any",
    n_train: int | None = None,
    n_valid: int = 10_000,
    n_annotators: int = 30,
    labels_per_instance: float = 3.0,
    common_strength: float = 0.4,
    common_type: CommonType = "asymmetric",
    individual_strength: float = 0.3,
    proportion: float = 0.5,
    gate_scale: float = 4.0,
    embedding_dim: int = 20,
    pairs: Pairs | None = None,
    seed: int = 0,
    expected: Cifar10Counts = CIFAR10,
) -> CrowdDataset:
    """CIFAR-10 with the paper's crowd: 40,000 annotated images, 10,000 for validation, 10,000 for testing.

    The 50,000 training images are shuffled by ``seed``; the last ``n_valid`` become validation data and the crowd of
    :func:`conal.datasets.crowd.simulate_crowd` labels the others. ``x`` holds (n, 3, 32, 32) uint8 images, or float32
    features where the folder holds features. omega comes from a random projection of the pixels or features.

    Parameters
    ----------
    folder : path, optional
        One of three layouts, itself or a folder inside: ``cifar-10-batches-py`` (pickles, read without running
        them), ``cifar-10-batches-bin``, or ``cifar10-features`` with ``features_{train,test}.npy`` and
        ``labels_{train,test}.npy``. Default: the first of these in the data folder
        (:func:`conal.datasets.base.data_folder`).
    inputs : {"any", "images", "features"}
        Which of the layouts will do.
    n_train : int, optional
        How many images the crowd labels; default: all that are not held out.
    n_valid : int
        How many of the training images are held out.
    pairs : mapping or sequence of pairs, optional
        Classes to confuse, by name. Default: :data:`SIMILAR` for symmetric, random ones for asymmetric confusion,
        as in the paper.
    n_annotators, labels_per_instance, common_strength, common_type, individual_strength, proportion, gate_scale, \
    embedding_dim, seed
        The crowd: see :class:`conal.datasets.settings.CrowdSettings`.
    expected : Cifar10Counts
        Any other number of images is an error.

    References
    ----------
    Krizhevsky. Learning multiple layers of features from tiny images. Technical report, 2009.
    Chu, Ma, Wang. Learning from Crowds by Modeling Common Confusions. AAAI 2021.

    Example
    -------
    >>> cifar10("no/such/folder")
    Traceback (most recent call last):
    ...
    conal.errors.InputError: cifar-10-batches-py: no such folder (looked in no/such/folder); unpack ...
    """
    settings = CrowdSettings(
        n_annotators=n_annotators,
        labels_per_instance=labels_per_instance,
        common_strength=common_strength,
        common_type=common_type,
        individual_strength=individual_strength,
        proportion=proportion,
        gate_scale=gate_scale,
        embedding_dim=embedding_dim,
        pairs=SIMILAR if pairs is None and common_type == "symmetric" else pairs,
        seed=seed,
    )
    if inputs not in FOLDERS:
        raise InputError(f"inputs must be one of {', '.join(FOLDERS)}, not {inputs!r}")
    folders = FOLDERS[inputs]
    archive = "features of your own there (see folder)" if inputs == "features" else ARCHIVE
    place = inner_folder(data_folder(folders, folder, archive=archive), *folders)
    labelled, test = read_cifar10(place, expected)
    train, valid = _hold_out(labelled, n_train, n_valid, seed)
    annotations, truth = simulate_crowd(train.y, train.x, CLASSES, settings)
    return CrowdDataset("cifar10", train.x, annotations, train.y, valid, test, truth)


def _hold_out(labelled: Split, n_train: int | None, n_valid: int, seed: int) -> tuple[Split, Split]:
    if not 0 <= n_valid < len(labelled):
        raise InputError(f"n_valid must be in range({len(labelled)}), the number of training images, not {n_valid}")
    order = stream(seed, "split").permutation(len(labelled))
    train, valid = np.split(order, [len(labelled) - n_valid])
    if n_train is not None and not 0 < n_train <= len(train):
        raise InputError(f"n_train must be in range(1, {len(train) + 1}), the images not held out, not {n_train}")
    train = train[:n_train]
    return Split(labelled.x[train], labelled.y[train]), Split(labelled.x[valid], labelled.y[valid])
