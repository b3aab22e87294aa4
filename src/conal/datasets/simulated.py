"""Datasets that need no download: handwritten digits and Gaussian classes, labelled by simulated crowds."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from conal.datasets.adversaries import stream
from conal.datasets.base import CrowdDataset, Split, dataset
from conal.datasets.crowd import simulate_crowd
from conal.errors import InputError, missing_package
from conal.parameters import frozen_parameters, keywords_of
from conal.parameters.simulation import CrowdSettings, SyntheticSettings

# Digits.

LOOK_ALIKES = MappingProxyType({0: 6, 1: 7, 2: 3, 3: 8, 4: 9, 5: 6, 6: 0, 7: 1, 8: 3, 9: 4})
"""The digit that each digit is confused with: loops (0, 6), strokes (1, 7), open and closed curves (3, 8), (4, 9)."""

SWAPS = ((0, 6), (1, 7), (2, 5), (3, 8), (4, 9))
"""The pairs of symmetric confusion; 2 and 5 are each other's mirror image."""

N_TRAIN, N_VALID = 1000, 297
SPLIT_SEED = 0
BRIGHTEST = 16


@frozen_parameters
class DigitsSettings(CrowdSettings):
    """The crowd that labels the digits."""

    common_strength: float = 0.5


@dataset("digits")
@keywords_of(DigitsSettings)
def digits(settings: DigitsSettings) -> CrowdDataset:
    """Handwritten digits labelled by a crowd that shares the confusion of look-alikes; needs no download.

    1,797 images of 8 x 8 pixels, in [0, 1], are split into 1,000 training, 297 validation and 500 test instances,
    stratified. The split is fixed: ``seed`` changes the crowd alone. The crowd is drawn by
    :func:`conal.datasets.simulate_crowd`. Unless you give ``pairs``, it confuses :data:`LOOK_ALIKES` (asymmetric) or
    :data:`SWAPS` (symmetric).

    References
    ----------
    Alpaydin, Kaynak. Optical Recognition of Handwritten Digits. UCI Machine Learning Repository, 1998 (its test
    part, as shipped with scikit-learn).

    Examples
    --------
    >>> data = digits()
    >>> data.x.shape, len(data.valid), len(data.test), data.annotations.n_annotators
    ((1000, 64), 297, 500, 30)
    """
    if settings.pairs is None:
        settings = replace(settings, pairs=SWAPS if settings.common_type == "symmetric" else LOOK_ALIKES)
    train, valid, test = _split_digits()
    annotations, truth = simulate_crowd(train.y, train.x, range(10), settings)
    return CrowdDataset("digits", train.x, annotations, train.y, valid, test, truth)


def _split_digits() -> tuple[Split, Split, Split]:
    try:
        from sklearn.datasets import load_digits  # slow to import
    except ModuleNotFoundError as error:
        raise InputError(missing_package("sklearn", "the dataset of digits")) from error

    pixels, target = load_digits(return_X_y=True)
    x, y = (pixels / BRIGHTEST).astype(np.float32), target.astype(np.int64)
    train, valid, test = np.split(_stratified_order(y), [N_TRAIN, N_TRAIN + N_VALID])
    return Split(x[train], y[train]), Split(x[valid], y[valid]), Split(x[test], y[test])


def _stratified_order(y: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A shuffled order in which every stretch has each digit in proportion, so that any cut is stratified."""
    # Neighbours in the file were written by the same person: shuffle first.
    shuffled = stream(SPLIT_SEED, "split").permutation(len(y))
    place = np.empty(len(y))
    for digit in np.unique(y):
        members = np.flatnonzero(y[shuffled] == digit)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return shuffled[np.argsort(place, kind="stable")]


# The paper's synthetic dataset.


@dataset("synthetic")
@keywords_of(SyntheticSettings)
def synthetic(settings: SyntheticSettings) -> CrowdDataset:
    r"""Gaussian classes labelled by a simulated crowd, with the full truth.

    Each class has a mean, each instance is drawn around the mean of its class, classes are equally likely:

    .. math::
        \mu_c \sim N(0, \text{separation}^2 I), \qquad z_i \sim U\{1..C\}, \qquad x_i \sim N(\mu_{z_i}, I)

    The training instances are then labelled by :func:`conal.datasets.simulate_crowd`. Classes are called 0 to C - 1.

    The paper states neither n_features nor separation. With the defaults, the Bayes-optimal accuracy is about 96 % in
    the mean over seeds 0 to 4, which leaves room for differences between methods.

    References
    ----------
    Chu, Ma, Wang. Learning from Crowds by Modeling Common Confusions. AAAI 2021. "Experiments on Synthesized
    Datasets".

    Examples
    --------
    >>> data = synthetic(n_train=500, n_valid=50, n_test=50, common_strength=0.6)
    >>> data.x.shape, data.annotations.n_annotators, data.test.x.shape
    ((500, 20), 30, (50, 20))
    >>> float(data.truth.omega.mean().round(6))
    0.5
    """
    rng = stream(settings.seed, "features")
    means = rng.normal(0.0, settings.separation, size=(settings.n_classes, settings.n_features))
    sizes = settings.n_train, settings.n_valid, settings.n_test
    train, valid, test = (_draw_instances(n, means, rng) for n in sizes)
    annotations, truth = simulate_crowd(train.y, train.x, range(settings.n_classes), settings)
    return CrowdDataset("synthetic", train.x, annotations, train.y, valid, test, truth)


def _draw_instances(n: int, means: npt.NDArray[np.float64], rng: np.random.Generator) -> Split:
    z = rng.integers(len(means), size=n)
    return Split((means[z] + rng.standard_normal((n, means.shape[1]))).astype(np.float32), z)
