"""Calibration error and Brier score against loops, hand-worked bins and scikit-learn."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss

from conal.errors import InputError
from conal.metrics import brier_score, calibration_error

FloatArray = npt.NDArray[np.float64]
Strategy = Literal["uniform", "quantile"]
Norm = Literal["l1", "max"]


def random_case(seed: int, n: int = 30, n_classes: int = 3) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Probabilities in tenths now and then, so that bins have instances on their edges and ties occur."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), size=n)
    coarse = rng.multinomial(10, np.full(n_classes, 1 / n_classes), size=n) / 10
    return rng.integers(n_classes, size=n), np.where(rng.random((n, 1)) < 0.5, coarse, p)


def slow_gaps(y: Any, p: FloatArray, n_bins: int, strategy: str) -> list[tuple[int, float]]:
    """(size, gap) of each bin with instances, by the definition: above the lower edge, up to the upper one."""
    confidence = p.max(1)
    inner = [m / n_bins for m in range(1, n_bins)]
    if strategy == "quantile":
        inner = [float(np.quantile(confidence, level)) for level in inner]
    edges = [-np.inf, *inner, np.inf]
    gaps = []
    for low, high in pairwise(edges):
        members = [i for i in range(len(y)) if low < confidence[i] <= high]
        if members:
            right = np.mean([np.argmax(p[i]) == y[i] for i in members])
            gaps.append((len(members), abs(float(right - np.mean(confidence[members])))))
    return gaps


@given(seed=st.integers(0, 10_000), n_bins=st.integers(1, 20), strategy=st.sampled_from(["uniform", "quantile"]))
@settings(max_examples=200, deadline=None)
def test_it_agrees_with_the_definition(seed: int, n_bins: int, strategy: Strategy) -> None:
    y, p = random_case(seed, n=1 + seed % 40)
    gaps = slow_gaps(y, p, n_bins, strategy)
    mean = sum(size * gap for size, gap in gaps) / len(y)
    found = calibration_error(y, p, n_bins=n_bins, strategy=strategy)
    largest = calibration_error(y, p, n_bins=n_bins, norm="max", strategy=strategy)
    assert found == pytest.approx(mean, abs=1e-12)
    assert largest == pytest.approx(max(gap for _, gap in gaps), abs=1e-12)
    assert 0 <= found <= largest + 1e-12 <= 1 + 2e-12


def test_upper_edges_belong_to_the_bin() -> None:
    p = [[0.8, 0.2], [0.9, 0.1]]  # in (0.6, 0.8] and (0.8, 1], right and wrong
    assert calibration_error([0, 1], p, n_bins=5) == pytest.approx((0.2 + 0.9) / 2, abs=1e-15)
    assert calibration_error([0, 1], p, n_bins=5, norm="max") == pytest.approx(0.9, abs=1e-15)
    assert calibration_error([0, 1], p, n_bins=1) == pytest.approx(0.85 - 0.5, abs=1e-15)


def test_quantile_bins_by_hand() -> None:
    confidence = np.array([0.6, 0.7, 0.8, 0.9])
    p = np.column_stack([confidence, 1 - confidence])
    # Two bins around the median 0.75: half right at 0.65 on average, all right at 0.85.
    found = calibration_error([0, 1, 0, 0], p, n_bins=2, strategy="quantile")
    assert found == pytest.approx((0.15 + 0.15) / 2, abs=1e-15)
    # Uniform bins put all of them into one: three quarters right at 0.75 on average.
    assert calibration_error([0, 1, 0, 0], p, n_bins=2) == pytest.approx(0, abs=1e-15)


def test_fifteen_uniform_bins_are_the_default() -> None:
    y, p = random_case(3, n=200)
    explicit = calibration_error(y, p, None, n_bins=15, norm="l1", strategy="uniform")
    assert calibration_error(y, p) == explicit
    assert explicit not in [calibration_error(y, p, n_bins=k) for k in (10, 14, 16, 20)]


@given(seed=st.integers(0, 1_000), strategy=st.sampled_from(["uniform", "quantile"]))
@settings(max_examples=50, deadline=None)
def test_order_does_not_matter(seed: int, strategy: Strategy) -> None:
    y, p = random_case(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    first, second = calibration_error(y, p, strategy=strategy), calibration_error(y[order], p[order], strategy=strategy)
    assert first == pytest.approx(second, abs=1e-12)


def test_certainty() -> None:
    p = np.eye(3)
    norms: tuple[Norm, Norm] = ("l1", "max")
    for norm in norms:
        assert calibration_error([0, 1, 2], p, norm=norm) == 0
        assert calibration_error([1, 2, 0], p, norm=norm) == 1
    assert brier_score([0, 1, 2], p) == 0
    assert brier_score([1, 2, 0], p) == 2


@given(seed=st.integers(0, 10_000))
@settings(max_examples=100, deadline=None)
def test_brier_score_agrees_with_the_definition(seed: int) -> None:
    y, p = random_case(seed)
    expected = sum((p[i, c] - (y[i] == c)) ** 2 for i in range(len(y)) for c in range(3)) / len(y)
    assert brier_score(y, p) == pytest.approx(expected, abs=1e-12)


def test_brier_score_of_two_classes_is_twice_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    y, p = rng.integers(2, size=50), rng.random(50)
    both = np.column_stack([1 - p, p])
    assert brier_score(y, both) == pytest.approx(2 * brier_score_loss(y, p), abs=1e-14)


@pytest.mark.parametrize("metric", [calibration_error, brier_score])
def test_names_of_columns(metric: Any) -> None:
    y, p = random_case(1)
    names = np.array(["dog", "cat", "ant"])
    expected = metric(y, p)
    assert metric(names[y], p, classes=names) == expected
    assert metric(pd.Series(names[y], index=range(30, 0, -1)), pd.DataFrame(p), classes=list(names)) == expected
    assert metric(y.astype(float), p) == expected
    assert metric(y + 10, p, classes=[10, 11, 12]) == expected
    single = p.astype(np.float32)  # 0.8 in single precision lies above 0.8, hence in the next bin
    assert metric(y, single) == metric(y, single.astype(np.float64))
    before = p.copy()
    metric(y, p)
    np.testing.assert_array_equal(p, before)


HALF = [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize("metric", [calibration_error, brier_score])
@pytest.mark.parametrize(
    ("true", "probas", "classes", "message"),
    [
        ([0, 1, 1], HALF, None, "y_true has 3 labels and probas 2 rows"),
        (
            [0, 2],
            HALF,
            None,
            "y_true: 2 not among the 2 columns of probas, the first at position 1; correct .* name the columns",
        ),
        ([0, -1], HALF, None, "y_true: -1 not among the 2 columns"),
        (["a", "b"], HALF, None, "y_true: contains 'a', 'b', which are not positions of columns; name the columns"),
        ([True, False], HALF, None, "not positions of columns"),
        ([0.5, 1], HALF, None, "not positions of columns"),
        ([0, None], HALF, None, "y_true: 1 labels are missing"),
        (["a", "c"], HALF, ["a", "b"], "y_true: 'c' not among the 2 columns of probas, the first at position 1"),
        (["a", "b"], HALF, ["a", "b", "c"], "classes: expected 2 distinct names"),
        (["a", "b"], HALF, ["a", "a"], "classes: expected 2 distinct names"),
        ("ab", HALF, None, "y_true: expected one label per instance, not str; pass a list, array or Series"),
        (np.ones((2, 2)), HALF, None, r"y_true: expected one label per instance, got shape \(2, 2\).*argmax"),
        ({1, 2}, HALF, None, "not set"),
        ([0, 1], [0.5, 0.5], None, r"probas: expected instances x classes, got shape \(2,\).*column_stack"),
        ([], np.ones((0, 2)), None, "probas: expected instances x classes"),
        ([0, 1], [[0.5, 0.5], [2.0, 3.0]], None, r"probas: row \[1\] sums to 5, not 1; pass probabilities"),
        ([0, 1], [[0.5, 0.5], [0.5, 0.498]], None, r"row \[1\] sums to 0.998"),
        ([0, 1], [[0.5, 0.5], [1.5, -0.5]], None, r"probas: negative at \[1, 1\]; .*softmax"),
        ([0, 1], [[0.5, np.nan], [0.5, 0.5]], None, r"probas: NaN or infinite at \[0, 1\]"),
        ([0, 1], [[0.5, 0.5], [np.inf, 0.5]], None, r"probas: NaN or infinite at \[1, 0\]"),
        ([0, 1], [[0.5, 0.5], [1.0]], None, "probas: cannot be read as an array"),
        ([0, 1], [["a", "b"], ["a", "b"]], None, "probas: cannot be read as an array"),
    ],
)
def test_unusable_input(metric: Any, true: Any, probas: Any, classes: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        metric(true, probas, classes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 0}, "n_bins must be a whole number of at least 1, not 0"),
        ({"n_bins": 2.0}, "n_bins must be"),
        ({"norm": "l2"}, "norm must be 'l1' or 'max', not 'l2'"),
        ({"strategy": "adaptive"}, "strategy must be 'uniform' or 'quantile', not 'adaptive'"),
    ],
)
def test_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        calibration_error([0, 1], HALF, **options)


def test_rows_within_the_tolerance_pass() -> None:
    assert brier_score([0], [[0.5, 0.5009]]) == pytest.approx(0.25 + 0.5009**2, abs=1e-15)
