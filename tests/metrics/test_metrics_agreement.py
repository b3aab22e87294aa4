"""Alpha and kappa against published examples, exact fractions over pairs, and naive resampling."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.metrics import Agreement, agreement, cohen_kappa, fleiss_kappa, krippendorff_alpha
from helpers.agreement import KRIPPENDORFF_2011, pairable_units

Matrix = npt.NDArray[np.int64]

FLEISS_1971_STYLE = [  # ten subjects, fourteen raters, five categories
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]


def slow_alpha(matrix: Matrix) -> float:
    """Every ordered pair of labels, within its task and anywhere, one by one and in exact fractions."""
    units = pairable_units(matrix)
    everything = [label for labels in units for label in labels]
    n = len(everything)
    observed = sum(Fraction(a != b, len(labels) - 1) for labels in units for a, b in permutations(labels, 2))
    expected = Fraction(sum(a != b for a, b in permutations(everything, 2)), n * (n - 1))
    return 1.0 if not expected else float(1 - observed / n / expected)


def slow_kappa(matrix: Matrix, *, single_labels_count: bool = False) -> float:
    """Gwet's definition label by label; he lets tasks with one label count in the class shares."""
    units = pairable_units(matrix)
    N = len(units)
    agreed = sum(
        Fraction(sum(a == b for a, b in permutations(labels, 2)), len(labels) * (len(labels) - 1)) for labels in units
    )
    if single_labels_count:
        units = [[int(label) for label in row if label >= 0] for row in matrix if (row >= 0).any()]
    classes = {label for labels in units for label in labels}
    shares = [sum(Fraction(labels.count(c), len(labels)) for labels in units) / len(units) for c in classes]
    chance = sum(share * share for share in shares)
    return 1.0 if chance == 1 else float((agreed / N - chance) / (1 - chance))


COEFFICIENTS: list[tuple[Callable[..., Agreement], Callable[[Matrix], float]]] = [
    (krippendorff_alpha, slow_alpha),
    (fleiss_kappa, slow_kappa),
]
both = pytest.mark.parametrize(("fast", "slow"), COEFFICIENTS)


@st.composite
def ragged(draw: st.DrawFn) -> Matrix:
    """Tasks x annotators with gaps; at least one task has two labels."""
    n_tasks, n_annotators, n_classes = draw(st.integers(1, 9)), draw(st.integers(2, 6)), draw(st.integers(1, 4))
    cells = st.lists(st.integers(-1, n_classes - 1), min_size=n_annotators, max_size=n_annotators)
    matrix = np.array(draw(st.lists(cells, min_size=n_tasks, max_size=n_tasks)))
    assume(((matrix >= 0).sum(1) >= 2).any())
    return matrix


def simulated(rng: np.random.Generator, n_tasks: int) -> Matrix:
    """Two to five labels per task out of three classes, 70 % of them right, the classes not alike."""
    z = rng.choice(3, size=n_tasks, p=[0.5, 0.3, 0.2])
    matrix = np.where(rng.random((n_tasks, 5)) < 0.7, z[:, None], rng.integers(3, size=(n_tasks, 5)))
    matrix[np.arange(5) >= rng.integers(2, 6, size=n_tasks)[:, None]] = -1
    return matrix


# ---------------------------------------------------------------- values


def test_krippendorffs_own_example() -> None:
    value = krippendorff_alpha(KRIPPENDORFF_2011, n_boot=0).value
    assert value == pytest.approx(0.743, abs=5e-4)
    # By hand: 40 labels with a partner, 9, 13, 10, 5 and 3 of each class, and 32 on the diagonal of coincidences:
    # (39 * 32 - 344) / (40 * 39 - 344).
    assert value == pytest.approx(904 / 1216, rel=1e-14)
    assert slow_alpha(KRIPPENDORFF_2011) == 904 / 1216


