"""Which inferred class gets which name."""

from __future__ import annotations

import torch

from conal.methods.class_matching import aligned_with_votes


def test_classes_get_the_names_that_most_votes_agree_with() -> None:
    ring = torch.tensor([[1.0, 7.0, 2.0], [2.0, 1.0, 6.0], [9.0, 2.0, 1.0]])
    assert aligned_with_votes(ring).tolist() == [2, 0, 1]
    assert ring[aligned_with_votes(ring)].diagonal().tolist() == [9.0, 7.0, 6.0]
    assert aligned_with_votes(torch.eye(4)).tolist() == [0, 1, 2, 3]
