"""Alpha for ordered and numeric classes and AC1: published examples, loops, naive resampling."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.metrics import gwet_ac1, krippendorff_alpha
from helpers.agreement import KRIPPENDORFF_2011, pairable_units


def slow_alpha(matrix: Any, level: str) -> float:
    """All ordered pairs of labels, within tasks and anywhere, by the definition of the distance."""
    units = pairable_units(matrix)
    everything = [y for labels in units for y in labels]

    def distance(a: int, b: int) -> float:
        if level == "interval":
            return float((a - b) ** 2)
        low, high = min(a, b), max(a, b)
        between = sum(low <= y <= high for y in everything)
        return float((between - (everything.count(a) + everything.count(b)) / 2) ** 2)

    n = len(everything)
    observed = sum(distance(a, b) / (len(labels) - 1) for labels in units for a, b in permutations(labels, 2)) / n
    expected = sum(distance(a, b) for a, b in permutations(everything, 2)) / (n * (n - 1))
    return 1 - observed / expected if expected else 1.0


def slow_ac1(matrix: Any, C: int) -> float:
    units = pairable_units(matrix)
    agreed = np.mean([np.mean([a == b for a, b in permutations(labels, 2)]) for labels in units])
    shares = [np.mean([labels.count(c) / len(labels) for labels in units]) for c in range(C)]
    chance = sum(p * (1 - p) for p in shares) / (C - 1)
    return float((agreed - chance) / (1 - chance))


def ragged(seed: int, C: int = 4) -> Any:
    rng = np.random.default_rng(seed)
    matrix = np.clip(rng.integers(C, size=(12, 1)) + rng.integers(-1, 2, size=(12, 5)), 0, C - 1)
    return np.where(rng.random(matrix.shape) < 0.3, -1, matrix)


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorffs_own_example(level: Any, published: float) -> None:
    assert krippendorff_alpha(KRIPPENDORFF_2011, level, n_boot=0).value == pytest.approx(published, abs=5e-4)


@pytest.mark.parametrize("level", ["ordinal", "interval"])
@pytest.mark.parametrize("seed", range(8))
def test_alpha_agrees_with_pairs_one_by_one(level: Any, seed: int) -> None:
    matrix = ragged(seed)
    assert krippendorff_alpha(matrix, level, n_boot=0).value == pytest.approx(slow_alpha(matrix, level), abs=1e-12)


@pytest.mark.parametrize("level", ["ordinal", "interval"])
def test_the_bootstrap_resamples_tasks_and_distances(level: Any) -> None:
    """Ordinal distances depend on how often each class was drawn."""
    matrix = ragged(3)
    matrix = matrix[(matrix >= 0).sum(1) >= 2]
    rng = np.random.default_rng(7)
    draws = [slow_alpha(matrix[rng.integers(len(matrix), size=len(matrix))], level) for _ in range(60)]
    found: Any = krippendorff_alpha(matrix, level, n_boot=60, confidence=0.9, seed=7)
    np.testing.assert_allclose(found[1:], np.quantile(draws, [0.05, 0.95]), atol=1e-10)


def test_order_and_numbers_come_from_the_names() -> None:
    numbers = KRIPPENDORFF_2011.astype(object)
    words = np.where(KRIPPENDORFF_2011 >= 0, np.array(["", "a", "b", "c", "d", "e"])[KRIPPENDORFF_2011], None)
    texts = np.where(KRIPPENDORFF_2011 >= 0, np.array(["", "8", "9", "10", "11", "12"])[KRIPPENDORFF_2011], None)

    def crowd(matrix: Any) -> Annotations:
        rows = [(i, r, y) for i, row in enumerate(matrix) for r, y in enumerate(row) if y is not None and y != -1]
        return Annotations.from_triples(*zip(*rows, strict=True))

    for matrix in (numbers, words, texts):
        assert krippendorff_alpha(crowd(matrix), "ordinal", n_boot=0).value == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha(crowd(texts), "interval", n_boot=0).value == pytest.approx(0.849, abs=5e-4)
    with pytest.raises(InputError, match=r"needs classes that are numbers, not 'a', 'b'.*level='ordinal'"):
        krippendorff_alpha(crowd(words), "interval")


@pytest.mark.parametrize("level", ["ordinal", "interval"])
def test_a_single_class_is_perfect_agreement(level: Any) -> None:
    assert krippendorff_alpha([[2, 2], [2, 2]], level, n_boot=5) == (1.0, 1.0, 1.0)


def test_ac1_of_gwets_example() -> None:
    """125 subjects, 118 and 0 on the diagonal: kappa is below 0, although 94 in 100 agree; AC1 is 0.94."""
    matrix = np.repeat([[0, 0], [0, 1], [1, 0]], [118, 5, 2], axis=0)
    assert gwet_ac1(matrix, n_boot=0).value == pytest.approx(0.9408, abs=1e-4)
    assert gwet_ac1([[0, 0], [0, 0]], n_boot=3) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("seed", range(8))
def test_ac1_agrees_with_pairs_one_by_one(seed: int) -> None:
    matrix = ragged(seed)
    crowd = Annotations.from_matrix(matrix, classes=range(5))  # nobody chose the last class
    assert gwet_ac1(crowd, n_boot=0).value == pytest.approx(slow_ac1(matrix, 5), abs=1e-12)


def test_the_interval_of_ac1_against_naive_resampling() -> None:
    matrix = ragged(2)
    matrix = matrix[(matrix >= 0).sum(1) >= 2]
    rng = np.random.default_rng(4)
    draws = [slow_ac1(matrix[rng.integers(len(matrix), size=len(matrix))], 4) for _ in range(80)]
    found: Any = gwet_ac1(Annotations.from_matrix(matrix, classes=range(4)), n_boot=80, seed=4)
    np.testing.assert_allclose(found[1:], np.quantile(draws, [0.025, 0.975]), atol=1e-12)


def test_impossible_options() -> None:
    with pytest.raises(InputError, match="n_boot must be"):
        gwet_ac1(KRIPPENDORFF_2011, n_boot=-1)
