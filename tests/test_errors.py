"""Error classes and the quoting of examples."""

from __future__ import annotations

import numpy as np
import pytest

from conal.aggregation import DawidSkene
from conal.data.annotations import Annotations
from conal.errors import (
    ConalError,
    ConalWarning,
    ConvergenceWarning,
    DataWarning,
    InputError,
    ModelFolderError,
    TrainingError,
    VanishedClassWarning,
    examples,
)


@pytest.mark.parametrize("kind", [InputError, ModelFolderError, TrainingError])
def test_every_error_is_a_conal_error(kind: type[Exception]) -> None:
    assert issubclass(kind, ConalError)


def test_bad_input_is_also_a_value_error() -> None:
    assert issubclass(InputError, ValueError)
    assert issubclass(ModelFolderError, InputError)
    assert not issubclass(TrainingError, ValueError)


@pytest.mark.parametrize("kind", [DataWarning, VanishedClassWarning])
def test_every_warning_is_a_conal_warning(kind: type[Warning]) -> None:
    assert issubclass(kind, ConalWarning)
    assert issubclass(kind, UserWarning)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([], ""),
        (["a"], "'a'"),
        (["a", "b", "c"], "'a', 'b', 'c'"),
        (["a", "b", "c", "d"], "'a', 'b', 'c' and 1 more"),
        (range(2003), "0, 1, 2 and 2,000 more"),
        (np.array([3, 4]), "3, 4"),
        (np.array([1.5]), "1.5"),
        ([("a", 1)], "('a', 1)"),
        ({"x": 1, "y": 2}, "'x', 'y'"),
    ],
)
def test_examples(values: object, shown: str) -> None:
    assert examples(values) == shown  # type: ignore[arg-type]


def test_examples_limit() -> None:
    assert examples(iter("abc"), limit=1) == "'a' and 2 more"


def test_warnings_point_at_the_users_own_line() -> None:
    """However deep inside conal the reason was found, and by whichever way in."""
    matrix = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]])
    for way in (DawidSkene(n_iter=1, tol=0).fit, DawidSkene(n_iter=1, tol=0).fit_predict):
        with pytest.warns(ConvergenceWarning) as caught:
            way(matrix)
        assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(DataWarning) as caught:
        Annotations.from_triples([0, 0], ["a", "b"], ["x", None])
    assert [warning.filename for warning in caught] == [__file__]


def test_long_values_are_cut() -> None:
    text = examples(["x" * 10_000, "y"])
    assert text == "'" + "x" * 78 + "…', 'y'"
    assert examples(["x" * 78]) == repr("x" * 78)
