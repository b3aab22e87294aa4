"""Simulated preferences with the truth: scores, annotators, and biases that all of them share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from conal._arrays import FloatArray, draw_from_rows
from conal.data.preferences import Preferences
from conal.errors import InputError
from conal.parameters import Doc, check_parameters, frozen_parameters, keywords_of, number, whole


@frozen_parameters
class PairSettings:
    """Settings of :func:`simulate_pairs`."""

    n_items: Annotated[int, whole(2), Doc("Number of items.")] = 20
    n_annotators: Annotated[int, whole(1), Doc("Number of annotators.")] = 40
    n_tasks: Annotated[int, whole(1), Doc("Number of tasks; each is a pair of items, drawn at random.")] = 1000
    per_task: Annotated[
        int, whole(1), Doc("Annotators who compare the items of a task, each in an order of its own.")
    ] = 4
    score_spread: Annotated[float, number(at_least=0), Doc("Standard deviation of scores, in log-odds.")] = 1.0
    reliability_spread: Annotated[
        float, number(at_least=0), Doc("Standard deviation of reliability; its mean is 1.")
    ] = 0.4
    own_position_spread: Annotated[
        float, number(at_least=0), Doc("Standard deviation of annotators' own position bias, in log-odds.")
    ] = 0.4
    position: Annotated[float, number(), Doc("Position bias that all share: log-odds in favour of the left item.")] = (
        0.5
    )
    length: Annotated[float, number(), Doc("Log-odds that all give to the longer item per unit of length.")] = 0.5
    tie: Annotated[float | None, number(), Doc("Log-odds of ties in Davidson's model; None for no ties.")] = -0.5
    seed: Annotated[int, whole(0), Doc("Seed of all random numbers.")] = 0


@dataclass(frozen=True, eq=False)
class SimulatedPairs:
    """Comparisons, with the covariate ``length``, and the parameters that they were drawn from, by their codes."""

    preferences: Preferences
    scores: FloatArray
    reliability: FloatArray
    own_position: FloatArray
    settings: PairSettings


@keywords_of(PairSettings)
def simulate_pairs(settings: PairSettings) -> SimulatedPairs:
    """Draw comparisons from the model of :class:`conal.aggregation.pairwise.SharedBiasBradleyTerry`.

    Examples
    --------
    >>> simulate_pairs(n_items=5, n_tasks=100).preferences
    Preferences(5 items, 40 annotators, 400 comparisons)
    """
    from conal.aggregation.pairwise import log_probabilities  # which needs scipy

    check_parameters(settings)
    s, rng = settings, np.random.default_rng(settings.seed)
    if s.per_task > s.n_annotators:
        raise InputError(f"per_task={s.per_task} is more than n_annotators={s.n_annotators}")
    scores = s.score_spread * rng.standard_normal(s.n_items)
    reliability = 1 + s.reliability_spread * rng.standard_normal(s.n_annotators)
    reliability += 1 - reliability.mean()  # scores have the unit of an average annotator
    own = s.own_position_spread * rng.standard_normal(s.n_annotators)
    first = rng.integers(s.n_items, size=s.n_tasks)
    second = (first + rng.integers(1, s.n_items, size=s.n_tasks)) % s.n_items
    tasks = np.repeat(np.arange(s.n_tasks), s.per_task)
    annotators = (
        rng.integers(s.n_annotators, size=s.n_tasks)[:, None] + np.arange(s.per_task)
    ).ravel() % s.n_annotators
    swap = rng.random(len(tasks)) < 0.5
    left, right = np.where(swap, second[tasks], first[tasks]), np.where(swap, first[tasks], second[tasks])
    length = rng.standard_normal(s.n_tasks)[tasks] * np.where(swap, -1, 1)
    log_odds = reliability[annotators] * (scores[left] - scores[right]) + own[annotators]
    log_odds += s.position + s.length * length
    chances = np.exp(log_probabilities(log_odds, -np.inf if s.tie is None else s.tie)).T
    winner = (1 - draw_from_rows(chances, rng.random(len(tasks)))).astype(np.int8)
    words = np.array(["tie", "left", "right"], dtype=object)[winner]
    columns: dict[str, Any] = {"worker": annotators, "left": left, "right": right, "winner": words, "task": tasks}
    found = Preferences.from_columns(**columns, covariates={"length": length})
    items, people = found.item_ids, found.annotator_ids  # those that occur
    return SimulatedPairs(found, scores[items], reliability[people], own[people], settings)
