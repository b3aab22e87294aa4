"""Passes over the training batches: what is kept between them, and that it changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import conal
from conal.methods import Batch, cross_conal
from conal.methods.cross_conal import ScaledBatches
from conal.training.batches import CrowdBatches, Instances


class Counted:
    """Training batches, and how often they were read."""

    def __init__(self) -> None:
        crowd = conal.Annotations.from_matrix(np.arange(12).reshape(6, 2) % 3)
        self.batches = CrowdBatches(Instances(np.arange(12.0, dtype=np.float32).reshape(6, 2)), crowd, batch_size=2)
        self.passes = 0

    def __iter__(self) -> Iterator[Batch]:
        self.passes += 1
        return (self.batches.cut(rows) for rows in np.arange(6).reshape(3, 2))


def doubled(batch: Batch) -> Batch:
    return batch._replace(x=2 * batch.x)


@pytest.mark.parametrize(("n_cells", "passes"), [(12, 1), (2**26 + 1, 3)])
def test_small_features_are_read_and_scaled_once(n_cells: int, passes: int) -> None:
    raw = Counted()
    scaled = ScaledBatches(raw, doubled, n_cells)
    for _ in range(3):
        found = torch.cat([batch.x for batch in scaled])
        np.testing.assert_array_equal(found.numpy(), 2 * np.arange(12.0).reshape(6, 2))
    assert raw.passes == passes


def test_a_fit_that_keeps_no_features_gives_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    data = conal.datasets.synthetic(n_train=150, n_classes=3, seed=1)
    fast: dict[str, Any] = {"epochs": 6, "verbose": False}
    kept = conal.CrossCoNAL(**fast).fit(data.x, data.annotations)
    monkeypatch.setattr(cross_conal, "KEPT_CELLS", 0)
    read = conal.CrossCoNAL(**fast).fit(data.x, data.annotations)
    np.testing.assert_array_equal(read.probas_, kept.probas_)
    np.testing.assert_array_equal(read.predict_proba(data.x), kept.predict_proba(data.x))
