"""Random parts of datasets, and texts with the labels of juries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conal.datasets import synthetic
from conal.errors import InputError
from studies.crowds import attacked, llm_jury, sampled


def test_drawn_tasks_keep_their_labels_and_the_others_are_for_testing() -> None:
    data = synthetic(n_train=120, n_valid=5, n_test=7, n_classes=3, seed=1)
    few = sampled(data, 30, seed=4)
    assert few.test is not None
    assert few.valid is None
    assert (len(few.x), len(few.test)) == (30, 90)
    rows = few.annotations.task_ids.astype(int)
    np.testing.assert_array_equal(few.x, data.x[rows])
    np.testing.assert_array_equal(few.y_true, data.y_true[rows])
    np.testing.assert_array_equal(few.annotations.to_matrix(), data.annotations.to_matrix()[rows])
    others = np.setdiff1d(np.arange(120), rows)
    np.testing.assert_array_equal(few.test.x, data.x[others])
    np.testing.assert_array_equal(few.test.y, data.y_true[others])
    assert not np.array_equal(sampled(data, 30, seed=5).x, few.x)
    np.testing.assert_array_equal(sampled(data, 30, seed=4).x, few.x)


def test_classes_have_the_shares_that_are_asked_for() -> None:
    data = synthetic(n_train=300, n_classes=2, seed=1)
    few = sampled(data, 50, shares=(0.9, 0.1))
    assert few.test is not None
    assert np.bincount(few.y_true).tolist() == [45, 5]
    assert np.mean(few.test.y == 0) == pytest.approx(0.9, abs=0.01)
    assert not set(few.annotations.task_ids) & set(np.flatnonzero((data.x[:, None] == few.test.x).all(2).any(1)))
    with pytest.raises(InputError, match="fewer tasks of a class than the shares say"):
        sampled(data, 290, shares=(0.9, 0.1))


def test_more_tasks_than_there_are() -> None:
    with pytest.raises(InputError, match="synthetic: has 20 labelled tasks, of which 21 cannot be drawn"):
        sampled(synthetic(n_train=20, n_classes=2), 21)


def test_texts_of_a_jury(tmp_path: Path) -> None:
    (tmp_path / "label.csv").write_text("task,worker,label\n7,m1,B\n7,m2,A\n9,m1,A\n8,m2,B\n5,m1,A\n")
    (tmp_path / "truth.csv").write_text("task,truth\n7,A\n9,A\n8,Z\n5,B\n")
    (tmp_path / "texts.csv").write_text('task,text\n9,"two, lines\nof it"\n7,one\n8,three\n')
    data = llm_jury(tmp_path)
    assert data.classes.tolist() == ["A", "B"]
    assert data.annotations.task_ids.tolist() == ["7", "9"]  # 8 is of a class that nobody names, 5 has no text
    assert data.x.tolist() == ["one", "two, lines\nof it"]
    assert data.y_true.tolist() == [0, 0]
    np.testing.assert_array_equal(data.annotations.to_matrix(), [[1, 0], [0, -1]])
    (tmp_path / "texts.csv").unlink()
    with pytest.raises(InputError, match=r"texts\.csv"):
        llm_jury(tmp_path)


def test_a_defence_leaves_fewer_labels_of_an_attacked_crowd() -> None:
    settings: dict[str, Any] = {"n_train": 400, "n_annotators": 16, "n_test": 10, "n_valid": 0, "seed": 1}
    settings |= {"labels_per_instance": 4.0, "adversaries": "clickers", "adversary_share": 0.3}
    plain, defended = attacked(**settings), attacked(**settings, defend=True)
    assert plain.truth is defended.truth is None
    assert defended.annotations.n_annotations < plain.annotations.n_annotations
    np.testing.assert_array_equal(defended.x, plain.x)