def test_fleiss_example() -> None:
    matrix = np.array([np.repeat(np.arange(5), counts) for counts in FLEISS_1971_STYLE])
    P = [(sum(n * n for n in row) - 14) / (14 * 13) for row in FLEISS_1971_STYLE]
    assert np.mean(P) == pytest.approx(0.378, abs=5e-4)  # as printed with the example, so the table is the right one
    assert fleiss_kappa(matrix, n_boot=0).value == pytest.approx(0.210, abs=5e-4)
    assert fleiss_kappa(matrix, n_boot=0).value == pytest.approx(slow_kappa(matrix), 1e-14)


def test_the_slow_kappa_is_gwets() -> None:
    """irrCAC, Gwet's own package, prints 0.76117 for these data, in which one task has a single label."""
    assert slow_kappa(KRIPPENDORFF_2011, single_labels_count=True) == pytest.approx(0.76117, abs=5e-6)
    without_it = fleiss_kappa(KRIPPENDORFF_2011, n_boot=0).value
    assert without_it == pytest.approx(slow_kappa(KRIPPENDORFF_2011[:11]), 1e-14)
    assert abs(without_it - 0.76117) > 1e-4


@both
@given(matrix=ragged())
@settings(max_examples=200, deadline=None)
def test_they_agree_with_pairs_counted_one_by_one(fast: Any, slow: Any, matrix: Matrix) -> None:
    assert fast(matrix, n_boot=0).value == pytest.approx(slow(matrix), rel=0, abs=1e-12)


