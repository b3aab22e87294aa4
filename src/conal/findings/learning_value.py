r"""What answers teach beyond their own task: how somebody, or everybody, takes two classes for each other.

The tasks whose two most probable classes are a and b share what is not known about that pair: of the crowd's common
confusion, and of every annotator's own. An error there moves the log-odds of all of them together, by
:math:`\delta \sim N(0, s^2)`. Whoever learns :math:`\delta` decides these tasks better, each by

.. math::
    h(x, s) = E_\delta | \sigma(x + \delta) - \tfrac12 | - | E_\delta \sigma(x + \delta) - \tfrac12 |

with the log-odds x of a against b. If m tasks of the pair are known as well as if an expert had labelled them,
:math:`s^2 = 4 / m`, and k more answers teach the share :math:`k / (m + k)` of that variance: the first answer teaches
most, and where the crowd tells the classes apart, m is large and nothing is left to learn.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import combinations

import numpy as np
import numpy.typing as npt

__all__ = ["Learning", "closer_decision"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
SHARES = np.array([0, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1]) ** 2
"""Shares of the variance for which values are computed; between them they are interpolated."""
GRID: list[float] = SHARES.tolist()
FREE = 4.0
"""Tasks that count as known in every pair: where nothing else is known, s = 1."""
SURE = 5.0
"""Log-odds that nothing learned about the pair turns round."""


def closer_decision(log_odds: FloatArray, spread: FloatArray) -> FloatArray:
    r"""h(x, s): how much more often the likelier of two classes is right once the shift :math:`\delta` is known.

    >>> closer_decision(np.array([0.0, 0.0, 6.0]), np.array([0.0, 1.0, 1.0])).round(3).tolist()
    [0.0, 0.186, 0.0]
    """
    shifted = np.tanh((log_odds[..., None] + spread[..., None] * NODES) / 2) / 2
    weights = WEIGHTS / WEIGHTS.sum()
    return np.asarray(np.abs(shifted) @ weights - np.abs(shifted @ weights))


class Learning:
    """What is left to learn about each of many pairs of classes, and what the next answer about one teaches.

    Parameters
    ----------
    key : (n,) int
        The pair that each row is about: one of the crowd's, or one of an annotator's.
    chance : (n, 2)
        Probability of the two classes on the row's task.
    n_keys : int

    Examples
    --------
    Where the crowd guesses, an expert's answer tells about all tasks of the pair; where it is sure, about none:

    >>> guess, sure = np.full((20, 2), 0.5), np.tile([0.98, 0.02], (20, 1))
    >>> pairs = Learning(np.repeat([0, 1], 20), np.concatenate([guess, sure]), 2)
    >>> [round(pairs.next_value(0, planned), 2) for planned in (0, 1, 2)], round(pairs.next_value(1, 0), 3)
    ([1.76, 0.5, 0.27], 0.0)
    """

    def __init__(self, key: IntArray, chance: FloatArray, n_keys: int) -> None:
        total = np.maximum(chance.sum(1), 1e-12)
        even = (chance[:, 0] - chance[:, 1]) / total
        known = np.bincount(key, weights=even**2 * total, minlength=n_keys)
        self.known = known + FREE
        spread = 2 / np.sqrt(self.known)  # the information of one answer about even odds is 1/4
        log_odds = np.log(np.maximum(chance[:, 0], 1e-9)) - np.log(np.maximum(chance[:, 1], 1e-9))
        near = np.flatnonzero(np.abs(log_odds) < SURE)
        at, weight = key[near], total[near]
        each = (closer_decision(log_odds[near], share**0.5 * spread[at]) * weight for share in SHARES)
        sums = [np.bincount(at, weights=column, minlength=n_keys) for column in each]
        values = np.column_stack(sums).astype(np.float64)
        self.values = _concave(values)

    def next_value(self, key: int, planned: float, certainty: float = 1.0) -> float:
        """Expected number of tasks that one more answer decides rightly, after ``planned`` others.

        Parameters
        ----------
        certainty : float
            How well the answer shows what it teaches: 1 for an expert's.
        """
        known, ends = self.known.item(key), []  # plain numbers: arrays of one are slow
        for n in (planned, planned + certainty):
            share = n / (known + n)
            left = min(bisect_right(GRID, share), len(GRID) - 1) - 1
            low, high = self.values.item(key, left), self.values.item(key, left + 1)
            ends.append(low + (share - GRID[left]) / (GRID[left + 1] - GRID[left]) * (high - low))
        return float(max(ends[1] - ends[0], 0.0))

    def next_values(self, keys: IntArray, planned: FloatArray, certainty: FloatArray) -> FloatArray:
        """The same for many pairs."""
        known = self.known[keys]
        before, after = (self._learned(keys, n / (known + n)) for n in (planned, planned + certainty))
        return np.maximum(after - before, 0.0)

    def _learned(self, keys: IntArray, share: FloatArray) -> FloatArray:
        """What is decided rightly once a share of the variance is known."""
        left = np.minimum(np.searchsorted(SHARES, share, side="right"), len(SHARES) - 1) - 1
        part = (share - SHARES[left]) / (SHARES[left + 1] - SHARES[left])
        low, high = self.values[keys, left], self.values[keys, left + 1]
        return np.asarray(low + part * (high - low))


def _concave(values: FloatArray) -> FloatArray:
    """The least concave values above these, for every row: several answers may teach what one does not.

    >>> _concave(np.array([[0, 0, 0, 0, 0, 1.0]])).round(3).tolist()
    [[0.0, 0.016, 0.062, 0.25, 0.562, 1.0]]
    """
    found = values.copy()
    for i, j, k in combinations(range(len(SHARES)), 3):
        part = (SHARES[j] - SHARES[i]) / (SHARES[k] - SHARES[i])
        found[:, j] = np.maximum(found[:, j], values[:, i] + part * (values[:, k] - values[:, i]))
    return found
