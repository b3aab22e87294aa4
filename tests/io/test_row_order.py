"""Tables without a column of ids: rows are tasks by their numbers only where that can be meant, and users are told."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from conal.data.encoding import as_names
from conal.errors import DataWarning, InputError
from conal.io import read_features, read_texts
from conal.io.features import check_row_order, features_from, texts_from, warn_of_row_numbers

TASKS = as_names([0, 1, 2, 3])


def features(folder: Path, columns: dict[str, list[object]]) -> Path:
    path = folder / "features.csv"
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


VALUES: list[object] = [0.5, 1.5, 0.25, 3.0]


@pytest.mark.parametrize("ids", [[2, 0, 3, 1], [0, 1, 2, 3], [2, 0, 3, 1, 17]])
def test_ids_under_another_name_are_no_feature(ids: list[object], tmp_path: Path) -> None:
    path = features(tmp_path, {"picture": ids, "f1": [*VALUES, 9][: len(ids)]})
    with pytest.raises(InputError, match=r"features\.csv: column 'picture' has the tasks' ids.* call .* 'task'"):
        check_row_order(read_features(path), TASKS)


@pytest.mark.parametrize(
    "column",
    [
        [2, 0, 3, 7],  # not all tasks
        [2, 0, 3, 1.5],  # no id
        [1, 0, 0, 1],
    ],
)
def test_other_columns_are_features_and_the_order_is_told(column: list[object], tmp_path: Path) -> None:
    table = read_features(features(tmp_path, {"size": column, "f1": VALUES}))
    with pytest.warns(DataWarning, match=r"no column of task ids; its rows are tasks 0 to 3, in this order"):
        check_row_order(table, TASKS)


def test_a_single_feature_may_be_a_running_number(tmp_path: Path) -> None:
    table = read_features(features(tmp_path, {"day": [0, 1, 2, 3]}))
    with pytest.warns(DataWarning, match="in this order"):
        check_row_order(table, TASKS)


@pytest.mark.parametrize("tasks", [[1001, 1002], ["a", "b"], [4, 5]])
def test_tasks_that_are_no_row_numbers(tasks: list[object], tmp_path: Path) -> None:
    table = read_features(features(tmp_path, {"name": [7, 8, 9, 10], "f1": VALUES}))
    told = (
        f"has no column of task ids (it has 'name', 'f1'), and tasks such as {tasks[0]!r} are no row numbers (0 to 3)"
    )
    with pytest.raises(InputError, match=re.escape(told)):
        check_row_order(table, as_names(tasks))


def test_ids_and_bare_arrays_are_meant(tmp_path: Path) -> None:
    path = features(tmp_path, {"task": [2, 0, 3, 1], "f1": VALUES})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_row_order(read_features(path), TASKS)
        check_row_order(features_from(np.eye(4)), TASKS)


@pytest.mark.parametrize("ids", ["b", "a"], ids=["another order", "the order of the tasks"])
def test_texts_with_ids_under_another_name(ids: str, tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    names = ["b", "a"] if ids == "b" else ["a", "b"]
    path.write_text("picture,text\n" + "".join(f"{name},a text of {name}\n" for name in names))
    with pytest.raises(InputError, match=r"texts\.csv: column 'picture' has the tasks' ids"):
        check_row_order(read_texts(path), as_names(["a", "b"]))


def test_texts_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text("picture,text\n0,a text\n1,another\n")
    with pytest.warns(DataWarning, match=r"rows are tasks 0 to 1, in this order"):
        check_row_order(read_texts(path), as_names([0, 1]))
    path.write_text("text\na text\nanother\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_row_order(read_texts(path), as_names([0, 1]))


ROWS = np.arange(12)


def test_a_frame_of_texts_with_ids_under_another_name() -> None:
    words = [f"word {row}" for row in ROWS]
    frame = pd.DataFrame({"picture": [str(row) for row in ROWS], "text": words})
    with pytest.warns(DataWarning, match=r"tasks are called 0 to .*, and 'picture' counts for nothing.* 'task'"):
        assert texts_from(frame).ids is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        texts_from(frame, task_ids=ROWS)
        texts_from(frame.rename(columns={"picture": "task"}))
        texts_from(frame.assign(picture="a kind"))
        texts_from(frame[["text"]].sample(frac=1, random_state=0))


def test_predictions_are_called_by_row_numbers_only_with_a_word(tmp_path: Path) -> None:
    table = read_features(features(tmp_path, {"picture": [7, 3, 9, 1], "f1": VALUES}))
    with pytest.warns(DataWarning, match=r"tasks are called 0 to 3, and 'picture' counts for nothing.* 'task'"):
        warn_of_row_numbers(table, known=["f1"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_row_numbers(table, known=["picture", "f1"])
        warn_of_row_numbers(features_from(np.ones((4, 2))))
        warn_of_row_numbers(read_features(features(tmp_path, {"task": [7, 3, 9, 1], "f1": VALUES})))


@pytest.mark.parametrize("name", ["Unnamed: 0", "index", "id", "row_number"])
def test_row_numbers_beside_ids_are_told(name: str, tmp_path: Path) -> None:
    path = features(tmp_path, {"task": [7, 3, 9, 1], name: [0, 1, 2, 3], "f1": VALUES})
    with pytest.warns(DataWarning, match=f"'{name}' becomes a feature, and may only number the rows"):
        assert read_features(path).columns == (name, "f1")
