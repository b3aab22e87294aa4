"""Whom to flag, so that few of the flagged are false alarms: by p-values, or by probabilities of a false alarm."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["discoveries", "likely"]


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


def likely(false_alarm: npt.NDArray[np.float64], level: float = 0.05) -> npt.NDArray[np.bool_]:
    """(n,) whom to flag: as many as there can be with a mean probability of a false alarm of at most the level.

    NaN stands for somebody who is not judged.

    References
    ----------
    Sun and Cai (2007). Oracle and adaptive compound decision rules for false discovery rate control. Journal of the
    American Statistical Association 102.

    Examples
    --------
    >>> likely(np.array([0.01, 0.9, np.nan, 0.08, 0.3])).tolist()
    [True, False, False, True, False]
    """
    ordered = np.sort(false_alarm[np.isfinite(false_alarm)])
    passed = np.flatnonzero(np.cumsum(ordered) <= level * np.arange(1, len(ordered) + 1))
    if not len(passed):
        return np.zeros(len(false_alarm), dtype=bool)
    return np.asarray(np.where(np.isfinite(false_alarm), false_alarm, np.inf) <= ordered[passed[-1]])
