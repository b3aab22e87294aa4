"""The jackknife: how much a statistic varies, from its values with parts of the data left out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

__all__ = ["jackknife_margin"]

FloatArray = npt.NDArray[np.float64]


def jackknife_margin(left_out: FloatArray, confidence: float) -> FloatArray:
    r"""Half the width of the interval of a statistic, from its values (n, ...) with each of n parts left out.

    .. math::
        t_{n-1} \sqrt{\tfrac{n - 1}{n} \sum_k (\theta_{(-k)} - \bar\theta)^2}

    References
    ----------
    Efron and Tibshirani (1993). An introduction to the bootstrap. Chapman and Hall. Chapter 11.

    Examples
    --------
    Of a mean, it is the usual interval.

    >>> values = np.array([1.0, 2.0, 3.0, 6.0])
    >>> round(float(jackknife_margin((values.sum() - values) / 3, 0.95)), 3)
    3.437
    >>> round(float(stdtrit(3, 0.975) * values.std(ddof=1) / 2), 3)
    3.437
    """
    n = len(left_out)
    spread = np.sqrt((n - 1) / n * ((left_out - left_out.mean(0)) ** 2).sum(0))
    return np.asarray(stdtrit(max(n - 1, 1), (1 + confidence) / 2) * spread)
