"""Differences of paired shares, with intervals, and Holm's correction for many of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

__all__ = ["Difference", "holm", "paired_difference"]

Pair = tuple[Sequence[float], Sequence[float]]
"""Shares of one crowd by two ways, in the order of the seeds."""


class Difference(NamedTuple):
    """A mean difference in points with its interval, and the p-value of no difference; NaN where seeds are too few."""

    value: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        """As tables print it.

        >>> str(Difference(1.25, 0.5, 2.0, 0.01)), str(Difference(1.25, np.nan, np.nan, np.nan))
        ('+1.2 (+0.5 to +2.0)', '+1.2')
        """
        ends = "" if np.isnan(self.low) else f" ({self.low:+.1f} to {self.high:+.1f})"
        return f"{self.value:+.1f}{ends}"


def paired_difference(*crowds: Pair, confidence: float = 0.95) -> Difference:
    r"""The mean over crowds of the mean difference of paired shares, in points, by Student's distribution.

    .. math::
        \bar d = \frac1K \sum_k \bar d_k, \qquad
        \hat v = \frac1{K^2} \sum_k \frac{s_k^2}{n_k}, \qquad
        \nu = \sum_k (n_k - 1)

    with the mean :math:`\bar d_k` and standard deviation :math:`s_k` of the differences of crowd k over its
    :math:`n_k` seeds. So the interval is about these crowds and other seeds.

    >>> found = paired_difference(([0.9, 0.8, 0.85], [0.8, 0.8, 0.8]))
    >>> round(found.value, 6), round(found.low, 3), round(found.high, 3)
    (5.0, -7.421, 17.421)
    """
    gaps = [100 * (np.asarray(ours, float) - np.asarray(theirs, float)) for ours, theirs in crowds]
    value = float(np.mean([gap.mean() for gap in gaps]))
    freedom = sum(len(gap) - 1 for gap in gaps)
    if min(len(gap) for gap in gaps) < 2:
        return Difference(value, np.nan, np.nan, np.nan)
    error = float(np.sqrt(sum(gap.var(ddof=1) / len(gap) for gap in gaps)) / len(gaps))
    half = float(student.ppf(0.5 + confidence / 2, freedom)) * error
    p = 2 * float(student.sf(abs(value) / error, freedom)) if error > 0 else float(value == 0)
    return Difference(value, value - half, value + half, p)


def holm(p_values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """p-values after Holm's correction for looking at all of them; NaN stays NaN and does not count.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]

    References
    ----------
    Holm (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6.
    """
    p = np.asarray(p_values, float)
    adjusted = np.full(p.shape, np.nan)
    given = np.flatnonzero(np.isfinite(p))
    order = given[np.argsort(p[given], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
