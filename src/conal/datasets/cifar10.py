"""CIFAR-10 images, or features of them, labelled by a simulated crowd."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from conal.datasets.base import CrowdDataset, Folder, Split, data_folder, dataset, folder_and_keywords_of
from conal.datasets.cifar10_files import ARCHIVE, CIFAR10, CLASSES, Cifar10Counts, read_cifar10
from conal.datasets.crowd import simulate_crowd
from conal.datasets.files import inner_folder
from conal.datasets.streams import stream
from conal.errors import InputError
from conal.parameters import anything, one_of, optional, parameter, whole
from conal.parameters.simulation import CrowdSettings

__all__ = ["SIMILAR", "cifar10"]

Inputs = Literal["any", "images", "features"]

IMAGES = ("cifar-10-batches-py", "cifar-10-batches-bin")
FEATURES = ("cifar10-features",)
FOLDERS: dict[Inputs, tuple[str, ...]] = {"any": IMAGES + FEATURES, "images": IMAGES, "features": FEATURES}

SIMILAR = (("bird", "airplane"), ("cat", "dog"), ("automobile", "truck"), ("deer", "horse"), ("frog", "ship"))
"""The classes that symmetric confusion swaps. The paper names bird and airplane; frog and ship are what is left."""


class Cifar10Settings(CrowdSettings):
    """Which images are read, how they are divided, and the crowd that labels them."""

    inputs: Inputs = parameter(
        default="any", must_be=one_of(*FOLDERS), help="Which layouts to look for: images, features, or any of them."
    )
    n_train: int | None = parameter(
        default=None,
        must_be=optional(whole(1)),
        help="Number of images that the crowd labels (default: all that are not held out).",
    )
    n_valid: int = parameter(default=10_000, must_be=whole(0), help="Number of training images held out.")
    expected: Cifar10Counts = parameter(
        default=CIFAR10, must_be=anything(), help="Expected numbers of images; other numbers are an error."
    )


@dataset("cifar10")
@folder_and_keywords_of(Cifar10Settings)
def cifar10(folder: Folder = None, *, settings: Cifar10Settings) -> CrowdDataset:
    """CIFAR-10 with the paper's crowd: 40,000 annotated images, 10,000 for validation, 10,000 for testing.

    The 50,000 training images are shuffled by ``seed``; the last ``n_valid`` become validation data and the crowd of
    :func:`conal.datasets.simulate_crowd` labels the others. ``x`` contains (n, 3, 32, 32) uint8 images, or float32
    features where the folder contains features. omega comes from a random projection of the pixels or features.

    ``folder`` is, or contains, one of three layouts: ``cifar-10-batches-py`` (pickles, read without running them),
    ``cifar-10-batches-bin``, or ``cifar10-features`` with ``features_{train,test}.npy`` and
    ``labels_{train,test}.npy``. By default it is the first of these in the data folder
    (:func:`conal.datasets.base.data_folder`).

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
    conal.errors.InputError: cifar-10-batches-py: no such folder (looked in no/such/folder); unpack ...
    """
    usual = SIMILAR if settings.common_type == "symmetric" else None
    crowd = settings.narrowed(CrowdSettings, pairs=usual if settings.pairs is None else settings.pairs)
    labelled, test = read_cifar10(_find_folder(folder, settings.inputs), settings.expected)
    train, valid = _hold_out(labelled, settings.n_train, settings.n_valid, settings.seed)
    annotations, truth = simulate_crowd(train.y, train.x, CLASSES, crowd)
    return CrowdDataset("cifar10", train.x, annotations, train.y, valid, test, truth)


def _find_folder(folder: Folder, inputs: Inputs) -> Path:
    names = FOLDERS[inputs]
    archive = "features of your own there (see folder)" if inputs == "features" else ARCHIVE
    return inner_folder(data_folder(names, folder, archive=archive), *names)


def _hold_out(labelled: Split, n_train: int | None, n_valid: int, seed: int) -> tuple[Split, Split]:
    if n_valid >= len(labelled):
        raise InputError(f"n_valid must be in range({len(labelled)}), the number of training images, not {n_valid}")
    order = stream(seed, "split").permutation(len(labelled))
    train, valid = np.split(order, [len(labelled) - n_valid])
    if n_train is not None and n_train > len(train):
        raise InputError(f"n_train must be in range(1, {len(train) + 1}), the images not held out, not {n_train}")
    train = train[:n_train]
    return Split(labelled.x[train], labelled.y[train]), Split(labelled.x[valid], labelled.y[valid])
