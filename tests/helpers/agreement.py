"""Published labels with a known agreement, and the tasks of a matrix that agreement is about."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["KRIPPENDORFF_2011", "pairable_units"]

_ = -1
KRIPPENDORFF_2011 = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
        [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
    ]
).T


def pairable_units(matrix: Any) -> list[list[int]]:
    """The labels of every task that has two or more; negative numbers are missing."""
    units = [[int(label) for label in row if label >= 0] for row in matrix]
    return [labels for labels in units if len(labels) >= 2]
