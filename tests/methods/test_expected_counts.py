"""Expected counts against a loop over labels, batch by batch."""

from __future__ import annotations

import numpy as np
import torch

from conal.methods.em import ExpectedCounts


def test_counts_add_up_over_batches() -> None:
    rng = np.random.default_rng(0)
    q, annotators, labels = rng.random((50, 3)), rng.integers(0, 4, 50), rng.integers(0, 3, 50)
    expected = np.zeros((4, 3, 3))
    for p, r, y in zip(q, annotators, labels, strict=True):
        expected[r, :, y] += p
    counts = ExpectedCounts(4, 3, like=torch.zeros((), dtype=torch.float64))
    for piece in (slice(0, 20), slice(20, 20), slice(20, 50)):
        counts.add(*(torch.from_numpy(values[piece]) for values in (q, annotators, labels)))
    np.testing.assert_allclose(counts.matrices(), expected, atol=1e-12)
