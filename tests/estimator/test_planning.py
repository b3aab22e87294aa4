"""Plans of fitted, loaded and anonymous models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import conal
from conal.datasets import synthetic
from conal.errors import InputError
from conal.estimator.kept_data import asked_of, restored, to_tensors


@pytest.fixture(scope="module")
def fitted() -> conal.CrowdClassifier:
    data = synthetic(n_train=80, n_valid=0, n_test=10, n_annotators=8, seed=1)
    people = [f"w{k}" for k in range(8)]
    crowd = data.annotations
    named = conal.Annotations(
        crowd.tasks,
        crowd.annotators,
        crowd.labels,
        task_ids=crowd.task_ids,
        annotator_ids=people,
        classes=crowd.classes,
    )
    info = pa.table({"worker": people, "cost": [1.0, 2.0] * 4, "group": ["a", "b"] * 4, "limit": [5] * 8})
    return conal.make("conal", epochs=2, verbose=False).fit(data.x, named, annotator_info=info)


def test_a_loaded_model_makes_the_same_plan(fitted: conal.CrowdClassifier, tmp_path: Path) -> None:
    found = fitted.plan(12, seed=3)
    fitted.save(tmp_path / "model")
    loaded = conal.load(tmp_path / "model")
    again = loaded.plan(12, seed=3)
    assert found.table.num_rows > 3
    assert again.table["task"].to_pylist() == found.table["task"].to_pylist()
    assert again.table["ask"].to_pylist() == found.table["ask"].to_pylist()
    np.testing.assert_allclose(again.forecast.low, found.forecast.low, atol=1e-3)
    assert set(found.table["cost"].to_pylist()) <= {1.0, 2.0}  # as the model was fitted with
    loaded.save(tmp_path / "again")
    assert conal.load(tmp_path / "again").plan(12, seed=3).table.equals(again.table)
    groups = loaded.plan(12, by="group").table["ask"].to_pylist()
    assert set(groups) <= {"a", "b"}
    assert loaded.plan(40, expert_cost=1.0).table["ask"].to_pylist().count("expert") > 0


def test_nobody_is_asked_where_names_are_hidden(tmp_path: Path) -> None:
    data = synthetic(n_train=80, n_valid=0, n_test=10, n_annotators=8, seed=1)
    hidden = conal.make("dl-mv", epochs=2, verbose=False).fit(data.x, data.annotations.anonymised(hide_below=5))
    hidden.save(tmp_path / "model")
    loaded = conal.load(tmp_path / "model")
    assert loaded.asked_ is None  # who labelled what would tell who they are
    with pytest.raises(InputError, match="does not remember who labelled what"):
        loaded.plan(10)


def test_who_labelled_what_is_checked(fitted: conal.CrowdClassifier) -> None:
    tensors = to_tensors(asked_of(fitted))
    assert restored(tensors, 80, 8) is not None
    assert restored({}, 80, 8) is None
    for n_tasks, n_annotators, message in ((79, 8, "belong together"), (80, 7, "belong together")):
        with pytest.raises(ValueError, match=message):
            restored(tensors, n_tasks, n_annotators)
    more = tensors | {"asked.annotators": tensors["asked.annotators"] + 8}
    with pytest.raises(ValueError, match="not among the annotators"):
        restored(more, 80, 8)


def test_without_groups_a_plan_by_group_is_refused(fitted: conal.CrowdClassifier) -> None:
    info = pa.table({"worker": [f"w{k}" for k in range(8)], "cost": [1.0] * 8})
    with pytest.raises(InputError, match="no groups"):
        fitted.plan(10, annotator_info=info, by="group")
