"""True labels from files, and joined to feature rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conal.data.annotations import Annotations
from conal.errors import DataWarning, InputError
from conal.io import GoldLabels, read_gold, write_table
from conal.io.model_folder import label_table, read_results
from helpers.files import write_lines as write


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
def test_tables(tmp_path: Path, ending: str) -> None:
    write_table(pa.table({"task": ["b", "a"], "truth": ["x", "y"]}), tmp_path / f"g.{ending}")
    gold = read_gold(tmp_path / f"g.{ending}")
    assert gold.labels.tolist() == ["x", "y"]
    assert gold.task_ids is not None
    assert gold.task_ids.tolist() == ["b", "a"]
    assert gold.where == str(tmp_path / f"g.{ending}")


@pytest.mark.parametrize(
    "header", ["task,truth", "id,label", "item,class", "Example ID,Gold", "question,ground_truth", "task,true_label"]
)
def test_usual_columns(tmp_path: Path, header: str) -> None:
    gold = read_gold(write(tmp_path / "g.csv", header, "7,x", "3,y"))
    assert gold.labels.tolist() == ["x", "y"]
    assert gold.task_ids is not None
    assert gold.task_ids.tolist() == [7, 3]


def test_columns_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", "song,genre,label", "s,rock,1", "t,pop,2")
    gold = read_gold(path, task="song", label="genre")
    assert gold.labels.tolist() == ["rock", "pop"]
    assert gold.for_rows(2, ["t", "s"]).tolist() == ["pop", "rock"]


def test_without_ids(tmp_path: Path) -> None:
    gold = read_gold(write(tmp_path / "g.csv", "label", "2", "0", "2"))
    assert gold.task_ids is None
    assert gold.labels.tolist() == [2, 0, 2]


def test_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", np.array([2.0, 0.0, 2.0]))
    gold = read_gold(tmp_path / "g.npy", classes=[0, 1, 2])
    assert gold.task_ids is None
    assert gold.labels.tolist() == [2, 0, 2]


@pytest.mark.parametrize("classes", [["2", "1"], [1, 2], np.array([1, 2, 3])])
def test_classes_are_checked_in_the_labels_type(tmp_path: Path, classes: Any) -> None:
    path = write(tmp_path / "g.csv", "task,label", "a,2", "b,1")
    assert read_gold(path, classes=classes).labels.tolist() == [2, 1]


def test_unknown_class(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", "task,label", "a,cat", "b,dgo")
    with pytest.raises(InputError, match=r"g\.csv: row 2: 'dgo' not among the 2 classes; did you mean 'dog'\?"):
        read_gold(path, classes=["cat", "dog"])


def test_lookalikes_are_named(tmp_path: Path) -> None:
    with pytest.warns(DataWarning, match="classes 'Cat' and 'cat' differ only in case, spaces or the form of letters"):
        read_gold(write(tmp_path / "g.csv", "task,label", "a,cat", "b,Cat"))


@pytest.mark.parametrize(("labels", "count"), [(["x", "", "NaN"], 2), (["1", "", "2"], 1)])
def test_missing_labels_are_an_error(tmp_path: Path, labels: list[str], count: int) -> None:
    path = write(tmp_path / "g.csv", "task,label", *(f"{k},{label}" for k, label in enumerate(labels)))
    with pytest.raises(InputError, match=rf"g\.csv: {count} true labels are missing, the first in row 2"):
        read_gold(path)


def test_a_word_for_missing_that_is_a_class(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", "task,label", "a,NA", "b,EU")
    assert read_gold(path, classes=["EU", "NA"]).labels.tolist() == ["NA", "EU"]


@pytest.mark.parametrize("name", ["a", "1"])
def test_missing_ids_are_an_error(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "g.csv", "task,label", f"{name},x", ",y")
    with pytest.raises(InputError, match=r"g\.csv: 1 rows have no id, the first is row 2"):
        read_gold(path)


def test_a_plan_of_which_a_part_is_done(tmp_path: Path) -> None:
    path = write(tmp_path / "plan.csv", "task,label,inclusion_probability", "a,x,0.5", "b,,0.1", "c,y,0.2")
    with pytest.warns(DataWarning, match=r"plan\.csv: 1 of 3 tasks have no true label and are left out; rates are"):
        found = read_gold(path, partial=True)
    assert found.task_ids is not None
    assert found.drawn is not None
    assert (found.task_ids.tolist(), found.labels.tolist(), found.drawn.tolist()) == (
        ["a", "c"],
        ["x", "y"],
        [0.5, 0.2],
    )
    nothing = write(tmp_path / "nothing.csv", "task,label", "a,", "b,")
    with pytest.raises(InputError, match="2 true labels are missing"):
        read_gold(nothing, partial=True)


def test_two_true_labels_for_one_task_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", "task,label", "a,x", "b,y", "a,y")
    with pytest.raises(
        InputError, match=r"g\.csv: 1 tasks have several labels, such as 'a' \('x', 'y'\); pass one true label per task"
    ):
        read_gold(path)


def test_no_label_column(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", "task,genre,mood", "a,x,y")
    told = r"g\.csv: which column has the true labels\? It has 'task', 'genre', 'mood'; call it 'label'"
    with pytest.raises(InputError, match=told):
        read_gold(path)


def test_the_only_other_column_has_the_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", "task,expert,inclusion_probability,worker", "a,x,0.5,ann", "b,y,0.1,bob")
    found = read_gold(path)
    assert found.labels.tolist() == ["x", "y"]
    assert found.task_ids is not None
    assert found.task_ids.tolist() == ["a", "b"]


def test_several_label_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", "task,gold,label", "a,x,y")
    with pytest.raises(InputError, match="columns 'gold', 'label' could all be the truth"):
        read_gold(path)
    assert read_gold(path, label="label").labels.tolist() == ["y"]


# ---------------------------------------------------------------- joined to feature rows


def gold(labels: list[Any], task_ids: list[Any] | None) -> GoldLabels:
    ids = None if task_ids is None else np.array(task_ids, dtype=object if isinstance(task_ids[0], str) else None)
    return GoldLabels(np.array(labels), ids, "g.csv")


def test_by_id_in_the_order_of_the_features() -> None:
    labels = gold(["x", "y", "z"], ["a", "b", "c"])
    assert labels.for_rows(2, ["c", "a"]).tolist() == ["z", "x"]
    assert labels.for_rows(2, np.array(["b", "a"])).tolist() == ["y", "x"]


def test_a_number_is_the_same_id_as_its_text() -> None:
    assert gold(["x", "y"], [1, 2]).for_rows(2, ["2", "1"]).tolist() == ["y", "x"]


def test_by_row_number_for_a_bare_array() -> None:
    assert gold(["x", "y", "z"], [2, 0, 1]).for_rows(3, None).tolist() == ["y", "z", "x"]


def test_by_position_without_ids() -> None:
    assert gold(["x", "y"], None).for_rows(2, None).tolist() == ["x", "y"]
    assert gold(["x", "y"], None).for_rows(2, ["b", "a"]).tolist() == ["x", "y"]


def test_rows_without_a_label() -> None:
    with pytest.raises(InputError, match=r"g\.csv: 4 feature rows have no label: 'p', 'q', 'r' and 1 more"):
        gold(["x"], ["a"]).for_rows(5, ["p", "a", "q", "r", "s"])
    with pytest.raises(InputError, match=r"g\.csv: 1 feature rows have no label: 1"):
        gold(["x"], [0]).for_rows(2, None)


@pytest.mark.parametrize(("labels", "ids"), [(["x", "y"], None), (["x", "y", "z"], ["a", "b", "c"])])
def test_nothing_to_join_by(labels: list[str], ids: list[str] | None) -> None:
    with pytest.raises(InputError, match=rf"g\.csv: {len(labels)} labels for 3 feature rows, and no common ids"):
        gold(labels, ids).for_rows(3, None)


# ---------------------------------------------------------------- in the names of annotations


CROWD = Annotations.from_triples(["7", "8", "9b"], ["w"] * 3, ["0", "1", "unsure"])


def test_by_task_in_the_annotations_own_names(tmp_path: Path) -> None:
    labels = read_gold(write(tmp_path / "g.csv", "task,label", "8,0", "7,1"))
    assert labels.for_tasks(CROWD) == {"8": "0", "7": "1"}  # numbers here, text there
    numbers = Annotations.from_triples([7, 8, 9], ["w"] * 3, [0, 1, 1])
    assert labels.for_tasks(numbers) == {8: 0, 7: 1}
    assert gold(["1"], ["9"]).for_tasks(numbers) == {9: 1}  # text here, numbers there
    truths = Annotations.from_triples([7, 8], ["w"] * 2, [True, False])
    assert labels.for_tasks(truths) == {8: False, 7: True}


def test_labels_of_other_tasks_are_counted_and_need_be_no_class() -> None:
    with pytest.warns(DataWarning, match=r"^g\.csv: ignored 1 of 2 true labels, of tasks without annotations: 'z' \("):
        assert gold(["unsure", "?"], ["7", "z"]).for_tasks(CROWD) == {"7": "unsure"}


def test_labels_that_are_no_class() -> None:
    with pytest.raises(InputError, match=r"g\.csv: true labels '\?' are not among the classes '0', '1', 'unsure'"):
        gold(["?", "?"], ["7", "8"]).for_tasks(CROWD)


def test_by_row_of_a_matrix_only() -> None:
    matrix = Annotations.from_matrix([[0, 1], [1, 1]])
    assert gold([1, 0], None).for_tasks(matrix) == {0: 1, 1: 0}
    for crowd, labels in ((matrix, [1]), (CROWD, ["0", "1", "1"])):
        with pytest.raises(InputError, match=rf"g\.csv: {len(labels)} true labels without task ids; add a column"):
            gold(labels, None).for_tasks(crowd)


def test_named_columns_or_the_usual_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", "task,truth", "a,x")
    with pytest.raises(InputError, match="no column 'song'"):
        read_gold(path, task="song")
    assert read_gold(path, task="song", label="genre", fallback_to_aliases=True).labels.tolist() == ["x"]
    path = write(tmp_path / "h.csv", "song,genre,truth", "a,x,1")
    named = read_gold(path, task="song", label="genre", fallback_to_aliases=True)
    assert (named.labels.tolist(), named.task_ids.tolist() if named.task_ids is not None else None) == (["x"], ["a"])


def test_words_for_missing_that_are_to_be_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", "task,label", "a,NA", "b,EU")
    assert read_gold(path, keep=["EU", "NA", "US"]).labels.tolist() == ["NA", "EU"]
    with pytest.raises(InputError, match="1 true labels are missing"):
        read_gold(path, keep=["EU"])


def test_truth_values_there_and_back(tmp_path: Path) -> None:
    """conal reads the labels that it wrote, and spells them as the columns of probabilities."""
    crowd = Annotations.from_triples([1, 1, 2, 2], ["a", "b", "a", "b"], [True, True, False, False])
    found = label_table(crowd.task_ids, np.array([[0.1, 0.9], [0.8, 0.2]]), crowd.classes)
    write_table(found, tmp_path / "labels.csv")
    header, first, _ = (tmp_path / "labels.csv").read_text().splitlines()
    assert (header.split(",")[3:], first.split(",")[1]) == (["proba_False", "proba_True"], "True")
    assert read_gold(tmp_path / "labels.csv", label="label").for_tasks(crowd) == {1: True, 2: False}
    for text in (first, first.replace("True", "true")):  # as 0.2.0 wrote it
        (tmp_path / "old.csv").write_text(f"{header}\n{text}\n")
        table = read_results(tmp_path / "old.csv", {"task": "task", "label": "class"}, {"class": crowd.classes})
        assert table["label"].to_pylist() == [True]
