"""Simulated juries of language models: families whose members err together, with the truth."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations

__all__ = ["NOISE", "jury"]

NOISE = "noise"
"""A judge who only guesses."""


def jury(
    seed: int = 0, n_tasks: int = 300, names: str = "", answered: float = 0.95
) -> tuple[Annotations, npt.NDArray[np.int64]]:
    """Two families of three judges, one who only guesses, and the true classes of the tasks."""
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=n_tasks)

    def mostly(share: float, answers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.where(rng.random(n_tasks) < share, answers, rng.integers(3, size=n_tasks))

    given = {}
    for family in ("oak", "elm"):
        says = mostly(0.6, z)
        for size, knows in (("s", 0.5), ("m", 0.7), ("l", 0.85)):
            given[f"{family}-{size}"] = np.where(rng.random(n_tasks) < 0.6, says, mostly(knows, z))
    given[NOISE] = rng.integers(3, size=n_tasks)
    matrix = np.column_stack(list(given.values()))
    matrix[rng.random(matrix.shape) >= answered] = -1
    tasks, people = np.nonzero(matrix >= 0)
    ids = [f"{names}{name}" for name in given]
    crowd = Annotations(
        tasks, people, matrix[tasks, people], task_ids=range(n_tasks), annotator_ids=ids, classes=["x", "y", "z"]
    )
    return crowd, z
