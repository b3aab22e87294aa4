"""The noise, which is OpenDP's, has the stated distribution and scale; without OpenDP, a sentence says what to type."""

from __future__ import annotations

import math
import sys
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from conal.errors import InputError
from conal.privacy import noisy_counts

DRAWS = 20_000
LEVEL = 1e-6
"""How often a right distribution fails: OpenDP's source of randomness takes no seed."""


def noise(scale: float) -> npt.NDArray[np.int64]:
    return noisy_counts(np.full(DRAWS, 50), 1000, 1000 / scale) - 50


def probability(x: int, scale: float) -> float:
    ratio = math.exp(-1 / scale)
    return (1 - ratio) / (1 + ratio) * ratio ** abs(x)


def misfit(drawn: npt.NDArray[np.int64], scale: float) -> float:
    """The p-value of the draws by Pearson's test, in cells of at least ten expected draws."""
    edge = next(x for x in range(1, 1000) if len(drawn) * probability(x, scale) < 10)
    counts = Counter(np.clip(drawn, -edge, edge).tolist())
    inner = [probability(x, scale) for x in range(-edge + 1, edge)]
    tail = (1 - sum(inner)) / 2
    expected = len(drawn) * np.array([tail, *inner, tail])
    return float(stats.chisquare([counts[x] for x in range(-edge, edge + 1)], expected).pvalue)


@pytest.mark.parametrize("scale", [0.5, 7 / 3])
def test_draws_have_the_stated_distribution_and_no_other(scale: float) -> None:
    drawn = noise(scale)
    assert misfit(drawn, scale) > LEVEL
    assert misfit(drawn, scale / 2) < LEVEL  # half the noise would be noticed
    assert misfit(drawn, scale * 1.2) < LEVEL  # and a fifth too much


def test_large_scales_have_the_deviation_of_the_continuous_distribution() -> None:
    drawn = noise(10_000.0)
    assert drawn.std() == pytest.approx(2**0.5 * 10_000, rel=0.05)
    assert stats.kstest(drawn / 10_000, "laplace").pvalue > LEVEL
    assert stats.kstest(drawn / 10_000 / 1.2, "laplace").pvalue < LEVEL


def test_cells_have_independent_noise_and_keep_their_shape() -> None:
    drawn = noisy_counts(np.zeros((2, DRAWS), dtype=np.int64), 10, 1.0)
    assert drawn.shape == (2, DRAWS)
    assert abs((drawn[0] * drawn[1]).mean() / drawn.var()) < 10 / DRAWS**0.5


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1000, 1e-9), (10**9, 1e-9), (1000, 100.0), (10**9, 100.0)])
def test_every_admitted_epsilon_has_noise(sensitivity: int, epsilon: float) -> None:
    drawn = noisy_counts(np.zeros(400, dtype=np.int64), sensitivity, epsilon)
    assert np.abs(drawn).mean() == pytest.approx(sensitivity / epsilon, rel=0.4)


def test_without_opendp_a_sentence_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(InputError, match=r"needs opendp, which is not installed; run: pip install 'conal\[privacy\]'$"):
        noisy_counts(np.zeros(1, dtype=np.int64), 1, 1.0)
