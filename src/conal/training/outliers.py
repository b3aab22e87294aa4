"""Cells of features that outweigh all others together: slips, overflows, and codes for missing values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conal.training.instances import Instances

__all__ = ["Outliers", "outlier_limits"]

SAMPLE = 1000
"""Instances from which the usual size of the features is read."""
FAR = 100.0
"""How many times as large as nearly all others a cell must be. In LabelMe's and Music's features none comes near, and
rarely one of 60,000 log-normal numbers with sigma 2."""
NEARLY_ALL = 0.99
"""The share of a feature's cells, and of all cells that are not zero, by which the usual size is judged."""
SHOWN = 3


@dataclass
class Outliers:
    """Takes cells out that are beyond the limits of their features, and notes where they were.

    Parameters
    ----------
    limits : tensor
        The largest size that counts, for each feature.
    usual : tensor
        What takes the place of a positive outlier: the size that nearly all cells stay below.
    total : int
        Number of outliers so far.
    first : list of (row, feature, value)
        Some of them.
    """

    limits: Tensor
    usual: Tensor
    total: int = 0
    first: list[tuple[int, tuple[int, ...], float]] = field(default_factory=list)

    def fresh(self) -> Outliers:
        """The same limits, and nothing noted, for another pass."""
        return Outliers(self.limits, self.usual)

    def taken_out(self, values: Tensor, row: int) -> Tensor:
        """Instances from ``row`` on without outliers; the same tensor if there are none.

        A negative outlier becomes 0: features that are nowhere else negative must stay so.
        """
        far = values.abs() > self.limits
        if not far.any():
            return values
        places = far.nonzero()
        self.total += len(places)
        for at in places[: SHOWN - len(self.first)].tolist():
            self.first.append((row + at[0], tuple(at[1:]), float(values[tuple(at)])))
        return torch.where(far, torch.where(values > 0, self.usual, 0.0), values)

    def where(self, rows: npt.NDArray[np.int64] | None = None) -> str:
        """How many there are, and the places of the first; ``rows`` of the user's features, if in another order.

        >>> Outliers(torch.tensor(1.0), torch.tensor(1.0), 1, [(4, (2,), 1e8)]).where()
        'features: 1 cell is far outside: row 5, column 3 (1e+08)'
        """
        found = ((row if rows is None else int(rows[row]), at, value) for row, at, value in self.first)
        places = ", ".join(f"row {row + 1}, column {_column(at)} ({value:.4g})" for row, at, value in found)
        rest = f" and {self.total - len(self.first):,} more" if self.total > len(self.first) else ""
        counted = "1 cell is" if self.total == 1 else f"{self.total:,} cells are"
        return f"features: {counted} far outside: {places}{rest}"


def outlier_limits(instances: Instances) -> Outliers:
    r"""The limits beyond which cells are far larger than their like, and outweigh all others in the overall deviation.

    .. math::
        |x_{ij}| > \max\bigl( 100 \, u_j, \; \sqrt{N D} \, s \bigr), \qquad
        u_j = \max(Q_{0.99}(|x_{\cdot j}|), Q_{0.99}(|x| : x \ne 0))

    with the quantiles Q of a sample of instances, and s the root mean square of the sample, cut off at u. The first
    term leaves features with long tails alone, and those in other units than the rest. The second leaves alone what
    does no harm.
    """
    sample = instances.sample(SAMPLE).abs()
    usual = _usual(sample)
    overall = math.sqrt(len(instances) * sample[0].numel()) * float(sample.minimum(usual).square().mean().sqrt())
    limits = (FAR * usual).clamp(min=overall)
    return Outliers(torch.where(limits > 0, limits, torch.inf), usual)  # where all are zero, nothing has a size


def _usual(sample: Tensor) -> Tensor:
    """The size that nearly all cells of a feature, or of all features, stay below, whichever is larger."""
    own = _lower_quantile(sample)
    size = sample[sample > 0]
    return own.clamp(min=float(_lower_quantile(size))) if len(size) else own


def _lower_quantile(values: Tensor) -> Tensor:
    """Along the first axis; the lower of two neighbours, so that the largest of a few values is left out."""
    rank = math.floor(NEARLY_ALL * (len(values) - 1))
    return values.kthvalue(rank + 1, dim=0).values


def _column(at: tuple[int, ...]) -> str:
    """The place of a feature, counted from one: ``3``, or ``1/5/9`` in an image."""
    return "/".join(str(k + 1) for k in at) or "1"
