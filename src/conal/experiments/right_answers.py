"""Which test instances a fit gets right, kept as text, so that tables can resample instances and tell classes apart."""

from __future__ import annotations

import base64
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from conal.datasets import CrowdDataset
from conal.estimator import CrowdClassifier

__all__ = ["packed", "right_answers", "unpacked"]

BoolArray = npt.NDArray[np.bool_]


def right_answers(clf: CrowdClassifier, data: CrowdDataset) -> str:
    """Whether each test instance is classified rightly, in the order of the test set."""
    assert data.test is not None  # noqa: S101 - runs are measured on it
    return packed(clf.predict(data.test.x) == data.classes[data.test.y])


def packed(right: npt.ArrayLike) -> str:
    """Eight instances per byte, as base64.

    >>> packed([True, False, True])
    'oA=='
    """
    return base64.b64encode(np.packbits(np.asarray(right, bool)).tobytes()).decode()


def unpacked(texts: Iterable[str], n: int) -> BoolArray:
    """(S, n) which of n instances each of S fits gets right.

    >>> unpacked(["oA=="], 3)
    array([[ True, False,  True]])
    """
    rows = [np.frombuffer(base64.b64decode(text), np.uint8) for text in texts]
    return np.array([np.unpackbits(row, count=n).astype(bool) for row in rows])
