"""Groups of annotators by merging: those whose labels one matrix explains best become one, again and again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray
from conal.aggregation.dirichlet import log_normaliser

__all__ = ["merged_groups"]

MOST = 200
"""Annotators that are merged: those with the most labels. Pairs of all are too many in a large crowd."""


def merged_groups(counts: FloatArray, alpha: FloatArray, n: int) -> npt.NDArray[np.int64]:
    r"""(R,) the group of every annotator, from 0 to at most n - 1; -1 for annotators who were not merged.

    Every annotator starts alone. The two groups a and b whose merging raises the evidence most, or lowers it least,
    become one until n are left (:math:`n_{cl}` are a group's expected labels, B is the multivariate beta function):

    .. math::
        \sum_c \log \mathrm B(\alpha_{c \cdot} + n^a_{c \cdot} + n^b_{c \cdot}) + \log \mathrm B(\alpha_{c \cdot})
        - \log \mathrm B(\alpha_{c \cdot} + n^a_{c \cdot}) - \log \mathrm B(\alpha_{c \cdot} + n^b_{c \cdot})

    Parameters
    ----------
    counts : (R, C, C)
        Expected labels of every annotator, ``[r, true, observed]``.
    alpha : (C, C)
        Dirichlet parameters of a row of a group's matrix.
    n : int
        Number of groups.

    References
    ----------
    Heller and Ghahramani (2005). Bayesian hierarchical clustering. ICML.

    Examples
    --------
    >>> able, other = np.array([[9.0, 1.0], [1.0, 9.0]]), np.array([[5.0, 5.0], [5.0, 5.0]])
    >>> merged_groups(np.stack([able, other, able, other]), np.ones((2, 2)), 2).tolist()
    [0, 1, 0, 1]
    """
    chosen = np.sort(np.argsort(-counts.sum((1, 2)), kind="stable")[:MOST])
    groups = np.full(len(counts), -1, dtype=np.int64)
    groups[chosen] = np.arange(len(chosen))
    pooled = counts[chosen].copy()
    evidence = _evidence(pooled, alpha)
    gains = np.full((len(chosen), len(chosen)), -np.inf)  # of merging b into a, a < b
    for k in range(len(chosen)):
        gains[k, k + 1 :] = _evidence(pooled[k] + pooled[k + 1 :], alpha) - evidence[k] - evidence[k + 1 :]
    for _ in range(len(chosen) - n):
        a, b = divmod(int(gains.argmax()), len(chosen))
        groups[groups == b] = a
        pooled[a] += pooled[b]
        evidence[a] = _evidence(pooled[a], alpha)
        gains[b], gains[:, b] = -np.inf, -np.inf
        left = np.setdiff1d(np.unique(groups[chosen]), a)
        gain = _evidence(pooled[a] + pooled[left], alpha) - evidence[a] - evidence[left]
        gains[np.minimum(a, left), np.maximum(a, left)] = gain
    groups[chosen] = np.unique(groups[chosen], return_inverse=True)[1]
    return groups


def _evidence(counts: FloatArray, alpha: FloatArray) -> FloatArray:
    """Logarithm of the probability of a group's expected labels (..., C, C)."""
    return np.asarray((log_normaliser(alpha + counts) - log_normaliser(alpha)).sum(-1))
