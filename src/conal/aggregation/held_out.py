"""Held-out annotations: how probable a model makes labels that it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray
from conal.data.annotations import Annotations
from conal.errors import ConalWarning

__all__ = ["TRIAL", "Mask", "clearly_worse", "held_out_scores", "hold_out", "strongest"]

Mask = npt.NDArray[np.bool_]

SHARE = 0.2
LEAST = 1e-12
"""A label that a model rules out counts as this probable, so that one such label does not decide alone."""
TRIAL = {"n_iter": 100, "tol": 1e-4, "n_restarts": 1, "verbose": False}
"""How far the fits go that are made only to choose a prior."""


def hold_out(crowd: Annotations, rng: np.random.Generator) -> tuple[Annotations, Mask]:
    """The crowd without a random fifth of its labels, and which these are; every labelled task keeps at least one.

    >>> crowd = Annotations.from_matrix([[0, 1, 0, 1, 1], [1, -1, -1, -1, -1]])
    >>> rest, held_out = hold_out(crowd, np.random.default_rng(3))
    >>> rest.n_annotations + int(held_out.sum()), bool((rest.labels_per_task() > 0).all())
    (6, True)
    """
    order = rng.random(crowd.n_annotations)
    held_out = order < SHARE
    spared = np.lexsort((-order, crowd.tasks))[crowd.indptr[:-1][np.diff(crowd.indptr) > 0]]
    held_out[spared] = False
    return crowd.select(~held_out), held_out


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


def strongest(
    crowd: Annotations, strengths: Iterable[float], scores: Callable[[float, Annotations, Mask], FloatArray], seed: int
) -> float:
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
    rest, held_out = hold_out(crowd, np.random.default_rng(seed))
    if not held_out.any():
        return max(strengths)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)  # of fits that are not kept
        found = {strength: scores(strength, rest, held_out) for strength in sorted(strengths, reverse=True)}
    return max(strength for strength in found if not clearly_worse(found[strength], found.values()))
