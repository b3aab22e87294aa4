"""A simulated crowd that grades on a scale: labels that fall off with the distance from the true level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, softmax

from conal._arrays import FloatArray, IntArray, draw_from_rows
from conal.data.annotations import Annotations
from conal.datasets.adversaries import stream

VARIATION = 0.5
"""Standard deviation of the logarithms of the annotators' spreads."""


@dataclass(frozen=True, eq=False)
class Graders:
    """The truth: levels (N,) as positions in the classes, how each annotator grades (R,), and matrices (R, C, C)."""

    z: IntArray
    bias: FloatArray
    slope: FloatArray
    spread: FloatArray
    confusion: FloatArray


def ordinal_crowd(
    *,
    n_tasks: int = 500,
    n_levels: int = 5,
    labels_per_task: int = 5,
    labels_per_annotator: int = 20,
    bias: float = 0.5,
    slope: float = 0.15,
    spread: float = 1.0,
    guesses: float = 0.02,
    fall_off: Literal["discrete", "rounded"] = "discrete",
    seed: int = 0,
) -> tuple[Annotations, Graders]:
    """Grades from 1 to C by annotators with a bias, a slope and a spread; a share of guesses is drawn at random.

    Annotators label tasks in blocks of random order: nobody labels a task twice.
    """
    z = stream(seed, "levels").integers(n_levels, size=n_tasks)
    rng, blocks = stream(seed, "assignment"), np.arange(n_tasks) // labels_per_annotator
    tasks = np.concatenate([rng.permutation(n_tasks) for _ in range(labels_per_task)])
    annotators = np.concatenate([blocks + k * (blocks[-1] + 1) for k in range(labels_per_task)])
    R = int(annotators.max()) + 1
    rng = stream(seed, "individual")
    a, b = rng.normal(0.0, bias, R), rng.normal(1.0, slope, R)
    s = spread * np.exp(rng.normal(0.0, VARIATION, R))
    near = _near(a, b, s, n_levels, rounded=fall_off == "rounded")
    confusion = (1 - guesses) * near + guesses / n_levels
    labels = draw_from_rows(confusion[annotators, z[tasks]], stream(seed, "labels").random(len(tasks)))
    names: dict[str, Any] = {"task_ids": range(n_tasks), "annotator_ids": range(R), "classes": range(1, n_levels + 1)}
    crowd = Annotations(tasks, annotators, labels, **names, by_position=True, ordinal=True)
    return crowd, Graders(z, a, b, s, confusion)


def _near(bias: FloatArray, slope: FloatArray, spread: FloatArray, n_levels: int, *, rounded: bool) -> FloatArray:
    """(R, C, C) a normal density at the levels, or a normal variable that is rounded and cut off at both ends."""
    levels = np.arange(n_levels, dtype=np.float64)
    middle = levels.mean()
    expected = (middle + bias[:, None] + slope[:, None] * (levels - middle))[:, :, None]
    width = spread[:, None, None]
    if not rounded:
        return np.asarray(softmax(-0.5 * ((levels - expected) / width) ** 2, axis=-1))
    below = ndtr((levels[:-1] + 0.5 - expected) / width)
    ends = np.zeros((*below.shape[:-1], 1))
    return np.diff(np.concatenate([ends, below, ends + 1], axis=-1), axis=-1)
