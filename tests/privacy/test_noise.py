"""The noise has exactly the stated distribution: counts of draws against the probabilities, and small cases in full."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from scipy import stats

from conal.privacy.noise import discrete_laplace, exact

DRAWS = 10_000
LEVEL = 1e-3
"""How often a right distribution fails; the seeds are fixed, so that it is once and for all."""


def probability(x: int, scale: Fraction) -> float:
    ratio = math.exp(-1 / scale)
    return (1 - ratio) / (1 + ratio) * ratio ** abs(x)


def misfit(drawn: list[int], scale: Fraction) -> float:
    """The p-value of the draws by Pearson's test, in cells of at least ten expected draws."""
    edge = next(x for x in range(1, 1000) if len(drawn) * probability(x, scale) < 10)
    counts = Counter(max(-edge, min(edge, x)) for x in drawn)
    inner = [probability(x, scale) for x in range(-edge + 1, edge)]
    tail = (1 - sum(inner)) / 2
    expected = len(drawn) * np.array([tail, *inner, tail])
    observed = [counts[x] for x in range(-edge, edge + 1)]
    return float(stats.chisquare(observed, expected).pvalue)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(7, 3)])
def test_draws_have_the_stated_distribution_and_no_other(scale: Fraction) -> None:
    source = Random(11)
    drawn = [discrete_laplace(scale, source) for _ in range(DRAWS)]
    assert misfit(drawn, scale) > LEVEL
    assert misfit(drawn, scale / 2) < 1e-9  # half the noise would be noticed
    assert misfit(drawn, scale * Fraction(11, 10)) < LEVEL  # and a tenth too much


def test_large_scales_have_the_deviation_of_the_continuous_distribution() -> None:
    scale, source = Fraction(10_000), Random(5)
    drawn = np.array([discrete_laplace(scale, source) for _ in range(DRAWS)], dtype=float)
    assert stats.kstest(drawn / float(scale), "laplace").pvalue > LEVEL
    assert stats.kstest(drawn / float(scale) / 1.1, "laplace").pvalue < LEVEL


class Scripted(Random):
    """A source that answers by a script, and says how many answers there are where the script ends."""

    def __init__(self, script: tuple[int, ...]) -> None:
        super().__init__(0)
        self.script = list(script)

    def randrange(self, start: int, *_: object) -> int:  # type: ignore[override]
        if not self.script:
            raise EndOfScriptError(start)
        return self.script.pop(0)

    def getrandbits(self, k: int, /) -> int:
        return self.randrange(2**k)


class EndOfScriptError(Exception):
    """The number of possible answers to the next question."""


def follow(script: tuple[int, ...], chance: Fraction, scale: Fraction, found: dict[int, Fraction]) -> None:
    """Add up the chances of every course of random numbers that goes on like this, unless it is hardly possible."""
    if chance < Fraction(1, 4000):
        return
    try:
        x = discrete_laplace(scale, Scripted(script))
    except EndOfScriptError as ended:
        (n_answers,) = ended.args
        for answer in range(n_answers):
            follow((*script, answer), chance / n_answers, scale, found)
    else:
        found[x] = found.get(x, Fraction(0)) + chance


def test_all_courses_of_random_numbers_add_up_to_the_probabilities() -> None:
    found: dict[int, Fraction] = {}
    follow((), Fraction(1), Fraction(3, 2), found)
    lost = 1 - sum(found.values())
    assert 0 < lost < 0.1
    assert all(found[x] == found[-x] for x in found)  # exactly: these are fractions
    for x in range(-3, 4):
        wanted = probability(x, Fraction(3, 2))
        assert wanted - lost < found[x] < wanted + 1e-12


def test_epsilon_is_the_number_that_was_written() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert exact(1e-05) == Fraction(1, 100_000)
    assert exact(3) == 3
