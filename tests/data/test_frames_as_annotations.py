"""What a frame is taken for: one label per row, or one task per row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from conal import Annotations
from conal.aggregation import MajorityVote
from conal.errors import DataWarning, InputError

TASKS = [f"t{k}" for k in range(30)]
WIDE = pd.DataFrame({"task": TASKS[::-1], "ann": ["cat", "dog"] * 15, "bob": ["dog", None, "cat"] * 10})
LONG = WIDE.melt("task", var_name="worker", value_name="label").dropna()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas])
def test_a_wide_frame_may_name_its_tasks_in_a_column(make: object) -> None:
    crowd = Annotations.of(make(WIDE))  # type: ignore[operator]
    assert crowd.annotator_ids.tolist() == ["ann", "bob"]
    assert crowd.classes.tolist() == ["cat", "dog"]
    found = {
        (crowd.task_ids[i], crowd.annotator_ids[r]): crowd.classes[c]
        for i, r, c in zip(crowd.tasks, crowd.annotators, crowd.labels, strict=True)
    }
    assert found == {(row.task, row.worker): row.label for row in LONG.itertuples()}


TRUTHS = ["truth", "gold", "ground_truth", "true_label", "target", "expected", "Ground Truth", "gold_label", "y_true"]


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("kind", ["task column", "index", "polars", "no ids"])
def test_true_labels_in_a_wide_frame_are_no_annotator(name: str, kind: str) -> None:
    frame = WIDE.assign(**{name: ["dog", "cat", "cat"] * 10})
    data, ids = frame, frame["task"]
    if kind == "index":
        data = frame.set_index("task")
    elif kind == "polars":
        data = pl.from_pandas(frame)
    elif kind == "no ids":
        data, ids = frame.drop(columns="task"), frame.index
    with pytest.warns(DataWarning) as told:
        crowd = Annotations.of(data)
    assert crowd.annotator_ids.tolist() == ["ann", "bob"]
    assert crowd.classes.tolist() == ["cat", "dog"]
    assert len(told) == 1
    message = str(told[0].message)
    assert f"{name!r} is no annotator, as its name is that of true labels; left out" in message
    assert "rename the column" in message
    remedy = message.partition("pass true_labels=")[2].partition("; ")[0]
    found = eval(remedy, {"frame": data})  # noqa: S307 - what the message tells users to write
    assert found == dict(zip(ids, frame[name], strict=True))
    by_task = MajorityVote().fit_predict(crowd, true_labels=found)
    assert dict(zip(crowd.task_ids.tolist(), by_task.tolist(), strict=True)) == found


@pytest.mark.parametrize(
    "data",
    [
        LONG.rename(columns={"task": "image", "worker": "who", "label": "cls"}),
        LONG.to_numpy(),
        [tuple(row) for row in LONG.itertuples(index=False)],
    ],
)
def test_one_label_per_row_under_other_names_is_no_matrix(data: object) -> None:
    with pytest.raises(InputError, match=r"as a matrix .* classes in 50 rows; .* columns 'task', 'worker' and 'label'"):
        Annotations.of(data)


def test_a_matrix_with_many_classes_is_one() -> None:
    matrix = np.random.default_rng(0).integers(25, size=(100, 3))
    assert Annotations.of(matrix).n_classes == 25


@pytest.mark.parametrize("task", ["sentence_id", "id"])
def test_a_frame_with_further_usual_names_has_a_row_per_label(task: str) -> None:
    names = {"task": task, "worker": "judge", "label": "verdict"}
    assert Annotations.of(LONG.rename(columns=names)).to_table() == Annotations.of(LONG).to_table()
