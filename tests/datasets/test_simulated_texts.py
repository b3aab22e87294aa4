"""Simulated texts have the frequencies and repetitions that their truth states."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from conal.datasets.simulated_texts import simulate_texts


def test_words_have_the_shares_of_their_class() -> None:
    made = simulate_texts(400, 2, n_stems=20, length=50, signal=1.5, burstiness=0.0, seed=3)
    for c in range(2):
        counts = Counter(" ".join(t for t, k in zip(made.texts, made.z, strict=True) if k == c).split())
        total = sum(counts.values())
        found = np.array([counts[word] / total for word in made.vocabulary])
        error = np.sqrt(made.word_shares[c] * (1 - made.word_shares[c]) / total)
        assert np.abs((found - made.word_shares[c]) / error).max() < 4.5
    assert np.abs(made.word_shares[0] - made.word_shares[1]).max() > 0.005


def test_without_a_signal_classes_are_equal_and_the_seed_decides_the_texts() -> None:
    made = simulate_texts(5, 3, signal=0.0, seed=1)
    np.testing.assert_allclose(made.word_shares, made.word_shares[[0, 0, 0]])
    assert (
        made.texts == simulate_texts(5, 3, signal=0.0, seed=1).texts != simulate_texts(5, 3, signal=0.0, seed=2).texts
    )


@pytest.mark.parametrize("burstiness", [0.0, 0.1])
def test_words_come_again_as_often_as_the_urn_says(burstiness: float) -> None:
    """The second of two words repeats the first with (sum of p squared + b) / (1 + b)."""
    made = simulate_texts(5_000, 1, n_stems=20, length=3, burstiness=burstiness, seed=0)
    firsts = [text.split()[:2] for text in made.texts if " " in text]
    again = np.mean([first == second for first, second in firsts])
    wanted = ((made.word_shares[0] ** 2).sum() + burstiness) / (1 + burstiness)
    assert again == pytest.approx(wanted, abs=4 * np.sqrt(wanted / len(firsts)))
