"""The noise has exactly the stated distribution: counts of draws against the probabilities, and small cases in full."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from scipy import stats

from conal import privacy as noise
from conal.privacy import _happens, discrete_laplace, exact

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
    """A source that answers by a script, and says how probable each answer is where the script ends."""

    def __init__(self, script: tuple[int, ...]) -> None:
        super().__init__(0)
        self.script = list(script)

    def answer(self, *chances: float) -> int:
        if not self.script:
            raise EndOfScriptError(*chances)
        return self.script.pop(0)

    def randrange(self, start: int, *_: object) -> int:
        return self.answer(*[1 / start] * start)

    def getrandbits(self, k: int, /) -> int:
        return self.randrange(2**k)


class EndOfScriptError(Exception):
    """How probable the answers to the next question are."""


def follow(draw: Callable[[Scripted], int], script: tuple[int, ...] = (), chance: float = 1.0) -> Counter[int]:
    """Result to probability: the sum over every course of random numbers that is not hardly possible."""
    found: Counter[int] = Counter()
    if chance < 1e-5:
        return found
    try:
        found[draw(Scripted(script))] = chance  # type: ignore[assignment]
    except EndOfScriptError as ended:
        for answer, likely in enumerate(ended.args):
            found.update(follow(draw, (*script, answer), chance * likely))
    return found


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 1), (1, 3), (2, 3)])
def test_coins_fall_with_the_stated_probability(numerator: int, denominator: int) -> None:
    found = follow(lambda source: int(_happens(numerator, denominator, source)))
    lost, wanted = 1 - sum(found.values()), math.exp(-numerator / denominator)
    assert lost < 0.01
    assert wanted - lost - 1e-9 <= found[1] <= wanted + 1e-9


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(3, 2), Fraction(1, 3)])
def test_all_courses_of_random_numbers_add_up_to_the_probabilities(
    scale: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    def coin(numerator: int, denominator: int, source: Scripted) -> bool:
        likely = math.exp(-numerator / denominator)
        return bool(source.answer(1 - likely, likely))

    monkeypatch.setattr(noise, "_happens", coin)
    found = follow(lambda source: discrete_laplace(scale, source))
    lost = 1 - sum(found.values())
    assert lost < 0.05
    for x in range(-4, 5):
        wanted = probability(x, scale)
        assert wanted - lost <= found[x] <= wanted + 1e-9
        assert wanted < 0.001 or found[x] / wanted > 0.75  # no result is lost alone


def test_epsilon_is_the_number_that_was_written() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert exact(1e-05) == Fraction(1, 100_000)
    assert exact(3) == 3
