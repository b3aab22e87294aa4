"""Shared fixtures: one thread, so that results are the same everywhere, and small random crowds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from conal.data.annotations import Annotations

# Machines that run tests are shared: how long an example takes says nothing about it.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def ragged_crowd(seed: int, n_tasks: int = 12, n_annotators: int = 7, n_classes: int = 4) -> Annotations:
    """A random crowd in which some tasks and some annotators have no labels."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, n_classes, size=(n_tasks, n_annotators))
    matrix[rng.random(matrix.shape) < 0.6] = -1
    matrix[rng.integers(n_tasks)] = -1
    matrix[:, rng.integers(n_annotators)] = -1
    matrix[0, :2] = [0, 1] if matrix[:, 0].max() >= 0 else [-1, 1]
    return Annotations.from_matrix(matrix, classes=range(n_classes))


@pytest.fixture(params=range(5))
def crowd(request: pytest.FixtureRequest) -> Annotations:
    """Five ragged crowds."""
    return ragged_crowd(request.param)