@both
@given(matrix=ragged(), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_names_and_orders_do_not_matter(fast: Any, slow: Any, matrix: Matrix, seed: int) -> None:
    rng = np.random.default_rng(seed)
    renamed = np.append(rng.permutation(4), -1)[matrix]
    shuffled = rng.permutation(rng.permutation(renamed), axis=1)
    assert fast(shuffled, n_boot=0).value == pytest.approx(fast(matrix, n_boot=0).value, rel=0, abs=1e-12)


@given(n_tasks=st.integers(2, 12), m=st.integers(2, 6), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_on_balanced_data_alpha_is_kappa_corrected_for_sample_size(n_tasks: int, m: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).integers(3, size=(n_tasks, m))
    kappa = fleiss_kappa(matrix, n_boot=0).value
    alpha = krippendorff_alpha(matrix, n_boot=0).value
    assert alpha == pytest.approx(1 - (1 - 1 / matrix.size) * (1 - kappa), abs=1e-12)


@both
def test_frames_matrices_and_annotations_are_the_same(fast: Any, slow: Any) -> None:
    rng = np.random.default_rng(0)
    matrix = simulated(rng, 40)
    i, r = np.nonzero(matrix >= 0)
    frame = pd.DataFrame({"task": i, "worker": r, "label": [f"class {c}" for c in matrix[i, r]]})
    crowd = Annotations.from_frame(frame.sample(frac=1, random_state=1))
    assert fast(frame) == fast(matrix) == fast(crowd) == fast(pd.DataFrame(matrix))
    unused = Annotations.from_matrix(matrix, classes=[7, 2, 1, 0])
    assert fast(unused, n_boot=0).value == pytest.approx(slow(matrix), abs=1e-12)


@both
def test_all_labels_of_one_class_give_one(fast: Any, slow: Any) -> None:
    # 49 labels: 49 * (1 / 49) is not 1 in floating point
    assert fast(np.zeros((5, 49), dtype=int)) == Agreement(1.0, 1.0, 1.0)
    assert slow(np.zeros((5, 49), dtype=int)) == 1.0


@both
def test_replicates_of_one_class_count_as_one(fast: Any, slow: Any) -> None:
    found = fast([[0, 0], [1, 1]], n_boot=50)
    assert found == Agreement(1.0, 1.0, 1.0)
    assert fast([[0, 0], [0, 1]], n_boot=200).high == 1.0


# ---------------------------------------------------------------- intervals


@both
@pytest.mark.parametrize("seed", range(3))
def test_the_bootstrap_is_plain_resampling_of_tasks(fast: Any, slow: Any, seed: int) -> None:
    matrix = simulated(np.random.default_rng(seed), 15)
    matrix[3] = -1
    matrix[4, 1:] = -1  # neither of these two is among the tasks that are drawn
    pairable = matrix[(matrix >= 0).sum(1) >= 2]
    assert len(pairable) == 13
    rng = np.random.default_rng(seed)
    values = [slow(pairable[rng.integers(13, size=13)]) for _ in range(40)]
    found = fast(matrix, n_boot=40, confidence=0.8, seed=seed)
    assert found.value == pytest.approx(slow(matrix), abs=1e-12)
    np.testing.assert_allclose([found.low, found.high], np.quantile(values, [0.1, 0.9]), rtol=0, atol=1e-12)


@both
@pytest.mark.parametrize("cells", [1, 50, 333])
def test_pieces_do_not_change_the_result(fast: Any, slow: Any, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = simulated(np.random.default_rng(0), 30)
    whole = fast(matrix, n_boot=25)
    monkeypatch.setattr(agreement, "CHUNK_CELLS", cells)
    np.testing.assert_allclose(fast(matrix, n_boot=25), whole, rtol=0, atol=1e-12)


@both
def test_no_replicates_no_interval(fast: Any, slow: Any) -> None:
    found = fast(KRIPPENDORFF_2011, n_boot=0)
    assert (found.low, found.high) == (None, None)


@both
def test_seeds_and_confidence(fast: Any, slow: Any) -> None:
    matrix = simulated(np.random.default_rng(0), 50)
    assert fast(matrix) == fast(matrix, n_boot=1000, confidence=0.95, seed=0)
    assert fast(matrix, seed=1) != fast(matrix)
    narrow, wide = fast(matrix, confidence=0.5), fast(matrix, confidence=0.99)
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


@pytest.mark.slow
@both
def test_intervals_cover(fast: Any, slow: Any) -> None:
    """The true value is that of a crowd of 200,000 tasks; standard error of both coverages below 0.03."""
    truth = fast(simulated(np.random.default_rng(99), 200_000), n_boot=0).value
    rng = np.random.default_rng(0)
    runs = [
        (fast(m, n_boot=200), fast(m, n_boot=200, confidence=0.5)) for m in (simulated(rng, 80) for _ in range(300))
    ]
    covered = np.array([[found.low < truth < found.high for found in run] for run in runs]).mean(0)
    assert 0.90 < covered[0] < 0.98
    assert 0.42 < covered[1] < 0.58


@both
def test_memory_follows_annotations(fast: Any, slow: Any) -> None:
    """50,000 tasks x 1,000 classes would be 400 MB, and so would x 1,000 replicates; x 20,000 annotators far more."""
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(50_000), 2)
    annotators = (np.arange(100_000) * 7) % 20_000
    names: dict[str, Any] = {
        "task_ids": np.arange(50_000),
        "annotator_ids": np.arange(20_000),
        "classes": np.arange(1_000),
    }
    crowd = Annotations(tasks, annotators, rng.integers(1_000, size=100_000), **names)
    tracemalloc.start()
    fast(crowd, n_boot=1_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120e6


# ---------------------------------------------------------------- refusals


@both
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_boot": -1}, "n_boot must be a whole number of at least 0, not -1"),
        ({"n_boot": 10.0}, "n_boot must be"),
        ({"n_boot": True}, "n_boot must be"),
        ({"confidence": 95}, "confidence must be a share above 0 and below 1, not 95"),
        ({"confidence": 0}, "confidence"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": None}, "seed must be a whole number"),
    ],
)
def test_impossible_options(fast: Any, slow: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fast(KRIPPENDORFF_2011, **options)


def test_other_levels_are_refused() -> None:
    with pytest.raises(InputError, match="level must be 'nominal', 'ordinal' or 'interval', not 'ratio'"):
        krippendorff_alpha(KRIPPENDORFF_2011, level="ratio")  # type: ignore[arg-type]


@both
def test_nothing_to_compare(fast: Any, slow: Any) -> None:
    with pytest.raises(InputError, match=r"no task has two labels.*several annotators labelled"):
        fast([[0, -1], [-1, 1]])
    with pytest.raises(InputError, match="not None"):
        fast(None)
    with pytest.raises(InputError, match="expected tasks x annotators"):
        fast([0, 1, 1])


# ---------------------------------------------------------------- Cohen's kappa


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_cohen_against_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    from sklearn.metrics import cohen_kappa_score

    first, second = zip(*pairs, strict=True)
    assume(len({*first, *second}) > 1)
    wanted = cohen_kappa_score(first, second)
    found = cohen_kappa([*pairs, (0, -1), (-1, 1)], n_boot=0)  # tasks that one of them labelled count for nothing
    assert found.value == pytest.approx(wanted, abs=1e-12)
    assert (found.low, found.high) == (None, None)


def test_cohen_by_hand() -> None:
    """Agreement 35/50; shares 25/50 and 30/50 of the first class: chance 0.5 (0.6 + 0.4) = 0.5."""
    pairs = [(0, 0)] * 20 + [(0, 1)] * 5 + [(1, 0)] * 10 + [(1, 1)] * 15
    assert cohen_kappa(pairs, n_boot=0).value == pytest.approx(0.4)
    assert cohen_kappa([(2, 2), (2, 2)], n_boot=0).value == 1.0


def test_cohen_interval_against_naive_resampling() -> None:
    from sklearn.metrics import cohen_kappa_score

    rng = np.random.default_rng(3)
    first = rng.integers(3, size=200)
    second = np.where(rng.random(200) < 0.6, first, rng.integers(3, size=200))
    found = cohen_kappa(np.stack([first, second], 1), n_boot=4000)
    draws = [rng.integers(200, size=200) for _ in range(1500)]
    low, high = np.quantile([cohen_kappa_score(first[d], second[d]) for d in draws], [0.025, 0.975])
    assert found.low == pytest.approx(low, abs=0.015)
    assert found.high == pytest.approx(high, abs=0.015)


def test_cohen_compares_two() -> None:
    with pytest.raises(InputError, match="3 annotators; Cohen's kappa is for two"):
        cohen_kappa([[0, 1, 1]])
    with pytest.raises(InputError, match="no task was labelled by both"):
        cohen_kappa([[0, -1], [-1, 1]])


@pytest.mark.parametrize("weights", ["linear", "quadratic"])
@given(pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=30))
def test_weighted_kappa_against_scikit_learn(weights: Any, pairs: list[tuple[int, int]]) -> None:
    from sklearn.metrics import cohen_kappa_score

    first, second = zip(*pairs, strict=True)
    assume(len({*first, *second}) > 1)
    wanted = cohen_kappa_score(first, second, labels=range(5), weights=weights)
    crowd = Annotations.from_matrix([*pairs, (0, -1)], classes=range(5))
    assert cohen_kappa(crowd, weights=weights, n_boot=0).value == pytest.approx(wanted, abs=1e-12)


def test_weighted_kappa_needs_an_order() -> None:
    rows = [["poor", "fair"], ["good", "good"], ["fair", "fair"], ["poor", "poor"]]
    crowd = Annotations.from_matrix(rows)
    with pytest.raises(InputError, match="order of the classes"):
        cohen_kappa(crowd, weights="linear")
    found = cohen_kappa(crowd.as_ordinal(["poor", "fair", "good"]), weights="linear", n_boot=0)
    places = [[0, 1], [2, 2], [1, 1], [0, 0]]
    assert found == cohen_kappa(places, weights="linear", n_boot=0)
    with pytest.raises(InputError, match="weights must be"):
        cohen_kappa(places, weights="cubic")  # type: ignore[arg-type]
