"""Held-out annotations: how probable a model makes labels that it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from conal._arrays import FloatArray
from conal.aggregation.ranks import label_ranks
from conal.data.annotations import Annotations
from conal.errors import ConalWarning

Mask = npt.NDArray[np.bool_]
Candidate = TypeVar("Candidate", bound=float)
Scores = Callable[[Candidate, Annotations, Mask], FloatArray]

PARTS = 5
LEAST = 1e-12
"""A label that a model rules out counts as this probable, so that one such label does not decide alone."""
TRIAL = {"n_iter": 100, "tol": 1e-4, "n_restarts": 1, "verbose": False}
"""How far the fits go that are made only to choose a prior."""


def fifths(crowd: Annotations, rng: np.random.Generator) -> Iterator[tuple[Annotations, Mask]]:
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


def held_out_scores(crowd: Annotations, held_out: Mask, posterior: FloatArray, confusion: FloatArray) -> FloatArray:
    r"""(H,) log-probability of each held-out label, given the posterior (N, C) by the other labels of its task.

    .. math::
        \log P(y_i^r) = \log \sum_c q_i(c) \, \pi^r_{c, y_i^r}
    """
    tasks, annotators, labels = crowd.tasks[held_out], crowd.annotators[held_out], crowd.labels[held_out]
    given = (posterior[tasks] * confusion[annotators, :, labels]).sum(1)
    return np.asarray(np.log(np.maximum(given, LEAST)))


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)  # of fits that are not kept
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
