"""How much a report tells about single annotators whose names are hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Discretion"]

DIGITS = 2
"""Decimals of shares."""


@dataclass(frozen=True)
class Discretion:
    """Annotators with few labels are left out, and figures about the others are rounded.

    Whoever knows all labels recognises an annotator with few of them by nearly any figure: by their number, by the
    share of each class, by the agreement with the inferred labels.

    Parameters
    ----------
    hide_below : int
        Annotators with fewer labels are left out. Counts of the others are rounded to multiples of it.

    Examples
    --------
    >>> Discretion(10).told(np.array([3, 10])).tolist(), Discretion(10).count(np.array([17, 143])).tolist()
    ([False, True], [20, 140])
    """

    hide_below: int

    def told(self, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """(R,) whom the report may show, by their numbers of labels."""
        return np.asarray(labels >= self.hide_below)

    def count(self, numbers: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Counts, rounded; no annotator who is told has none."""
        step = self.hide_below
        return np.asarray((np.asarray(numbers) + step // 2) // step * step, dtype=np.int64)

    def share(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Shares in whole percents."""
        return np.round(values, DIGITS)

    def table(self, table: pa.Table, labels: npt.NDArray[np.int64]) -> pa.Table:
        """Rows of the annotators who are told, floats rounded as shares."""
        kept = table.filter(pa.array(self.told(labels)))
        for k, name in enumerate(kept.column_names):
            if pa.types.is_floating(kept[name].type):
                values = [None if value is None else float(self.share(value)) for value in kept[name].to_pylist()]
                kept = kept.set_column(k, name, pa.array(values, pa.float64()))
        return kept
