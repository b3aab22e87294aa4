"""The embedded default: scikit-learn's handwritten digits, labelled by a simulated crowd."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from conal.datasets.base import CrowdDataset, Split, dataset
from conal.datasets.crowd import simulate_crowd
from conal.datasets.settings import CommonType, CrowdSettings, Pairs
from conal.datasets.streams import stream

__all__ = ["LOOK_ALIKES", "SWAPS", "digits"]

LOOK_ALIKES = MappingProxyType({0: 6, 1: 7, 2: 3, 3: 8, 4: 9, 5: 6, 6: 0, 7: 1, 8: 3, 9: 4})
"""What the crowd takes each digit for: loops (0, 6), strokes (1, 7), open and closed curves (3, 8), (4, 9)."""

SWAPS = ((0, 6), (1, 7), (2, 5), (3, 8), (4, 9))
"""The pairs of symmetric confusion; 2 and 5 are each other's mirror image."""

N_TRAIN, N_VALID = 1000, 297
SPLIT_SEED = 0
BRIGHTEST = 16


@dataset("digits")
def digits(
    *,
    n_annotators: int = 30,
    labels_per_instance: float = 3.0,
    common_strength: float = 0.5,
    common_type: CommonType = "asymmetric",
    individual_strength: float = 0.3,
    proportion: float = 0.5,
    gate_scale: float = 4.0,
    embedding_dim: int = 20,
    pairs: Pairs | None = None,
    seed: int = 0,
) -> CrowdDataset:
    """Handwritten digits labelled by a crowd that shares the confusion of look-alikes; needs no download.

    1,797 images of 8 x 8 pixels, in [0, 1], split once and for all, stratified, into 1,000 training, 297 validation
    and 500 test instances: ``seed`` changes the crowd, never the split. The crowd is drawn by
    :func:`conal.datasets.crowd.simulate_crowd` with ``pi_g`` moving ``common_strength`` of digit c to
    ``LOOK_ALIKES[c]``.

    Parameters
    ----------
    pairs : mapping or sequence of pairs, optional
        Other confusions than :data:`LOOK_ALIKES` (asymmetric) or :data:`SWAPS` (symmetric).
    n_annotators, labels_per_instance, common_strength, common_type, individual_strength, proportion, gate_scale, \
    embedding_dim, seed
        The crowd: see :class:`conal.datasets.settings.CrowdSettings`.

    References
    ----------
    Alpaydin, Kaynak. Optical Recognition of Handwritten Digits. UCI Machine Learning Repository, 1998 (its test
    part, as shipped with scikit-learn).

    Example
    -------
    >>> data = digits()
    >>> data.x.shape, len(data.valid), len(data.test), data.annotations.n_annotators
    ((1000, 64), 297, 500, 30)
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
        pairs=_default_pairs(common_type) if pairs is None else pairs,
        seed=seed,
    )
    train, valid, test = _split_digits()
    annotations, truth = simulate_crowd(train.y, train.x, range(10), settings)
    return CrowdDataset("digits", train.x, annotations, train.y, valid, test, truth)


def _default_pairs(common_type: CommonType) -> Pairs:
    return SWAPS if common_type == "symmetric" else LOOK_ALIKES


def _split_digits() -> tuple[Split, Split, Split]:
    from sklearn.datasets import load_digits  # slow to import

    pixels, target = load_digits(return_X_y=True)
    x, y = (pixels / BRIGHTEST).astype(np.float32), target.astype(np.int64)
    train, valid, test = np.split(_stratified_order(y), [N_TRAIN, N_TRAIN + N_VALID])
    return Split(x[train], y[train]), Split(x[valid], y[valid]), Split(x[test], y[test])


def _stratified_order(y: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A shuffle in which every stretch holds each digit in proportion, so that any cut is stratified."""
    # Neighbours in the file were written by the same hand: shuffle first.
    shuffled = stream(SPLIT_SEED, "split").permutation(len(y))
    place = np.empty(len(y))
    for digit in np.unique(y):
        members = np.flatnonzero(y[shuffled] == digit)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return shuffled[np.argsort(place, kind="stable")]
