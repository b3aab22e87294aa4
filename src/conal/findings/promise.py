"""What a plan promises: how many labels are right afterwards, by simulated answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal._support.arrays import draw_from_rows
from conal.findings.asking import CAUTION, Asking
from conal.findings.crowd_plan import Planned
from conal.findings.lessons import EXPERT
from conal.metrics.difference_estimator import Rate

__all__ = ["Promise", "budget_for", "promise"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

DRAWS = 200
POINTS = 20
"""Budgets on the curve, the first of which is 0."""
CONFIDENCE = 0.95
DOUBT = (0.25, 0.4)
"""Spread of the log of the factor by which log-posteriors should be less sure than they are, or surer. The second is
larger: posteriors are as little sure as held-out labels allow, and a classifier learns from new labels too."""
SHARPNESS = np.exp(np.linspace(-1, 1.6, 14))
"""Factors for which tasks without a planned label are counted; between them they are interpolated."""


class Promise(NamedTuple):
    """Expected accuracy of the labels after more and more of a plan, with intervals; the first row is before it."""

    labels: IntArray
    cost: FloatArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray


def promise(asking: Asking, planned: Planned, *, seed: int = 0, draws: int = DRAWS) -> Promise:
    r"""Accuracy of the labels of all tasks along a plan.

    Everything is drawn from what is believed, and labels are inferred again: true classes from the posterior, matrices
    of the annotators from Dirichlet distributions around their means, and answers from the matrices. The posterior
    itself may be too sure or not sure enough: in every draw, true classes come from :math:`q^t` with a random t, mostly
    between 0.6 and 2.2. What answers teach about other tasks is not counted.

    Parameters
    ----------
    asking : Asking
    planned : Planned
    seed : int
        The same seed gives the same promise.
    draws : int
    """
    rng = np.random.default_rng(seed)
    n = max(len(asking.posterior), 1)
    total = len(planned.tasks)
    at = np.unique(np.linspace(0, total, min(POINTS, total) + 1).round().astype(np.int64))
    inside, place = np.unique(planned.tasks, return_inverse=True)
    mean, spread = _others(asking, inside)
    waves = _waves(place)
    right = np.empty((draws, len(at)))
    for k in range(draws):
        doubt = rng.standard_normal()
        sharp = float(np.exp(DOUBT[int(doubt > 0)] * doubt))
        gains = _draw(asking, planned, inside, place, waves, sharp, rng)
        others = np.interp(sharp, SHARPNESS, mean) + np.interp(sharp, SHARPNESS, spread) * rng.standard_normal()
        right[k] = others + np.concatenate([[gains[0]], gains[0] + np.cumsum(gains[1:])])[at]
    right = np.clip(right / n, 0.0, 1.0)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(right, [tail, 1 - tail], axis=0)
    cost = np.concatenate([[0.0], np.cumsum(planned.cost)])[at]
    found = Promise(at, cost, _expected(asking, planned)[at], low, high)
    return found if asking.now is None else _measured(found, asking.now)


def _measured(found: Promise, now: Rate) -> Promise:
    """The same gains from the accuracy that true labels measured, with its uncertainty beside that of the answers.

    >>> ends = np.arange(2), np.arange(2.0), np.array([0.9, 0.95]), np.array([0.9, 0.92]), np.array([0.9, 0.96])
    >>> made = _measured(Promise(*ends), Rate(0.6, 0.5, 0.7, 50, 50.0))
    >>> made.accuracy.round(2).tolist(), made.low.round(3).tolist(), made.high.round(3).tolist()
    ([0.6, 0.65], [0.5, 0.546], [0.7, 0.75])
    """
    accuracy = np.minimum(found.accuracy + now.value - found.accuracy[0], 1.0)
    gains = found.accuracy - found.low, found.high - found.accuracy
    start = gains[0][0], gains[1][0]  # doubt about the posterior before any answer, which was measured instead
    below, above = (np.sqrt(np.maximum(each**2 - first**2, 0)) for each, first in zip(gains, start, strict=True))
    low = accuracy - np.hypot(below, now.value - now.low)
    high = accuracy + np.hypot(above, now.high - now.value)
    return found._replace(accuracy=accuracy, low=np.maximum(low, 0.0), high=np.minimum(high, 1.0))


def budget_for(found: Promise, accuracy: float) -> float | None:
    """The cost of reaching an accuracy, between the points of a curve; None where the plan does not.

    >>> ends = np.array([0, 10]), np.array([0.0, 10.0]), np.array([0.8, 0.9]), np.zeros(2), np.ones(2)
    >>> [budget_for(Promise(*ends), goal) for goal in (0.9, 0.95, 0.5)]
    [10.0, None, 0.0]
    """
    if found.accuracy[-1] < accuracy:
        return None
    rising = np.maximum.accumulate(found.accuracy)
    return float(np.interp(accuracy, rising, found.cost)) if accuracy > rising[0] else 0.0


def _expected(asking: Asking, planned: Planned) -> FloatArray:
    """(labels + 1,) the mean posterior of the labels after each planned one."""
    best = asking.posterior.max(1)
    gains = np.concatenate([[0.0], np.cumsum(planned.gain)])
    return np.asarray((best.sum() + gains) / max(len(best), 1))


def _others(asking: Asking, inside: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the right labels of tasks without a planned one, for each factor."""
    rest = np.delete(asking.posterior, inside, axis=0)
    mean, spread = np.zeros(len(SHARPNESS)), np.zeros(len(SHARPNESS))
    log = np.log(np.maximum(rest, 1e-300))
    log -= log.max(1, keepdims=True)
    for k, sharp in enumerate(SHARPNESS):
        best = 1 / np.exp(sharp * log).sum(1)
        mean[k], spread[k] = best.sum(), np.sqrt((best * (1 - best)).sum())
    return mean, spread


