"""Labels that are held out: how firm a prior may be, and how sure posteriors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from conal._arrays import BoolArray, FloatArray, row_slices
from conal.aggregation.counts import label_ranks, softmax
from conal.data.annotations import Annotations
from conal.errors import ConalWarning

# Choose the prior of a model by labels that it has not seen.

Candidate = TypeVar("Candidate", bound=float)
Scores = Callable[[Candidate, Annotations, BoolArray], FloatArray]

PARTS = 5
LEAST_PROBABILITY = 1e-12
"""A label that a model rules out counts as this probable, so that one such label does not decide alone."""
TRIAL = {"n_iter": 100, "tol": 1e-4, "n_restarts": 1, "verbose": False}
"""How far the fits go that are made only to choose a prior."""


def fifths(crowd: Annotations, rng: np.random.Generator) -> Iterator[tuple[Annotations, BoolArray]]:
    """The crowd without each of five random parts of its labels, and which these are.

    Every labelled task keeps at least one label.

    >>> crowd = Annotations.from_matrix([[0, 1, 0, 1, 1], [1, -1, -1, -1, -1]])
    >>> parts = list(fifths(crowd, np.random.default_rng(3)))
    >>> sum(int(held_out.sum()) for _, held_out in parts), all((rest.labels_per_task() > 0).all() for rest, _ in parts)
    (5, True)
    """
    order = rng.random(crowd.n_annotations)[label_ranks(crowd)]
    part = (order * PARTS).astype(np.int64)
    spared = np.lexsort((-order, crowd.tasks))[crowd.indptr[:-1][np.diff(crowd.indptr) > 0]]
    for k in range(PARTS):
        held_out = part == k
        others = np.bincount(crowd.tasks[~held_out], minlength=crowd.n_tasks)
        held_out[spared[others[crowd.tasks[spared]] == 0]] = False
        yield crowd.select(~held_out), held_out


def held_out_scores(
    crowd: Annotations, held_out: BoolArray, posterior: FloatArray, confusion: FloatArray
) -> FloatArray:
    r"""(H,) log-probability of each held-out label, given the posterior (N, C) by the other labels of its task.

    .. math::
        \log P(y_i^r) = \log \sum_c q_i(c) \, \pi^r_{c, y_i^r}
    """
    tasks, annotators, labels = crowd.tasks[held_out], crowd.annotators[held_out], crowd.labels[held_out]
    given = (posterior[tasks] * confusion[annotators, :, labels]).sum(1)
    return np.asarray(np.log(np.maximum(given, LEAST_PROBABILITY)))


def clearly_worse(scores: FloatArray, others: Iterable[FloatArray]) -> bool:
    """Whether the best of the others has a higher mean, by more than one standard error of the paired differences.

    >>> some = np.array([0.0, -1.0, -2.0, -1.0])
    >>> clearly_worse(some - 0.5, [some]), clearly_worse(some - [0.1, -0.05, 0.0, 0.0], [some])
    (True, False)
    """
    gap = max(others, key=np.mean) - scores
    return bool(gap.mean() > gap.std() / np.sqrt(max(len(gap), 1)))


def scores_of_all(
    crowd: Annotations, candidates: Iterable[Candidate], scores: Scores[Candidate], seed: int, *, parts: int = 1
) -> dict[Candidate, FloatArray]:
    """Log-probabilities of held-out labels under each candidate; empty arrays if none can be held out.

    Parameters
    ----------
    crowd : Annotations
    candidates : floats
        Values of a parameter.
    scores : callable
        From a value, the crowd without the held-out labels, and which these are, to their log-probabilities.
    seed : int
        Says which labels are held out.
    parts : int
        How many of five parts are held out in turn.
    """
    values = list(candidates)
    found: dict[Candidate, list[FloatArray]] = {value: [np.empty(0)] for value in values}
    with warnings.catch_warnings(action="ignore", category=ConalWarning):  # of fits that are not kept
        for rest, held_out in islice(fifths(crowd, np.random.default_rng(seed)), parts):
            if held_out.any():
                for value in values:
                    found[value].append(scores(value, rest, held_out))
    return {value: np.concatenate(some) for value, some in found.items()}


def strongest(crowd: Annotations, strengths: Iterable[float], scores: Scores[float], seed: int) -> float:
    """The greatest strength of a prior under which held-out labels are not clearly less probable than under the best.

    Parameters
    ----------
    crowd : Annotations
    strengths : floats
    scores : callable
        From a strength, the crowd without the held-out labels, and which these are, to their log-probabilities.
    seed : int
        Says which labels are held out. If none can be, the greatest strength is taken.
    """
    found = scores_of_all(crowd, sorted(strengths, reverse=True), scores, seed)
    return max(value for value in found if not len(found[value]) or not clearly_worse(found[value], found.values()))


# Temper posteriors by leave-one-label-out likelihood.

Triples = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]
"""Tasks, annotators and labels, as integers of any size."""

CANDIDATES = np.geomspace(0.1, 1.0, 40)
REJECTED_LOG_RATIO = 1.92
"""Half the 95 % point of chi-squared: what a likelihood ratio rejects."""
CELLS_AT_ONCE = 2_000_000
TINY = 1e-300


def held_out_certainty(
    log_posterior: FloatArray,
    votes: Triples,
    counts: FloatArray,
    *,
    vote_weight: float,
    pooling: float | FloatArray,
    max_labels: int = 100_000,
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
    pooling : float or (R, C, C)
        Pseudo-labels per row that draw an annotator's matrix to that of all, or those of every cell.
    max_labels : int
        In a larger crowd, so many labels of random tasks are looked at.
    """
    tasks, annotators, labels = _some(votes, max_labels)
    if not len(tasks):
        return 1.0
    common = counts.sum(0) + 0.5
    common /= common.sum(1, keepdims=True)
    prior = np.broadcast_to(pooling * common if np.ndim(pooling) == 0 else pooling, counts.shape)
    total, pseudo = counts.sum(2), prior.sum(2)
    losses = np.zeros(len(CANDIDATES))
    for part in row_slices(len(tasks), cells=log_posterior.shape[1], limit=CELLS_AT_ONCE):
        i, r, y = tasks[part], annotators[part], labels[part]
        own = softmax(log_posterior[i])
        drawn = prior[r, :, y]
        with_it = (counts[r, :, y] + drawn) / (total[r] + pseudo[r])
        without = (np.maximum(counts[r, :, y] - own, 0) + drawn) / (np.maximum(total[r] - own, 0) + pseudo[r])
        rest = log_posterior[i] - vote_weight * np.log(np.maximum(with_it, TINY))
        losses -= _log_likelihoods(rest, without)
    return float(CANDIDATES[np.flatnonzero(losses <= losses.min() + REJECTED_LOG_RATIO)[0]])


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


def _some(votes: Triples, max_labels: int) -> Triples:
    """The labels of random tasks, if there are too many."""
    tasks, annotators, labels = votes
    if len(tasks) <= max_labels:
        return votes
    here = (np.random.default_rng(0).random(int(tasks.max()) + 1) < max_labels / len(tasks))[tasks]
    return tasks[here], annotators[here], labels[here]
