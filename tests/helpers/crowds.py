"""Random crowds of every kind that has caused trouble, and labels as lists of triples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.datasets.crowd import CrowdTruth, simulate_crowd
from conal.parameters.simulation import CrowdSettings

__all__ = [
    "colluding_crowd",
    "crowd_of_families",
    "graded_crowd",
    "ragged_crowd",
    "sparse_crowd",
    "thin_matrices",
    "triples",
]


def triples(crowd: Annotations) -> list[tuple[Any, Any, Any]]:
    """(task, worker, label) of every annotation, by name."""
    table = crowd.to_table().to_pydict()
    return list(zip(table["task"], table["worker"], table["label"], strict=True))


def ragged_crowd(seed: int, n_tasks: int = 12, n_annotators: int = 7, n_classes: int = 4) -> Annotations:
    """Labels at random; some tasks and some annotators have none."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, n_classes, size=(n_tasks, n_annotators))
    matrix[rng.random(matrix.shape) < 0.6] = -1
    matrix[rng.integers(n_tasks)] = -1
    matrix[:, rng.integers(n_annotators)] = -1
    matrix[0, :2] = [0, 1] if matrix[:, 0].max() >= 0 else [-1, 1]
    return Annotations.from_matrix(matrix, classes=range(n_classes))


def sparse_crowd(seed: int, n_tasks: int = 15, n_annotators: int = 5, n_classes: int = 3) -> Annotations:
    """Labels at random, half of them missing; the first task and annotator have none, the last class is nobody's."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(max(n_classes - 1, 1), size=(n_tasks, n_annotators))
    matrix[rng.random(matrix.shape) < 0.5] = -1
    matrix[0], matrix[:, 0], matrix[1, 1:3] = -1, -1, [0, min(1, n_classes - 1)]
    return Annotations.from_matrix(matrix, classes=range(n_classes))


def graded_crowd(
    seed: int, n_tasks: int = 40, n_annotators: int = 6, n_classes: int = 3, *, worst: float = 0.4, share: float = 0.5
) -> Annotations:
    """Annotators who know from ``worst`` to 95 % of the answers and guess the others.

    They give a ``share`` of all possible labels; the first task and the first annotator have none.
    """
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n_tasks)
    right = rng.random((n_tasks, n_annotators)) < np.linspace(worst, 0.95, n_annotators)
    matrix = np.where(right, z[:, None], rng.integers(n_classes, size=right.shape))
    matrix[rng.random(matrix.shape) >= share] = -1
    matrix[0], matrix[:, 0], matrix[1, 1:3] = -1, -1, [0, 1]
    return Annotations.from_matrix(matrix, classes=range(n_classes))


def thin_matrices() -> Iterator[npt.NDArray[np.int64]]:
    """Label matrices at the edge of what says anything, three classes in each."""
    rng = np.random.default_rng(0)
    single = np.full((100, 9), -1)
    single[np.arange(100), rng.integers(9, size=100)] = rng.integers(3, size=100)
    yield single  # one label per task
    yield rng.integers(3, size=(30, 1))  # one annotator in all
    yield np.repeat(rng.integers(3, size=(20, 1)), 10, axis=1)  # ten of one mind
    yield rng.integers(3, size=(5, 5))  # as many annotators as tasks
    hole = rng.integers(3, size=(30, 4))
    hole[3], hole[:, 2] = -1, -1
    yield hole  # a task and an annotator without labels


def colluding_crowd(
    seed: int, *, colluders: float = 0.4, accuracy: float = 0.65, n_tasks: int = 1500, n_annotators: int = 30
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], Annotations]:
    """Features, truth and labels, four per task, of a crowd in which some exchange the five classes in the same way.

    Honest annotators know a share ``accuracy`` of the answers and guess the others; colluders never slip. With the
    seeds 1 and 2, the group wins `xconal` over, but not Dawid-Skene.
    """
    n_classes, per_task, width = 5, 4, 10
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n_tasks)
    x = (2 * np.eye(width)[z] + rng.normal(size=(n_tasks, width))).astype(np.float32)
    who = np.concatenate([rng.choice(n_annotators, per_task, replace=False) for _ in range(n_tasks)])
    tasks = np.repeat(np.arange(n_tasks), per_task)
    honest = np.where(rng.random(len(tasks)) < accuracy, z[tasks], rng.integers(n_classes, size=len(tasks)))
    exchanged = np.roll(np.arange(n_classes), 1)[z[tasks]]
    labels = np.where(who < round(colluders * n_annotators), exchanged, honest)
    crowd = Annotations(
        tasks, who, labels, task_ids=range(n_tasks), annotator_ids=range(n_annotators), classes=range(n_classes)
    )
    return x, z, crowd


def crowd_of_families(labels_each: int, seed: int, **changes: Any) -> tuple[Annotations, CrowdTruth]:
    """Three families of five, who err more like these than like the crowd; five labels per task, four classes."""
    settings: dict[str, Any] = {
        "n_annotators": 15,
        "families": 3,
        "family_share": 0.8,
        "labels_per_instance": 5,
        "individual_strength": 0.5,
        "proportion": 0.3,
        "gate_scale": 0.0,
    }
    n_tasks = 15 * labels_each // 5
    rng = np.random.default_rng(seed)
    z = rng.integers(4, size=n_tasks)
    features = rng.standard_normal((n_tasks, 1))  # omega is the same for all, so they do not matter
    return simulate_crowd(z, features, range(4), CrowdSettings(**settings | changes, seed=seed))
