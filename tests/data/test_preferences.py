"""Preferences from frames and files, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conal.data.preferences import Preferences
from conal.errors import DataWarning, InputError

ROWS: dict[str, Any] = {
    "worker": ["ann", "bob", "ann", "bob"],
    "left": ["x", "y", "z", "x"],
    "right": ["y", "z", "x", "z"],
    "winner": ["x", "right", "tie", "z"],
}


def test_winners_are_items_sides_or_ties() -> None:
    pairs = Preferences.from_frame(pa.table(ROWS))
    assert pairs.winner.tolist() == [1, -1, 0, -1]
    assert pairs.item_ids[pairs.left].tolist() == ROWS["left"]
    assert pairs.annotator_ids[pairs.annotators].tolist() == ROWS["worker"]
    assert pairs.tasks.tolist() == [0, 1, 2, 3]
    assert (len(pairs), pairs.has_ties) == (4, True)


def test_logs_of_arenas_are_understood() -> None:
    log = {"question_id": [7, 7], "judge": ["j", "k"], "model_a": ["p", "q"], "model_b": ["q", "p"]}
    pairs = Preferences.from_frame(pa.table(log | {"winner": ["model_a", "tie (bothbad)"]}))
    assert pairs.winner.tolist() == [1, 0]
    assert pairs.task_ids.tolist() == [7]


def test_an_item_comes_before_a_word() -> None:
    pairs = Preferences.from_columns(worker=["w"] * 2, left=["b", "a"], right=["a", "b"], winner=["a", "a"])
    assert pairs.winner.tolist() == [-1, 1]
    with pytest.raises(InputError, match="row 2: the winner 'a' is neither the left item 'b' nor the right item 'c'"):
        Preferences.from_columns(worker=["w"] * 2, left=["a", "b"], right=["b", "c"], winner=["a", "a"])


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_files_read_as_frames(tmp_path: Path, ending: str) -> None:
    from conal.io.tables import write_table

    numbers = {"worker": [1, 2], "left": [10, 20], "right": [20, 30], "winner": ["10", "tie"], "size": [0.5, -1.0]}
    write_table(pa.table(numbers), tmp_path / f"pairs.{ending}")
    pairs = Preferences.read(tmp_path / f"pairs.{ending}", covariates=["size"])
    assert pairs.item_ids.tolist() == [10, 20, 30]
    assert pairs.winner.tolist() == [1, 0]
    assert pairs.covariates.tolist() == [[0.5], [-1.0]]


def test_sides_of_different_types_are_text() -> None:
    pairs = Preferences.from_columns(worker=["w"] * 2, left=[1, 2], right=["2", "x"], winner=[1, 2])
    assert pairs.item_ids.tolist() == ["1", "2", "x"]


def test_a_covariate_may_be_the_difference_of_two_columns() -> None:
    frame = pa.table(ROWS | {"left_length": [3, 1, 1, 1], "right_length": [1, 1, 2, 5]})
    assert Preferences.from_frame(frame, covariates=["length"]).covariates.ravel().tolist() == [2, 0, -1, -4]
    with pytest.raises(InputError, match="no covariate 'size'"):
        Preferences.from_frame(frame, covariates=["size"])
    with pytest.raises(InputError, match="numbers alone"):
        Preferences.from_frame(frame, covariates=["winner"])


def test_rows_without_a_winner_are_left_out_with_their_names() -> None:
    with pytest.warns(DataWarning, match="1 of 4 comparisons have no winner"):
        pairs = Preferences.from_frame(
            pa.table(ROWS | {"right": ["y", "z", "q", "z"], "winner": ["x", "z", None, "z"]})
        )
    assert pairs.item_ids.tolist() == ["x", "y", "z"]
    assert pairs.item_ids[pairs.right].tolist() == ["y", "z", "z"]
    assert np.array_equal(pairs.task_ids, [0, 1, 3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"winner": ["x", "y", "tie", "q"]},
            "row 4: the winner 'q' is neither the left item 'x' nor the right item 'z'",
        ),
        ({"right": ["y", "z", "z", "x"]}, "2 comparisons are of an item with itself, the first in row 3"),
        ({"worker": ["ann", None, "ann", "bob"]}, "worker has none in row 2"),
        ({"left": ["x", "y", None, "x"]}, "left has none in row 3"),
        ({"winner": pa.array([None] * 4, pa.string())}, "no comparison has a winner"),
    ],
)
def test_bad_rows_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Preferences.from_frame(pa.table(ROWS | change))


def test_missing_columns_and_unequal_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="no column for the winner"):
        Preferences.from_frame(pa.table(ROWS).drop_columns("winner"))
    with pytest.raises(InputError, match="left has 2 items and right 1"):
        Preferences.from_columns(worker=["a"] * 2, left=["x", "y"], right=["y"], winner=["x", "y"])
    with pytest.raises(InputError, match="worker has 1 values"):
        Preferences.from_columns(worker=["a"], left=["x", "y"], right=["y", "x"], winner=["x", "y"])
    with pytest.raises(InputError, match="has no comparisons"):
        Preferences.from_columns(worker=[], left=[], right=[], winner=[])
