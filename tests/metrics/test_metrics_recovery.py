"""Recovery of confusion matrices: against loops, by hand, and with weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conal.errors import InputError
from conal.metrics import confusion_recovery_error

IDENTITY, SPAMMER, LIAR = np.eye(2), np.full((2, 2), 0.5), 1 - np.eye(2)


@given(seed=st.integers(0, 10_000), R=st.integers(1, 5), C=st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_it_agrees_with_a_loop(seed: int, R: int, C: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.dirichlet(np.ones(C), size=(R, C)) for _ in range(2))
    weights = rng.integers(0, 5, size=R) + np.eye(R)[0]
    errors = [sum(abs(a[r, c, y] - b[r, c, y]) for c in range(C) for y in range(C)) / C**2 for r in range(R)]
    assert confusion_recovery_error(a, b) == pytest.approx(sum(errors) / R, abs=1e-14)
    weighted = sum(w * e for w, e in zip(weights, errors, strict=True)) / sum(weights)
    assert confusion_recovery_error(a, b, weights=weights) == pytest.approx(weighted, abs=1e-14)
    assert confusion_recovery_error(a[0], b[0]) == pytest.approx(errors[0], abs=1e-14)
    assert confusion_recovery_error(b, a) == confusion_recovery_error(a, b) <= 2 / C


def test_by_hand() -> None:
    true, estimated = np.stack([IDENTITY, IDENTITY, SPAMMER]), np.stack([IDENTITY, LIAR, LIAR])
    assert confusion_recovery_error(true, estimated) == 0.5
    assert confusion_recovery_error(true, estimated, weights=[3, 0, 1]) == 0.125
    assert confusion_recovery_error(true, estimated, weights=np.array([0, 7, 0])) == 1.0


CROWD = np.stack([IDENTITY, SPAMMER])


@pytest.mark.parametrize(
    ("true", "estimated", "weights", "message"),
    [
        (CROWD, IDENTITY, None, r"true has shape \(2, 2, 2\) and estimated \(2, 2\).*broadcast_to"),
        (CROWD, CROWD[:1], None, r"estimated \(1, 2, 2\)"),
        (CROWD * 3, CROWD, None, r"true: row \[0, 0\] sums to 3, not 1; .*divide each row of counts"),
        (CROWD, CROWD * 1.01, None, r"estimated: row \[0, 0\] sums to 1.01"),
        ([[1, 0], [1.2, -0.2]], IDENTITY, None, r"true: negative at \[1, 1\]"),
        (IDENTITY, IDENTITY * np.nan, None, r"estimated: NaN or infinite at \[0, 0\]"),
        (np.ones((2, 1)), np.ones((2, 1)), None, r"true: expected a \(C, C\) matrix.*got shape \(2, 1\)"),
        (np.ones((0, 2, 2)), np.ones((0, 2, 2)), None, "true: expected"),
        (CROWD, CROWD, [1], r"weights: shape \(1,\) for matrices of \(2,\) annotators; pass one for each"),
        (CROWD, CROWD, [2, -1], "weights: expected numbers of at least 0, not all 0"),
        (CROWD, CROWD, [0, 0], "weights: expected numbers of at least 0, not all 0"),
        (CROWD, CROWD, [1, np.nan], r"weights: NaN or infinite at \[1\]"),
        (IDENTITY, IDENTITY, [1], "weights: shape.*one annotators"),
        (IDENTITY, IDENTITY, 1.0, "weights: shape"),
    ],
)
def test_unusable_input(true: Any, estimated: Any, weights: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        confusion_recovery_error(true, estimated, weights)
