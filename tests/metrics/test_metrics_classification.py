"""Accuracy, macro F1 and confusion counts against scikit-learn, hand-worked cases and every kind of label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.metrics import accuracy, confusion_counts, macro_f1, mean_absolute_error

labels = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40)
METRICS = [accuracy, macro_f1, confusion_counts]


def split(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [a for a, _ in pairs], [b for _, b in pairs]


@given(pairs=labels)
@settings(max_examples=60, deadline=None)
def test_they_agree_with_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    true, predicted = split(pairs)
    assert accuracy(true, predicted) == pytest.approx(accuracy_score(true, predicted), abs=1e-14)
    expected = f1_score(true, predicted, average="macro", zero_division=0)
    assert macro_f1(true, predicted) == pytest.approx(expected, abs=1e-14)
    named = f1_score(true, predicted, labels=range(5), average="macro", zero_division=0)
    assert macro_f1(true, predicted, classes=range(5)) == pytest.approx(named, abs=1e-14)
    counts = confusion_counts(true, predicted, classes=range(5)).counts
    np.testing.assert_array_equal(counts, confusion_matrix(true, predicted, labels=range(5)))


@given(pairs=labels, seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_names_and_order_do_not_matter(pairs: list[tuple[int, int]], seed: int) -> None:
    true, predicted = split(pairs)
    order = np.random.default_rng(seed).permutation(len(true))
    names = np.array(["zebra", "ant", "cow", "bee", "dog"])
    renamed = names[np.array(true)[order]], names[np.array(predicted)[order]]
    assert accuracy(*renamed) == pytest.approx(accuracy(true, predicted), abs=1e-14)
    assert macro_f1(*renamed) == pytest.approx(macro_f1(true, predicted), abs=1e-14)


def test_macro_f1_by_hand() -> None:
    # a: 2 * 1 / (2 + 1); b: 2 * 1 / (1 + 3); c: never predicted; d: predicted, never true
    true, predicted = ["a", "a", "b", "c", "c"], ["a", "b", "b", "b", "d"]
    assert macro_f1(true, predicted) == pytest.approx((2 / 3 + 1 / 2 + 0 + 0) / 4, abs=1e-15)
    assert macro_f1(true, predicted, classes=list("abcde")) == pytest.approx((2 / 3 + 1 / 2) / 5, abs=1e-15)


def test_confusion_counts_put_the_true_class_first() -> None:
    found = confusion_counts(["b", "b", "a"], ["a", "a", "a"])
    assert found.classes.tolist() == ["a", "b"]
    assert found.counts.tolist() == [[1, 0], [2, 0]]
    ordered = confusion_counts(["b", "b", "a"], ["a", "a", "a"], classes=["b", "c", "a"])
    assert ordered.classes.tolist() == ["b", "c", "a"]
    assert ordered.counts.tolist() == [[0, 0, 2], [0, 0, 0], [0, 0, 1]]
    assert ordered.counts.dtype == np.int64


FORMS: list[tuple[Any, Any]] = [
    ([0, 1, 1, 0], [0, 1, 0, 0]),
    (np.array([0, 1, 1, 0]), [0.0, 1.0, 0.0, 0.0]),
    (np.array([0, 1, 1, 0], dtype=np.int8), np.array([0, 1, 0, 0], dtype=np.uint64)),
    (pd.Series([0, 1, 1, 0], index=[9, 8, 7, 6]), pd.Series([0, 1, 0, 0])),
    (pd.Series(["x", "y", "y", "x"], dtype="category"), np.array(["x", "y", "x", "x"])),
    (pd.Series([0, 1, 1, 0], dtype="Int64"), torch.tensor([0, 1, 0, 0])),
    (pl.Series(["x", "y", "y", "x"]), ("x", "y", "x", "x")),
    ([(0, 1), (1, 1), (1, 1), (0, 1)], [(0, 1), (1, 1), (0, 1), (0, 1)]),
    ([True, False, False, True], [1, 0, 1, 1]),
    ([torch.tensor(k) for k in (0, 1, 1, 0)], [np.int64(k) for k in (0, 1, 0, 0)]),
    (["1", 2, 2, "1"], ["1", 2, "1", "1"]),
    ([-1, 1, 1, -1], [-1, 1, -1, -1]),
]


@pytest.mark.parametrize(("true", "predicted"), FORMS)
def test_labels_of_every_kind(true: Any, predicted: Any) -> None:
    assert accuracy(true, predicted) == 0.75
    assert macro_f1(true, predicted) == pytest.approx((4 / 5 + 2 / 3) / 2, abs=1e-15)
    assert confusion_counts(true, predicted).counts.sum() == 4


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("true", "predicted", "message"),
    [
        ([0, 1], [0], "y_true has 2 labels and y_pred 1; pass one of each"),
        ([], [], "y_true: contains no labels"),
        ([0, 1], [], "y_pred: contains no labels"),
        ([0, None, None], [0, 1, 1], r"y_true: 2 labels are missing \(None or NaN\), the first at position 1; leave"),
        ([0, 1], [0, float("nan")], "y_pred: 1 labels are missing.*position 1"),
        (pd.Series(["a", None]), ["a", "b"], "y_true: 1 labels are missing"),
        (pd.Series([1, None], dtype="Int64"), [1, 2], "y_true: 1 labels are missing"),
        ([0, 1], ["0", "1"], "y_true contains 0, 1 and y_pred '0', '1': text against numbers"),
        (["0", "1"], [0, 1], "text against numbers"),
        ([0, 1], [[0.1, 0.9], [0.2, 0.8]], "y_pred: .*cannot be a name"),
        ([0, 1], np.ones((2, 2)), r"y_pred: expected one label per instance, got shape \(2, 2\).*argmax"),
        ([0, 1], np.array(1), r"y_pred: .*shape \(\)"),
        ("ab", ["a", "b"], "y_true: expected one label per instance, not str; pass a list, array or Series"),
        ({"a": 1}, ["a"], "not dict"),
        ({1, 2}, [1, 2], "not set"),
        (None, [1], "not NoneType"),
        ([1], 1, "not int"),
        (Annotations.from_matrix([[0, 1]]), [1], "not Annotations"),
        (torch.ones(2, requires_grad=True), [1, 1], "y_true: cannot be read as an array"),
    ],
)
def test_unusable_labels(metric: Any, true: Any, predicted: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        metric(true, predicted)


@pytest.mark.parametrize("metric", [macro_f1, confusion_counts])
@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["a", "c"], "y_true: 'b' not among the 2 classes, the first at position 1; correct the labels or add"),
        (["a", "b"], "y_pred: 'c' not among the 2 classes, the first at position 2"),
        (["a", "b", "c", "a"], "classes: expected distinct names"),
        ([], "classes: expected distinct names"),
    ],
)
def test_unusable_classes(metric: Any, classes: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        metric(["a", "b", "a"], ["a", "a", "c"], classes=classes)


@given(pairs=labels)
def test_mean_absolute_error_against_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    from sklearn.metrics import mean_absolute_error as theirs

    true, predicted = split(pairs)
    assert mean_absolute_error(true, [value + 0.25 for value in predicted]) == pytest.approx(
        theirs(true, [value + 0.25 for value in predicted])
    )
    names = np.array(list("edcba"))  # from the lowest to the highest
    assert mean_absolute_error(names[true], names[predicted], classes=names) == pytest.approx(theirs(true, predicted))


def test_what_mean_absolute_error_refuses() -> None:
    with pytest.raises(InputError, match=r"y_true has shape \(2,\) and y_pred \(1,\)"):
        mean_absolute_error([1, 2], [1])
    with pytest.raises(InputError, match="y_pred: cannot be read as an array"):
        mean_absolute_error([1, 2], ["low", "high"])
    with pytest.raises(InputError, match="'awful' not among the 2 classes"):
        mean_absolute_error(["bad"], ["awful"], classes=["bad", "good"])
