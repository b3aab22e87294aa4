"""Majority vote: counts, ties, and tasks without votes."""

from __future__ import annotations

import numpy as np
import pytest

from conal.aggregation import MajorityVote
from conal.data.annotations import Annotations
from conal.errors import InputError

CROWD = Annotations.from_matrix([[1, 1, 0], [0, 1, -1], [-1, -1, -1], [-1, 0, -1]])


def test_shares_and_winners_by_hand() -> None:
    fitted = MajorityVote().fit(CROWD)
    np.testing.assert_allclose(fitted.probas_, [[1 / 3, 2 / 3], [0.5, 0.5], [0.5, 0.5], [1.0, 0.0]])
    assert fitted.codes_.tolist() == [1, 0, 0, 0]


def test_labels_are_the_users() -> None:
    crowd = Annotations.from_triples([0, 0, 1], ["a", "b", "a"], ["dog", "dog", "cat"])
    assert MajorityVote().fit(crowd).labels_.tolist() == ["dog", "cat"]


def test_random_ties_are_fair_seeded_and_never_beat_a_majority() -> None:
    crowd = Annotations.from_matrix([[0, 1, -1]] * 2000 + [[1, 1, 0]])
    one, same, other = (MajorityVote(ties="random", seed=seed).fit(crowd).codes_ for seed in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()
    assert 0.45 < one[:2000].mean() < 0.55
    assert one[2000] == 1


def test_unknown_tie_rule_is_refused() -> None:
    with pytest.raises(InputError, match="'first' or 'random'"):
        MajorityVote(ties="last").fit(CROWD)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 1.5, "x"])
def test_a_seed_that_cannot_be_meant(seed: object) -> None:
    with pytest.raises(InputError, match="seed must be a whole number of at least 0"):
        MajorityVote(ties="random", seed=seed).fit(np.zeros((2, 2), dtype=int))  # type: ignore[arg-type]


def test_confusion_and_skill_are_counted_against_the_winner() -> None:
    """By hand: winners 0, 1, 1; the third annotator disagrees once in two labels, the fourth is silent."""
    fitted = MajorityVote().fit(np.array([[0, 0, 1, -1], [1, 1, -1, -1], [1, 1, 1, -1]]))
    np.testing.assert_allclose(fitted.skills_, [1, 1, 0.5, 0.5])
    np.testing.assert_allclose(fitted.confusion_[3], np.full((2, 2), 0.5))
    np.testing.assert_allclose(fitted.confusion_[2], [[0, 1], [0, 1]])
    np.testing.assert_allclose(fitted.confusion_[:2], np.broadcast_to(np.eye(2), (2, 2, 2)))
