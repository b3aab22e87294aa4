"""Which feature row belongs to which task."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conal.data.annotations import Annotations
from conal.data.encoding import as_names
from conal.data.joining import Aligned, RowIndex, align, check_unique_ids
from conal.errors import DataWarning, InputError


def crowd(task_ids: list[Any]) -> Annotations:
    """One label per task, which says which task it is: class k is the k-th id of the list."""
    return Annotations.from_triples(task_ids, ["w"] * len(task_ids), range(len(task_ids)), classes=range(len(task_ids)))


def rows_by_task(aligned: Aligned) -> dict[Any, int]:
    assert aligned[1] is not None
    return dict(zip(aligned[0].task_ids.tolist(), aligned[1].tolist(), strict=True))


# ---------------------------------------------------------------- by id


@pytest.mark.parametrize(
    ("tasks", "features"),
    [
        (["b", "a", "c"], ["c", "b", "a"]),
        ([30, 10, 20], [10, 20, 30]),
        ([2, 0, 1], np.array([1, 2, 0])),
        ([(1, "x"), (0, "y")], [(0, "y"), (1, "x")]),
        (["a", 3], [3, "a"]),
        ([1.0, 2.0], [2, 1]),
    ],
)
def test_by_id(tasks: list[Any], features: Any) -> None:
    ann = crowd(tasks)
    aligned = align(ann, len(features), features)
    assert aligned[0] is ann
    assert rows_by_task(aligned) == {task: list(features).index(task) for task in tasks}


@given(st.permutations(list("abcdef")), st.permutations(list("abcdef")))
def test_labels_end_up_with_their_features(tasks: list[str], features: list[str]) -> None:
    aligned = align(crowd(tasks), 6, features)
    assert aligned[1] is not None
    labels = aligned[0].labels.tolist()
    assert [tasks[label] for label in labels] == [features[row] for row in aligned[1]]


def test_ids_win_over_position() -> None:
    ann = Annotations.from_matrix([[0], [1], [2]], task_ids=["a", "b", "c"])
    assert rows_by_task(align(ann, 3, ["c", "a", "b"])) == {"a": 1, "b": 2, "c": 0}


# ---------------------------------------------------------------- by an index that nobody called task


def by_index(ann: Annotations, index: list[Any], **options: Any) -> Aligned:
    return align(ann, len(index), RowIndex.of(as_names(index)), **options)


@pytest.mark.parametrize("tasks", [["a", "b", "c"], [10, 20, 30], ["7", "8", "9"]])
@pytest.mark.parametrize("matrix", [True, False])
def test_an_index_with_all_ids_is_the_ids(tasks: list[Any], matrix: bool) -> None:
    ann = Annotations.from_matrix([[0], [1], [2]], task_ids=tasks) if matrix else crowd(tasks)
    index = [int(name) if name in ("7", "8", "9") and not matrix else name for name in (tasks[2], tasks[0], tasks[1])]
    assert rows_by_task(by_index(ann, index)) == {tasks[0]: 1, tasks[1]: 2, tasks[2]: 0}


def test_an_index_with_more_ids_has_unlabelled_tasks() -> None:
    assert rows_by_task(by_index(crowd(["b", "a"]), ["new", "b", "a"])) == {"a": 2, "b": 1, "new": 0}


def test_an_index_of_shuffled_row_numbers_is_told() -> None:
    with pytest.warns(DataWarning, match=r"by the index, which begins with 2, 0, 1; if the task ids are row numbers"):
        aligned = by_index(crowd([0, 1, 2]), [2, 0, 1])
    assert rows_by_task(aligned) == {0: 1, 1: 2, 2: 0}


@pytest.mark.parametrize("index", [[2, 0, 1], [1, 2, 3], ["x", "y", "z"]])
def test_a_matrix_without_ids_goes_by_position_whatever_the_index(index: list[Any]) -> None:
    assert by_index(Annotations.from_matrix([[0], [1], [2]]), index)[1] is None


def test_an_index_with_some_ids_is_told_where_rows_go_by_position() -> None:
    ann = Annotations.from_matrix([[0], [1], [2]], task_ids=["a", "b", "c"])
    with pytest.warns(DataWarning, match="the index has 2 of 3 task ids, so rows are matched to tasks by position"):
        assert by_index(ann, ["c", "b", "x"])[1] is None
    with pytest.warns(DataWarning, match=r"2 of 3 task ids.*X\.index\.name = 'task'.*X\.reset_index\(drop=True\)"):
        assert by_index(crowd([0, 1, 2]), [2, 1, 7])[0].task_ids.tolist() == [0, 1, 2]


def test_an_index_with_some_ids_is_the_ids_where_there_is_no_position() -> None:
    with pytest.raises(InputError, match="1 tasks have no features: 'c'"):
        by_index(crowd(["a", "b", "c"]), ["b", "a"])


def test_task_without_features_is_an_error() -> None:
    message = "2 tasks have no features: 'c', 'd'; complete the files, or drop these with allow_missing=True"
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        align(crowd(["a", "b", "c", "d"]), 2, ["a", "b"])


def test_features_without_a_label_are_tasks_without_labels() -> None:
    aligned = align(crowd(["b", "a"]), 5, ["q", "p", "a", "r", "b"])
    assert rows_by_task(aligned) == {"a": 2, "b": 4, "p": 1, "q": 0, "r": 3}
    assert aligned[0].task_ids.tolist() == ["a", "b", "p", "q", "r"]
    assert aligned[0].labels_per_task().tolist() == [1, 1, 0, 0, 0]
    assert aligned[0].labels.tolist() == [1, 0]


def test_unlabelled_tasks_come_in_the_same_order_from_every_file() -> None:
    one, other = (align(crowd([5, 2]), 4, ids) for ids in ([9, 5, 2, 7], [2, 7, 9, 5]))
    assert one[0] == other[0]
    assert (rows_by_task(one), rows_by_task(other)) == ({2: 2, 5: 1, 7: 3, 9: 0}, {2: 0, 5: 3, 7: 1, 9: 2})


def test_allow_missing_drops_tasks_without_features() -> None:
    with pytest.warns(DataWarning, match="^dropped: 2 tasks have no features: 'b', 'd'$"):
        aligned = align(crowd(["d", "c", "b", "a"]), 2, ["c", "a"], allow_missing=True)
    assert rows_by_task(aligned) == {"a": 1, "c": 0}
    assert aligned[0].labels.tolist() == [3, 1]
    assert aligned[0].n_classes == 4


def test_features_without_a_task_can_be_dropped() -> None:
    with pytest.warns(DataWarning, match="^dropped: 1 feature rows match no task: 'x'$"):
        aligned = align(crowd(["b", "a"]), 3, ["b", "x", "a"], unlabelled=False)
    assert rows_by_task(aligned) == {"a": 2, "b": 0}


def test_both_are_dropped() -> None:
    with pytest.warns(DataWarning) as caught:
        aligned = align(crowd(["a", "b"]), 3, ["x", "b", "y"], allow_missing=True, unlabelled=False)
    assert [str(warning.message) for warning in caught] == [
        "dropped: 1 tasks have no features: 'a'",
        "dropped: 2 feature rows match no task: 'x', 'y'",
    ]
    assert rows_by_task(aligned) == {"b": 1}


@pytest.mark.parametrize("allow_missing", [False, True])
def test_no_common_id_shows_both_sides(allow_missing: bool) -> None:
    message = "no task id is among the feature ids: the tasks are 1, 2, the feature rows 'one', 'two'"
    with pytest.raises(InputError, match=message):
        align(crowd([1, 2]), 2, ["one", "two"], allow_missing=allow_missing)


@pytest.mark.parametrize(("tasks", "features"), [([7, 12], ["12", "7"]), (["7", "12"], [12, 7])])
def test_numbers_in_one_file_and_text_in_the_other(tasks: list[Any], features: list[Any]) -> None:
    ann = crowd(tasks)
    aligned = align(ann, 2, features)
    assert aligned[0] is ann
    assert rows_by_task(aligned) == {tasks[0]: 1, tasks[1]: 0}


def test_numbers_and_text_with_gaps() -> None:
    with pytest.raises(InputError, match=r"^1 tasks have no features: 3; complete"):
        align(crowd([1, 2, 3]), 2, ["2", "1"])
    aligned = align(crowd([1, 2]), 3, ["2", "1", "3"])  # names of two types would be two kinds of tasks
    assert rows_by_task(aligned) == {"1": 1, "2": 0, "3": 2}


def test_ids_must_be_one_per_feature_row() -> None:
    with pytest.raises(InputError, match=r"2 task ids were given for 1,000 feature rows; pass one per row"):
        align(crowd(["a", "b"]), 1000, ["a", "b"])


def test_feature_ids_must_be_distinct() -> None:
    with pytest.raises(InputError, match=r"features: 2 ids occur more than once \('a', 'b'\); keep one row per task"):
        align(crowd(["a", "b"]), 5, ["a", "b", "a", "b", "c"])


def test_check_unique_ids() -> None:
    check_unique_ids(as_names([1, "1", (1,)]), "f.csv")
    with pytest.raises(InputError, match=r"f\.csv: 1 ids occur more than once \(3\)"):
        check_unique_ids(as_names([3, 4, 3]), "f.csv")


# ---------------------------------------------------------------- by row number


def test_a_bare_array_has_row_numbers_for_ids() -> None:
    aligned = align(crowd([4, 0, 2]), 6)
    assert aligned[1] is None
    assert aligned[0].task_ids.tolist() == [0, 1, 2, 3, 4, 5]
    assert aligned[0].to_matrix()[:, 0].tolist() == [1, -1, 2, -1, 0, -1]


def test_all_rows_labelled() -> None:
    ann = crowd([1, 0])
    aligned = align(ann, 2)
    assert aligned[1] is None
    assert aligned[0] == ann


@pytest.mark.parametrize("task_id", ["a", "0", 0.5, (1, 2), True])
def test_other_ids_cannot_be_row_numbers(task_id: Any) -> None:
    message = f"task ids such as {task_id!r} cannot be matched to a feature array without ids"
    with pytest.raises(InputError, match=re.escape(message)):
        align(crowd([task_id]), 3)


def test_ids_beyond_the_array_are_an_error() -> None:
    message = r"3 tasks have no features \(row numbers run from 0 to 1,999\): -1, 2000, 2001; complete the files"
    with pytest.raises(InputError, match=message):
        align(crowd([0, 2000, 1999, -1, 2001]), 2000)


def test_ids_beyond_the_array_can_be_dropped() -> None:
    with pytest.warns(DataWarning, match=r"dropped: 2 tasks have no features \(row numbers run from 0 to 2\): -1, 3"):
        aligned = align(crowd([3, 2, -1]), 3, allow_missing=True)
    assert aligned[1] is None
    assert aligned[0].task_ids.tolist() == [0, 1, 2]
    assert aligned[0].to_matrix()[:, 0].tolist() == [-1, -1, 1]


def test_no_id_inside_the_array_is_an_error_also_when_missing_is_allowed() -> None:
    with (
        pytest.warns(DataWarning, match="dropped: 1 tasks"),
        pytest.raises(InputError, match=r"no task id is a row number of the features \(0 to 2\)"),
    ):
        align(crowd([3]), 3, allow_missing=True)


# ---------------------------------------------------------------- by position


def test_a_matrix_goes_by_position_whatever_its_tasks_are_called() -> None:
    ann = Annotations.from_matrix([[0], [1]], task_ids=["x", "y"])
    aligned = align(ann, 2)
    assert aligned[0] is ann
    assert aligned[1] is None


def test_rows_taken_from_annotations_go_with_the_same_rows_of_features() -> None:
    ann = crowd([10, 20, 30, 40])
    part = ann[[3, 1, 1]]
    aligned = align(part, 3)
    assert aligned[0] is part
    assert aligned[1] is None
    assert aligned[0].labels.tolist() == [3, 1, 1]


def test_position_needs_equally_many_rows() -> None:
    part = crowd([0, 1, 2, 3])[[3, 1]]
    aligned = align(part, 4)  # numbers still say which row
    assert aligned[0].to_matrix()[:, 0].tolist() == [-1, 1, -1, 3]
    named = Annotations.from_matrix([[0], [1]], task_ids=["x", "y"])
    with pytest.raises(InputError, match="task ids such as 'x' cannot be matched"):
        align(named, 3)


@pytest.mark.parametrize("allow_missing", [False, True])
def test_ids_that_count_from_one_are_noticed(allow_missing: bool) -> None:
    """Dropping the last task would shift every row by one."""
    with pytest.raises(
        InputError, match=r"task ids run from 1 to 4, but the rows of an array without ids count from 0"
    ):
        align(crowd([1, 2, 3, 4]), 4, allow_missing=allow_missing)
