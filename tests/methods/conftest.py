"""A small ragged crowd and ways to make methods around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from conal import methods
from conal.data.annotations import Annotations
from conal.methods import Batch, CrowdMethod, Problem
from conal.networks import MLP, FeatureScaler
from conal.training.batches import CrowdBatches, Instances

N, R, C, D = 12, 4, 3, 5

Made = Callable[..., tuple[Any, CrowdBatches]]


@pytest.fixture
def ragged() -> Annotations:
    """Twelve tasks, four annotators of whom the last is silent, three classes, one to three labels a task."""
    rng = np.random.default_rng(5)
    matrix = rng.integers(0, C, size=(N, R))
    matrix[rng.random(matrix.shape) < 0.4] = -1
    matrix[np.arange(N), np.arange(N) % (R - 1)] = np.arange(N) % C
    matrix[:, -1] = -1
    return Annotations.from_matrix(matrix, classes=range(C))


@pytest.fixture
def made(ragged: Annotations) -> Made:
    """``made(name, **hyperparameters)``: a prepared method in double precision, its weights moved, and the data."""

    def make(name: str, **options: Any) -> tuple[CrowdMethod, CrowdBatches]:
        torch.manual_seed(0)
        x = np.random.default_rng(1).normal(size=(N, D)).astype(np.float32)
        problem = Problem((D,), C, R, N, torch.tensor(ragged.labels_per_annotator()))
        method = methods.get(name)(problem, MLP(D, C, hidden=(4,), dropout=0.0), **options)
        method.scaler = FeatureScaler(
            torch.full((D,), 0.3), torch.full((D,), 1.7)
        )  # scaled and raw must not be mixed up
        method.prepare(ragged)
        method.double()
        with torch.no_grad():
            for parameter in method.parameters():
                parameter.add_(0.5 * torch.randn_like(parameter))
        return method.eval(), CrowdBatches(Instances(x), ragged, batch_size=100)

    return make


@pytest.fixture
def whole() -> Callable[[CrowdBatches], Batch]:
    """All instances as one batch, in double precision."""
    return lambda data: (batch := data.cut(np.arange(N)))._replace(x=batch.x.double())
