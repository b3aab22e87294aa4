"""The built-in dataset: scikit-learn's handwritten digits, labelled by a simulated crowd."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from conal.datasets.adversaries import stream
from conal.datasets.base import CrowdDataset, Split, dataset
from conal.datasets.crowd import simulate_crowd
from conal.parameters.declaration import frozen_parameters, keywords_of, narrowed
from conal.parameters.simulation import CrowdSettings

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
    usual = SWAPS if settings.common_type == "symmetric" else LOOK_ALIKES
    crowd = narrowed(settings, CrowdSettings, pairs=usual if settings.pairs is None else settings.pairs)
    train, valid, test = _split_digits()
    annotations, truth = simulate_crowd(train.y, train.x, range(10), crowd)
    return CrowdDataset("digits", train.x, annotations, train.y, valid, test, truth)


def _split_digits() -> tuple[Split, Split, Split]:
    from sklearn.datasets import load_digits  # slow to import

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
