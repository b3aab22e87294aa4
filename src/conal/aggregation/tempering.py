"""Temper posteriors by leave-one-label-out likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conal._arrays import FloatArray, row_slices
from conal.aggregation.counts import softmax

IntArray = npt.NDArray[Any]
Votes = tuple[IntArray, IntArray, IntArray]
"""Tasks, annotators and labels, as integers of any size."""

CANDIDATES = np.geomspace(0.1, 1.0, 40)
REJECTED = 1.92
"""Half the 95 % point of chi-squared: what a likelihood ratio rejects."""
MAX_LABELS = 100_000
"""Labels of random tasks that are looked at in a larger crowd."""
CELLS = 2_000_000
TINY = 1e-300


def held_out_certainty(
    log_posterior: FloatArray, votes: Votes, counts: FloatArray, *, vote_weight: float, pooling: float, seed: int = 0
) -> float:
    r"""The exponent :math:`\tau \le 1` of posteriors that is as small as left-out labels allow.

    Annotators err together, and networks repeat the errors that they were trained on; then posteriors are surer than
    they are right. Other people's labels tell: predict every label from the posterior of its task without it,

    .. math::
        p_\tau(y_i^r) = \sum_c q^{-r}_{i, \tau}(c) \, \pi^{r, -i}_{c, y_i^r}, \qquad
        q^{-r}_{i, \tau}(c) \propto \bigl( q_i(c) / (\pi^r_{c, y_i^r})^\gamma \bigr)^\tau

    A posterior that is too sure makes the labels that contradict it very unlikely. Of all :math:`\tau` that a
    likelihood ratio does not reject against the best one, the smallest is taken. Where annotators err
    independently it stays near 1. No label changes. What nearly everybody gets wrong stays invisible.

    Parameters
    ----------
    log_posterior : (N, C)
    votes : tasks, annotators and labels of all annotations
    counts : (R, C, C)
        Expected counts ``[r, true, observed]`` under the posterior.
    vote_weight : float
        :math:`\gamma`, with which votes entered the posterior.
    pooling : float
        Pseudo-labels per row that draw an annotator's matrix to that of all.
    """
    tasks, annotators, labels = _some(votes, seed)
    if not len(tasks):
        return 1.0
    common = counts.sum(0) + 0.5
    common /= common.sum(1, keepdims=True)
    total = counts.sum(2)
    losses = np.zeros(len(CANDIDATES))
    for part in row_slices(len(tasks), cells=log_posterior.shape[1], limit=CELLS):
        i, r, y = tasks[part], annotators[part], labels[part]
        own = softmax(log_posterior[i])
        drawn = pooling * common[:, y].T
        with_it = (counts[r, :, y] + drawn) / (total[r] + pooling)
        without = (np.maximum(counts[r, :, y] - own, 0) + drawn) / (np.maximum(total[r] - own, 0) + pooling)
        rest = log_posterior[i] - vote_weight * np.log(np.maximum(with_it, TINY))
        losses -= _log_likelihoods(rest, without)
    return float(CANDIDATES[np.flatnonzero(losses <= losses.min() + REJECTED)[0]])


def _log_likelihoods(rest: FloatArray, without: FloatArray) -> FloatArray:
    """Of every candidate, the log-likelihood of P labels, from (P, C) log-posteriors and probabilities of the labels.

    Classes come first: sums over the first axis are several times as fast as those over many short rows.
    """
    below_best = np.ascontiguousarray((rest - rest.max(1, keepdims=True)).T)
    chance = np.ascontiguousarray(without.T)
    found = np.empty(len(CANDIDATES))
    for k, tau in enumerate(CANDIDATES):
        odds = np.exp(tau * below_best)
        found[k] = np.log(np.maximum((odds * chance).sum(0) / odds.sum(0), TINY)).sum()
    return found


def _some(votes: Votes, seed: int) -> Votes:
    """The labels of random tasks, if there are too many."""
    tasks, annotators, labels = votes
    if len(tasks) <= MAX_LABELS:
        return votes
    n_tasks = int(tasks.max()) + 1
    kept = np.random.default_rng(seed).random(n_tasks) < MAX_LABELS / len(tasks)
    here = kept[tasks]
    return tasks[here], annotators[here], labels[here]
