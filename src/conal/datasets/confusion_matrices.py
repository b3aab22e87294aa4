"""True confusion matrices for simulated crowds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.data.encoding import MISSING, Names, as_names, decode_position
from conal.errors import InputError, examples
from conal.parameters.simulation import CommonType, CrowdSettings, Pairs

__all__ = ["common_confusion", "corrupt", "family_confusions", "individual_confusions"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def common_confusion(classes: Names, settings: CrowdSettings, rng: np.random.Generator) -> FloatArray:
    """(C, C) ``pi_g[c, l] = P(observe l | true c, common)``."""
    if settings.pairs is not None:
        targets = _chosen_targets(classes, settings.pairs, settings.common_type)
    elif settings.common_type == "symmetric":
        targets = _swapped_targets(len(classes), rng)
    else:
        targets = _other_targets((len(classes),), rng)
    return corrupt(targets, settings.common_strength)


def individual_confusions(n_classes: int, settings: CrowdSettings, rng: np.random.Generator) -> FloatArray:
    """(R, C, C) ``pi_r[r, c, l] = P(observe l | true c, annotator r)``, asymmetric."""
    return corrupt(_other_targets((settings.n_annotators, n_classes), rng), settings.individual_strength)


def family_confusions(n_classes: int, settings: CrowdSettings, rng: np.random.Generator) -> FloatArray:
    """(G, C, C) ``pi_f[k, c, l] = P(observe l | true c, what family k has in common)``, asymmetric."""
    return corrupt(_other_targets((settings.families, n_classes), rng), settings.individual_strength)


def corrupt(targets: IntArray, strength: float) -> FloatArray:
    """(..., C, C) matrices that move ``strength`` of each row c from c to ``targets[..., c]``.

    A class that is its own target keeps a row of the identity.

    >>> corrupt(np.array([1, 0, 2]), 0.25).tolist()
    [[0.75, 0.25, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0]]
    """
    identity = np.eye(targets.shape[-1])
    mixed = (1 - strength) * identity + strength * identity[targets]
    own = targets == np.arange(targets.shape[-1])
    return np.where(own[..., None], identity, mixed)


def _other_targets(shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
    """For every class one uniformly chosen *other* class."""
    n_classes = shape[-1]
    return (np.arange(n_classes) + rng.integers(1, n_classes, size=shape)) % n_classes


def _swapped_targets(n_classes: int, rng: np.random.Generator) -> IntArray:
    """Random pairs of classes, each the other's target; a class without a partner keeps itself."""
    order = rng.permutation(n_classes)
    return _swap(n_classes, order[: n_classes - n_classes % 2].reshape(-1, 2))


def _swap(n_classes: int, pairs: IntArray) -> IntArray:
    targets = np.arange(n_classes)
    targets[pairs[:, 0]], targets[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
    return targets


def _chosen_targets(classes: Names, pairs: Pairs, common_type: CommonType) -> IntArray:
    asymmetric = isinstance(pairs, Mapping)
    if asymmetric != (common_type == "asymmetric"):
        wanted = "a mapping {true: observed}" if common_type == "asymmetric" else "a list of pairs (a, b)"
        raise InputError(f"pairs: {common_type} confusion takes {wanted}, not {type(pairs).__name__}")
    chosen = _class_codes(classes, pairs.items() if isinstance(pairs, Mapping) else pairs)
    if (chosen[:, 0] == chosen[:, 1]).any():
        raise InputError("pairs: a class cannot be confused with itself; leave it out to keep it uncorrupted")
    if asymmetric:
        targets = np.arange(len(classes))
        targets[chosen[:, 0]] = chosen[:, 1]
        return targets
    if len(np.unique(chosen)) < chosen.size:
        raise InputError("pairs: symmetric confusion swaps each class with one other, but some class is in two pairs")
    return _swap(len(classes), chosen)


def _class_codes(classes: Names, pairs: Iterable[Any]) -> IntArray:
    flat = [name for pair in pairs for name in pair]
    codes = decode_position(classes, as_names(flat))
    unknown = [name for name, code in zip(flat, codes, strict=True) if code == MISSING]
    if unknown:
        raise InputError(f"pairs: {examples(unknown)} not among the classes {classes.tolist()}")
    return codes.reshape(-1, 2)
