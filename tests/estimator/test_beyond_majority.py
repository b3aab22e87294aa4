"""Every method beats majority vote on a crowd that was built for it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import conal
from conal.data.annotations import Annotations

N, R, C, D = 600, 15, 4, 8
SEEDS = (0, 1)
OPTIONS: dict[str, Any] = {"epochs": 40, "selection": "last", "hidden": (32,), "verbose": False}
HERE = ("aggnet", "anno-reg", "dl-cl", "dl-cl-over", "dl-ds", "dl-glad", "dl-wc", "max-mig", "two-stage", "xconal")
"""Others are yardsticks, or have crowds of their own below."""

Crowd = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], Annotations]


def instances(rng: np.random.Generator, n: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    z = rng.integers(C, size=n)
    return (1.6 * np.eye(D)[z] + rng.normal(size=(n, D))).astype(np.float32), z


@cache
def crowd_of_a_few_experts(seed: int, favour: float, labels_per_task: int) -> Crowd:
    """A third of the annotators are nearly always right; the others guess, or say class 0 (``favour``)."""
    rng = np.random.default_rng(seed)
    x, z = instances(rng, N)
    matrix = np.full((N, R), -1)
    for i in range(N):
        for r in rng.choice(R, labels_per_task, replace=False):
            if r < R // 3:
                matrix[i, r] = z[i] if rng.random() < 0.95 else rng.integers(C)
            else:
                matrix[i, r] = 0 if rng.random() < favour else rng.integers(C)
    return x, z, Annotations.from_matrix(matrix, classes=range(C))


@cache
def accuracy_of(name: str, seed: int, favour: float, labels_per_task: int) -> float:
    """Accuracy on fresh instances of a classifier trained on such a crowd."""
    x, _, annotations = crowd_of_a_few_experts(seed, favour, labels_per_task)
    fresh, truth = instances(np.random.default_rng(1000 + seed), 2000)
    return conal.make(name, seed=seed, **OPTIONS).fit(x, annotations).score(fresh, truth)


def gains(name: str, favour: float, labels_per_task: int) -> npt.NDArray[np.float64]:
    """Points above DL-MV, by seed."""
    own, majority = (
        np.array([accuracy_of(method, seed, favour, labels_per_task) for seed in SEEDS]) for method in (name, "dl-mv")
    )
    return np.asarray(100 * (own - majority))


@pytest.mark.parametrize("name", HERE)
@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_where_most_annotators_favour_one_class(name: str) -> None:
    found = gains(name, favour=0.5, labels_per_task=3)
    assert found.min() > 0
    assert found.mean() > 5


@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_doctor_net_where_most_annotators_guess() -> None:
    """Guessers' heads cancel out in the mean of all heads; in a vote of two they do not."""
    found = gains("doctor-net", favour=0.0, labels_per_task=2)
    assert found.min() > 5


@cache
def accuracy_among_common_mistakes(name: str, seed: int) -> float:
    """The paper's generator: 70 % of the labels by a common confusion that is wrong 50 times in a hundred."""
    data = conal.datasets.synthetic(
        n_train=2000, n_valid=10, n_test=2000, proportion=0.7, common_strength=0.5, seed=seed
    )
    assert data.test is not None
    return conal.make(name, seed=seed, **OPTIONS).fit(data.x, data.annotations).score(data.test.x, data.test.y)


@pytest.mark.parametrize("name", ["conal", "conal-em"])
def test_where_everybody_makes_the_same_mistakes(name: str) -> None:
    own, majority = (
        np.array([accuracy_among_common_mistakes(method, seed) for seed in SEEDS]) for method in (name, "dl-mv")
    )
    found = 100 * (own - majority)
    assert found.min() > 0
    assert found.mean() > 3
