"""The likelihood of annotations against a loop over them, and at its edges."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.metrics import annotation_nll

FloatArray = npt.NDArray[np.float64]


def random_case(seed: int, N: int = 7, R: int = 4, C: int = 3) -> tuple[FloatArray, FloatArray, Annotations]:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(C, size=(N, R))
    matrix[rng.random(matrix.shape) < 0.5] = -1
    matrix[0, 0] = 1
    matrix[1] = -1
    p, pi = rng.dirichlet(np.ones(C), size=N), rng.dirichlet(np.ones(C), size=(R, C))
    return p, pi, Annotations.from_matrix(matrix, classes=range(C))


def slow_nll(p: FloatArray, pi: FloatArray, crowd: Annotations) -> float:
    matrix = crowd.to_matrix()
    logs = [
        math.log(sum(p[i, c] * pi[r, c, matrix[i, r]] for c in range(p.shape[1])))
        for i, r in zip(*np.nonzero(matrix >= 0), strict=True)
    ]
    return -sum(logs) / len(logs)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=150, deadline=None)
def test_it_agrees_with_a_loop(seed: int) -> None:
    p, pi, crowd = random_case(seed)
    assert annotation_nll(p, pi, crowd) == pytest.approx(slow_nll(p, pi, crowd), rel=1e-12)
    shared = annotation_nll(p, pi[0], crowd)
    assert shared == pytest.approx(slow_nll(p, np.stack([pi[0]] * 4), crowd), rel=1e-12)


def test_true_class_comes_before_observed_class() -> None:
    confusion = [[0.9, 0.1], [0.4, 0.6]]
    assert annotation_nll([[1, 0]], confusion, Annotations.from_matrix([[1]], classes=[0, 1])) == pytest.approx(
        -math.log(0.1), abs=1e-15
    )


def test_each_annotator_has_their_own_matrix() -> None:
    pi = [[[0.9, 0.1], [0.5, 0.5]], [[0.2, 0.8], [0.5, 0.5]]]
    expected = -(math.log(0.9) + math.log(0.8)) / 2
    assert annotation_nll([[1, 0]], pi, [[0, 1]]) == pytest.approx(expected, abs=1e-15)


def test_frames_count_like_annotations() -> None:
    p, pi = [[0.3, 0.7], [0.6, 0.4]], [[0.9, 0.1], [0.2, 0.8]]
    frame = pd.DataFrame({"task": [5, 3, 3], "worker": ["v", "v", "u"], "label": ["no", "yes", "no"]})
    # Rows of probas are tasks 3 and 5, columns "no" and "yes".
    expected = -(math.log(0.3 * 0.1 + 0.7 * 0.8) + math.log(0.3 * 0.9 + 0.7 * 0.2) + math.log(0.6 * 0.9 + 0.4 * 0.2))
    assert annotation_nll(p, pi, frame) == pytest.approx(expected / 3, abs=1e-15)


def test_impossible_labels_are_infinite_and_certain_ones_zero() -> None:
    assert annotation_nll(np.eye(2), np.eye(2), [[0, 1], [1, 1]]) == math.inf
    certain = annotation_nll(np.eye(2), np.eye(2), [[0, 0], [1, 1]])
    assert certain == 0
    assert math.copysign(1, certain) == 1


def test_single_precision_is_summed_in_double() -> None:
    p, pi, crowd = random_case(0)
    p32, pi32 = p.astype(np.float32), pi.astype(np.float32)
    expected = slow_nll(p32.astype(np.float64), pi32.astype(np.float64), crowd)
    assert annotation_nll(p32, pi32, crowd) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_memory_follows_annotations(shared: bool) -> None:
    """Tasks x annotators would be 400 million cells."""
    N = 20_000
    names: dict[str, Any] = {"task_ids": np.arange(N), "annotator_ids": np.arange(N), "classes": np.arange(3)}
    crowd = Annotations(np.arange(N), np.arange(N), np.arange(N) % 3, **names)
    p, pi = np.full((N, 3), 1 / 3), np.full((3, 3) if shared else (N, 3, 3), 1 / 3)
    tracemalloc.start()
    assert annotation_nll(p, pi, crowd) == pytest.approx(math.log(3), abs=1e-12)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


CROWD = Annotations.from_matrix([[0, 1], [1, -1]])
P, PI = np.full((2, 2), 0.5), np.full((2, 2, 2), 0.5)


@pytest.mark.parametrize(
    ("probas", "confusion", "crowd", "message"),
    [
        (P[:1], PI, CROWD, r"probas has shape \(1, 2\), expected \(2, 2\); pass a row per task"),
        (
            np.full((2, 3), 1 / 3),
            PI,
            CROWD,
            r"probas has shape \(2, 3\).*if nobody chose some class, create Annotations with classes=",
        ),
        (P, np.full((3, 3), 1 / 3), CROWD, "confusion: 3 classes, but annotations and probas have 2"),
        (P, PI[:1], CROWD, "confusion: 1 matrices for 2 annotators; pass one per annotator.*or a single"),
        (P, np.full((2, 2, 3), 1 / 3), CROWD, r"confusion: expected a \(C, C\) matrix.*got shape \(2, 2, 3\)"),
        (P, np.ones(2), CROWD, "confusion: expected"),
        (P, np.ones((0, 2, 2)), CROWD, "confusion: expected"),
        (P, PI + 0.5, CROWD, r"confusion: row \[0, 0\] sums to 2, not 1"),
        (P, [[1, 0], [1.5, -0.5]], CROWD, r"confusion: negative at \[1, 1\]"),
        (P * np.nan, PI, CROWD, r"probas: NaN or infinite at \[0, 0\]"),
        (P, PI, CROWD.select(np.zeros(3, dtype=bool)), "annotations: contain no labels"),
        (P, PI, None, "annotations: expected Annotations, a long frame or a matrix, not NoneType"),
    ],
)
def test_unusable_input(probas: Any, confusion: Any, crowd: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        annotation_nll(probas, confusion, crowd)
