"""Benjamini and Hochberg's rule: whom to flag, so that few of the flagged are false alarms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["discoveries"]


def discoveries(p_values: npt.NDArray[np.float64], level: float = 0.05) -> npt.NDArray[np.bool_]:
    r"""(n,) which hypotheses to reject: those with :math:`p \le p_{(k)}`, the largest with :math:`p_{(k)} \le k q / n`.

    The expected share of false ones among them is at most the level q. NaN stands for no test, and does not count.

    References
    ----------
    Benjamini and Hochberg (1995). Controlling the false discovery rate. Journal of the Royal Statistical Society B 57.

    Examples
    --------
    >>> discoveries(np.array([0.03, 0.8, 0.01, np.nan, 0.04])).tolist()
    [False, False, True, False, False]
    >>> discoveries(np.array([0.03, 0.03, 0.01, 0.04])).tolist()
    [True, True, True, True]
    """
    tested = np.isfinite(p_values)
    ordered = np.sort(p_values[tested])
    passed = np.flatnonzero(ordered <= level * np.arange(1, len(ordered) + 1) / max(len(ordered), 1))
    if not len(passed):
        return np.zeros(len(p_values), dtype=bool)
    return np.asarray(np.where(tested, p_values, np.inf) <= ordered[passed[-1]])
