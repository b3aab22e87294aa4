"""Which inferred class gets which name."""

from __future__ import annotations

import torch

from conal.methods.cross_conal import aligned_with_people, aligned_with_votes, is_identity


def test_classes_get_the_names_that_most_votes_agree_with() -> None:
    ring = torch.tensor([[1.0, 7.0, 2.0], [2.0, 1.0, 6.0], [9.0, 2.0, 1.0]])
    assert aligned_with_votes(ring).tolist() == [2, 0, 1]
    assert ring[aligned_with_votes(ring)].diagonal().tolist() == [9.0, 7.0, 6.0]
    assert aligned_with_votes(torch.eye(4)).tolist() == [0, 1, 2, 3]


def crowd(n_honest: int, n_ring: int, labels: float) -> torch.Tensor:
    """Honest people who are right in half of their labels, and a ring that has given a cycle of classes its names."""
    right = torch.roll(torch.eye(3), 1, dims=1)  # inferred class c is the class c + 1
    honest = labels * (0.25 * right + 0.25)
    return torch.cat([honest.expand(n_honest, 3, 3), (labels * torch.eye(3)).expand(n_ring, 3, 3)])


def test_people_who_are_more_name_the_classes_and_not_those_who_win_the_votes() -> None:
    counts = crowd(6, 4, labels=100.0)
    assert is_identity(aligned_with_votes(counts.sum(0)))
    order = aligned_with_people(counts)
    assert order.tolist() == [2, 0, 1]
    assert torch.equal(counts[0][order].diagonal(), torch.full((3,), 50.0))


def test_names_stay_where_people_are_no_majority_or_not_decided() -> None:
    assert is_identity(aligned_with_people(crowd(4, 6, labels=100.0)))
    assert is_identity(aligned_with_people(crowd(6, 4, labels=4.0)))  # 2 of 4 labels against 1 are no evidence
    assert is_identity(aligned_with_people(100 * torch.eye(3).expand(5, 3, 3)))