def _waves(place: IntArray) -> list[IntArray]:
    """Rows of the plan that are the first about their task, the second, and so on."""
    order = np.argsort(place, kind="stable")
    first = np.searchsorted(place[order], place[order])
    turn = np.empty(len(place), np.int64)
    turn[order] = np.arange(len(place)) - first
    return [np.flatnonzero(turn == k) for k in range(int(turn.max(initial=-1)) + 1)]


def _draw(
    asking: Asking,
    planned: Planned,
    inside: IntArray,
    place: IntArray,
    waves: list[IntArray],
    sharp: float,
    rng: np.random.Generator,
) -> FloatArray:
    """(labels + 1,) right labels of the planned tasks before the plan, and how many more by each answer."""
    q = asking.posterior[inside]
    truth = draw_from_rows(q**sharp, rng.random(len(q))) if len(q) else np.empty(0, np.int64)
    joint = q.copy()
    right = (joint.argmax(1) == truth).astype(float)
    found = np.zeros(len(place) + 1)
    found[0] = right.sum()
    people, who = np.unique(planned.annotators, return_inverse=True)
    matrices = _draw_matrices(asking, people, rng)
    for rows in waves:
        at = place[rows]
        answers = draw_from_rows(matrices[who[rows], truth[at]], rng.random(len(rows)))
        expert = planned.annotators[rows] == EXPERT
        likelihood = asking.confusion[np.maximum(planned.annotators[rows], 0), :, answers]
        likelihood = np.where(expert[:, None], np.eye(q.shape[1])[answers], likelihood)
        joint[at] *= likelihood
        now = (joint[at].argmax(1) == truth[at]).astype(float)
        found[rows + 1] = now - right[at]
        right[at] = now
    return found


def _draw_matrices(asking: Asking, people: IntArray, rng: np.random.Generator) -> FloatArray:
    """(people, C, C) a draw of everybody's matrix; an expert's is certain."""
    n_classes = asking.posterior.shape[1]
    means, weight = asking.confusion[np.maximum(people, 0)], asking.met[np.maximum(people, 0)] + CAUTION
    drawn = rng.gamma(means * weight[:, :, None]) + 1e-12
    drawn /= drawn.sum(2, keepdims=True)
    return np.where((people == EXPERT)[:, None, None], np.eye(n_classes), drawn)
