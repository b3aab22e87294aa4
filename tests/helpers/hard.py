"""Crowds that break estimators: thirty tasks of three classes, and something wrong with each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations

__all__ = ["CROWDS", "TRUTH", "votes"]

N, C = 30, 3
TRUTH: npt.NDArray[np.int64] = np.arange(N) % C


def votes(n_annotators: int) -> npt.NDArray[np.int64]:
    """(N, R) labels of annotators who know 70 % of the answers and guess the others."""
    rng = np.random.default_rng(0)
    right = rng.random((N, n_annotators)) < 0.7
    return np.where(right, TRUTH[:, None], rng.integers(C, size=right.shape))


def _crowd(matrix: Any) -> Annotations:
    return Annotations.from_matrix(matrix, classes=range(C))


CROWDS: dict[str, Annotations] = {
    "a silent annotator": _crowd(np.insert(votes(3), 2, -1, axis=1)),
    "a class without votes": _crowd(np.minimum(votes(4), 1)),
    "one label per task": _crowd(np.where(np.arange(6) == np.arange(N)[:, None] % 6, votes(6), -1)),
    "one annotator": _crowd(votes(1)),
    "as many annotators as tasks": _crowd(votes(N)),
    "labels that are strings": Annotations.from_matrix(np.array(["ä", "b c", "<i>"], dtype=object)[votes(4)]),
    "ten identical annotators": _crowd(np.repeat(votes(1), 10, axis=1)),
}
