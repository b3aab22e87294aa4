"""The container of crowd labels: ways in, what is inside, what can be taken from it, ways out."""

from __future__ import annotations

import copy
import pickle
import re
from collections import Counter
from collections.abc import Callable
from datetime import date
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils import _safe_indexing, indexable

from conal.aggregation import MajorityVote
from conal.data.annotations import Annotations, gather_ranges
from conal.data.cleaning import pair_order
from conal.data.encoding import MISSING, as_names
from conal.errors import DataWarning, InputError

NAN = float("nan")
IntMatrix = npt.NDArray[np.int32]

# One crowd, written down once: rows in no order.
TASKS = ["t2", "t1", "t3", "t1", "t2", "t1"]
WORKERS = ["bob", "eve", "ann", "ann", "ann", "bob"]
LABELS = ["dog", "cat", "cat", "dog", "cow", "dog"]
MATRIX = [[2, 2, 0], [1, 2, -1], [0, -1, -1]]  # t1..t3 x ann, bob, eve; cat, cow, dog
NAMED_MATRIX = [["dog", "dog", "cat"], ["cow", "dog", None], ["cat", None, None]]

MARCH = pd.Period("2024-03")


def expected() -> Annotations:
    return Annotations(
        [0, 0, 0, 1, 1, 2],
        [0, 1, 2, 0, 1, 0],
        [2, 2, 0, 1, 2, 0],
        task_ids=["t1", "t2", "t3"],
        annotator_ids=["ann", "bob", "eve"],
        classes=["cat", "cow", "dog"],
    )


def long_table() -> dict[str, list[Any]]:
    return {"task": TASKS, "worker": WORKERS, "label": LABELS}


def from_matrix(matrix: IntMatrix, order: npt.NDArray[np.int64] | None = None, n_classes: int = 4) -> Annotations:
    """The annotations of a matrix by way of the constructor, in some order of the rows."""
    tasks, annotators = np.nonzero(matrix != MISSING)
    order = np.arange(len(tasks)) if order is None else order
    tasks, annotators = tasks[order], annotators[order]
    return Annotations(
        tasks,
        annotators,
        matrix[tasks, annotators],
        task_ids=[f"task {i}" for i in range(matrix.shape[0])],
        annotator_ids=[f"worker {r}" for r in range(matrix.shape[1])],
        classes=list("abcdefgh")[:n_classes],
    )


SHAPES = st.tuples(st.integers(1, 7), st.integers(1, 5))
MATRICES: st.SearchStrategy[IntMatrix] = SHAPES.flatmap(
    lambda shape: hnp.arrays(np.int32, shape, elements=st.sampled_from([-1, -1, -1, 0, 1, 2, 3]))
)


# ---------------------------------------------------------------- ways in

WAYS: dict[str, Callable[[], Annotations]] = {
    "lists": lambda: Annotations.from_triples(TASKS, WORKERS, LABELS),
    "tuples": lambda: Annotations.from_triples(tuple(TASKS), tuple(WORKERS), tuple(LABELS)),
    "iterators": lambda: Annotations.from_triples(iter(TASKS), iter(WORKERS), iter(LABELS)),
    "text arrays": lambda: Annotations.from_triples(np.array(TASKS), np.array(WORKERS), np.array(LABELS)),
    "object arrays": lambda: Annotations.from_triples(*(np.array(c, dtype=object) for c in (TASKS, WORKERS, LABELS))),
    "series": lambda: Annotations.from_triples(pd.Series(TASKS), pl.Series(WORKERS), pa.array(LABELS)),
    "pandas": lambda: Annotations.from_frame(pd.DataFrame(long_table())),
    "pandas, other index": lambda: Annotations.from_frame(pd.DataFrame(long_table(), index=list("qwerty"))),
    "pandas, objects": lambda: Annotations.from_frame(pd.DataFrame(long_table(), dtype=object)),
    "pandas, Arrow types": lambda: Annotations.from_frame(pd.DataFrame(long_table(), dtype="string[pyarrow]")),
    "pandas, categories": lambda: Annotations.from_frame(pd.DataFrame(long_table(), dtype="category")),
    "polars": lambda: Annotations.from_frame(pl.DataFrame(long_table())),
    "polars, categories": lambda: Annotations.from_frame(
        pl.DataFrame(long_table(), schema={"task": pl.Categorical, "worker": pl.Categorical, "label": pl.Categorical})
    ),
    "polars, objects": lambda: Annotations.from_frame(
        pl.DataFrame(long_table(), schema={"task": pl.Object, "worker": pl.Object, "label": pl.Object})
    ),
    "arrow": lambda: Annotations.from_frame(pa.table(long_table())),
    "arrow, chunks": lambda: Annotations.from_frame(
        pa.concat_tables([pa.table(long_table())[:2], pa.table(long_table())[2:]])
    ),
    "aliases": lambda: Annotations.from_frame(pd.DataFrame({"Item ID": TASKS, "rater": WORKERS, "Answer": LABELS})),
    "named columns": lambda: Annotations.from_frame(
        pd.DataFrame({"a": TASKS, "b": WORKERS, "label": WORKERS, "c": LABELS}), task="a", worker="b", label="c"
    ),
    "matrix of names": lambda: Annotations.from_matrix(
        NAMED_MATRIX, task_ids=["t1", "t2", "t3"], annotator_ids=["ann", "bob", "eve"]
    ),
    "pandas matrix": lambda: Annotations.from_matrix(
        pd.DataFrame(NAMED_MATRIX, index=["t1", "t2", "t3"], columns=["ann", "bob", "eve"])
    ),
    "polars matrix": lambda: Annotations.from_matrix(
        pl.DataFrame(NAMED_MATRIX, schema=["ann", "bob", "eve"], orient="row"), task_ids=["t1", "t2", "t3"]
    ),
    "its own table": lambda: Annotations.from_frame(expected().to_table()),
}


@pytest.mark.parametrize("way", WAYS)
def test_all_ways_in_give_the_same(way: str) -> None:
    ann = WAYS[way]()
    assert ann == expected()
    assert ann.to_matrix().tolist() == MATRIX
    assert ann.indptr.tolist() == [0, 3, 5, 6]
    assert ann.task_ids.tolist() == ["t1", "t2", "t3"]
    assert ann.annotator_ids.tolist() == ["ann", "bob", "eve"]
    assert ann.classes.tolist() == ["cat", "cow", "dog"]


@given(st.permutations(range(len(TASKS))))
def test_the_order_of_the_rows_does_not_matter(order: list[int]) -> None:
    frame = pd.DataFrame(long_table()).iloc[order]
    assert Annotations.from_frame(frame) == expected()


def test_sizes_and_repr() -> None:
    ann = expected()
    assert (ann.n_tasks, ann.n_annotators, ann.n_classes, ann.n_annotations) == (3, 3, 3, 6)
    assert (len(ann), ann.shape) == (3, (3, 3))
    assert repr(ann) == "Annotations(3 tasks, 3 annotators, 3 classes, 6 annotations)"


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["10", "9", "10"], ["10", "9"]),
        ([10, 9, 10], [9, 10]),
        ([10.0, 9.0, 10.0], [9, 10]),
        ([2.5, 1.0, 2.5], [1.0, 2.5]),
        ([True, False, True], [False, True]),
        ([(1, "b"), (1, "a"), (1, "b")], [(1, "a"), (1, "b")]),
        ([date(2024, 1, 2), date(2024, 1, 1), date(2024, 1, 2)], [date(2024, 1, 1), date(2024, 1, 2)]),
        (["a", 3, "a"], [3, "a"]),
        ([UUID(int=2), UUID(int=1), UUID(int=2)], [UUID(int=1), UUID(int=2)]),
        (
            [pd.Period("2024-02"), pd.Period("2024-01"), pd.Period("2024-02")],
            [pd.Period("2024-01"), pd.Period("2024-02")],
        ),
        ([pd.Interval(1, 2), pd.Interval(0, 1), pd.Interval(1, 2)], [pd.Interval(0, 1), pd.Interval(1, 2)]),
    ],
)
@pytest.mark.parametrize("role", ["task", "worker", "label"])
@pytest.mark.parametrize("library", ["lists", "pandas", "polars"])
def test_names_of_every_type_in_every_role(library: str, role: str, values: list[Any], names: list[Any]) -> None:
    columns: dict[str, list[Any]] = {"task": [0, 1, 2], "worker": [0, 1, 2], "label": [0, 1, 2]}
    columns[role] = values
    if library == "lists":
        ann = Annotations.from_triples(columns["task"], columns["worker"], columns["label"])
    elif library == "pandas":
        ann = Annotations.from_frame(pd.DataFrame({name: pd.Series(column) for name, column in columns.items()}))
    else:
        exotic = isinstance(values[0], tuple | UUID | pd.Period | pd.Interval)
        mixed = len({type(value) for value in values}) > 1 or exotic
        series = {name: pl.Series(name, column) for name, column in columns.items() if name != role}
        series[role] = pl.Series(role, values, dtype=pl.Object if mixed else None)
        ann = Annotations.from_frame(pl.DataFrame(series))
    found = {"task": ann.task_ids, "worker": ann.annotator_ids, "label": ann.classes}[role]
    codes = {"task": ann.tasks, "worker": ann.annotators, "label": ann.labels}[role]
    assert found.tolist() == names
    assert [type(name) for name in found.tolist()] == [type(name) for name in names]
    assert Counter(names[code] for code in codes.tolist()) == Counter(values)


def test_uuids_are_text_in_tables() -> None:
    ann = Annotations.from_triples([UUID(int=1), UUID(int=2)], ["a", "b"], ["x", "y"])
    assert ann.to_table()["task"].to_pylist() == [str(UUID(int=1)), str(UUID(int=2))]
    assert MajorityVote().fit(ann).table("labels")["task"].to_pylist() == [str(UUID(int=1)), str(UUID(int=2))]
    assert Annotations.of(pa.table({"task": [UUID(int=1)], "worker": ["a"], "label": ["x"]})).n_tasks == 1


def test_whole_numbers_stay_whole_beside_gaps() -> None:
    frame = pd.DataFrame({"task": [1, 2, 3], "worker": [1, 1, 1], "label": [4, None, 2]})
    assert frame["label"].dtype == np.float64
    with pytest.warns(DataWarning, match="frame: dropped 1 rows"):
        ann = Annotations.from_frame(frame)
    assert ann.classes.tolist() == [2, 4]
    assert ann.classes.dtype == np.int64
    assert ann.to_matrix().tolist() == [[1], [-1], [0]]


def test_categories_of_several_types() -> None:
    frame = pd.DataFrame({"task": [1, 2], "worker": [1, 1], "label": pd.Categorical(["x", 3])})
    assert Annotations.from_frame(frame).classes.tolist() == [3, "x"]


@pytest.mark.parametrize("library", [pd.DataFrame, pa.table])
def test_categories_without_labels_are_no_classes(library: Any) -> None:
    labels = pd.Categorical(["y", "x"], categories=["z", "y", "x"], ordered=True)
    ann = Annotations.from_frame(library({"task": [1, 2], "worker": [1, 1], "label": labels}))
    assert ann.classes.tolist() == ["x", "y"]
    assert ann.labels.tolist() == [1, 0]


@pytest.mark.parametrize("classes", [["dog", "cat", "cow"], ("dog", "cat", "cow"), np.array(["dog", "cat", "cow"])])
def test_class_order_as_given(classes: Any) -> None:
    ann = Annotations.from_triples(TASKS, WORKERS, LABELS, classes=classes)
    assert ann.classes.tolist() == ["dog", "cat", "cow"]
    assert ann.to_matrix().tolist() == [[0, 0, 1], [2, 0, -1], [1, -1, -1]]


def test_classes_that_nobody_chose() -> None:
    ann = Annotations.from_triples([0, 1], [0, 0], [2, 0], classes=range(4))
    assert ann.classes.tolist() == [0, 1, 2, 3]
    assert ann.labels.tolist() == [2, 0]
    assert ann.votes().tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]


# ---------------------------------------------------------------- matrices


@pytest.mark.parametrize(
    "matrix",
    [
        [[0, -1], [1, 1], [-1, 0]],
        np.array([[0, -1], [1, 1], [-1, 0]], dtype=np.int8),
        [[0, NAN], [1, 1], [NAN, 0]],
        [[0, None], [1, 1], [None, 0]],
        pd.DataFrame([[0, NAN], [1, 1], [NAN, 0]]),
        pd.DataFrame({0: pd.array([0, 1, None], dtype="Int64"), 1: pd.array([None, 1, 0], dtype="Int64")}),
        pd.DataFrame([[0, -1], [1, 1], [-1, 0]]),
    ],
)
def test_missing_cells_of_a_matrix(matrix: Any) -> None:
    ann = Annotations.from_matrix(matrix)
    assert ann.to_matrix().tolist() == [[0, -1], [1, 1], [-1, 0]]
    assert ann.classes.tolist() == [0, 1]
    assert ann.task_ids.tolist() == [0, 1, 2]
    assert ann.annotator_ids.tolist() == [0, 1]
    assert ann.by_position


@pytest.mark.parametrize(
    "matrix",
    [
        [["b", None], ["a", "b"]],
        [["b", NAN], ["a", "b"]],
        [["b", -1], ["a", "b"]],
        np.array([["b", None], ["a", "b"]], dtype=object),
        np.array([["b", NAN], ["a", "b"]], dtype=object),
        np.array([["b", -1], ["a", "b"]], dtype=object),
        pd.DataFrame([["b", None], ["a", "b"]]),
        pl.DataFrame({"0": ["b", "a"], "1": [None, "b"]}),
    ],
)
def test_missing_cells_of_a_matrix_of_text(matrix: Any) -> None:
    ann = Annotations.from_matrix(matrix)
    assert ann.classes.tolist() == ["a", "b"]
    assert ann.to_matrix().tolist() == [[1, -1], [0, 1]]


def test_a_full_text_matrix() -> None:
    ann = Annotations.from_matrix(np.array([["b", "c"], ["a", "b"]]))
    assert ann.classes.tolist() == ["a", "b", "c"]
    assert ann.to_matrix().tolist() == [[1, 2], [0, 1]]


def test_a_long_frame_with_an_unknown_column_is_no_matrix() -> None:
    frame = pd.DataFrame({"task": [1, 2], "worker": [1, 1], "outcome": [0, 1]})
    with pytest.raises(InputError, match="no column for the label"):
        Annotations.of(frame)


def test_a_square_matrix_has_tasks_in_rows() -> None:
    ann = Annotations.from_matrix([[0, 1], [-1, 1]])
    assert ann.labels_per_task().tolist() == [2, 1]
    assert ann.labels_per_annotator().tolist() == [1, 2]
    assert ann.tasks.tolist() == [0, 0, 1]
    assert ann.annotators.tolist() == [0, 1, 1]


def test_a_matrix_keeps_rows_and_columns_without_labels() -> None:
    ann = Annotations.from_matrix([[-1, -1, 3], [-1, -1, -1], [5, -1, 3]])
    assert ann.shape == (3, 3)
    assert ann.classes.tolist() == [3, 5]
    assert ann.to_matrix().tolist() == [[-1, -1, 0], [-1, -1, -1], [1, -1, 0]]
    assert ann.labels_per_task().tolist() == [1, 0, 2]
    assert ann.labels_per_annotator().tolist() == [1, 0, 2]


def test_matrix_with_negative_and_fractional_classes() -> None:
    with pytest.warns(DataWarning, match="if -1.0 is a class"):
        ann = Annotations.from_matrix([[-2, -1], [0.5, -2]])
    assert ann.classes.tolist() == [-2.0, 0.5]
    assert ann.to_matrix().tolist() == [[0, -1], [1, 0]]


def test_matrix_with_class_order() -> None:
    ann = Annotations.from_matrix([[0, -1], [2, 0]], classes=[2, 1, 0])
    assert ann.classes.tolist() == [2, 1, 0]
    assert ann.to_matrix().tolist() == [[2, -1], [0, 2]]


def test_given_ids_win_over_those_of_the_frame() -> None:
    frame = pd.DataFrame([[0, 1]], index=["x"], columns=["p", "q"])
    ann = Annotations.from_matrix(frame, task_ids=["y"], annotator_ids=["r", "s"])
    assert ann.task_ids.tolist() == ["y"]
    assert ann.annotator_ids.tolist() == ["r", "s"]


def test_index_of_several_levels_gives_tuples() -> None:
    index = pd.MultiIndex.from_tuples([("a", 2), ("a", 1)])
    assert Annotations.from_matrix(pd.DataFrame([[0], [1]], index=index)).task_ids.tolist() == [("a", 2), ("a", 1)]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([0, 1, 1], r"expected tasks x annotators, got an array of shape \(3,\).*conal.make\('gold'\)"),
        (np.zeros((2, 2, 2)), r"got an array of shape \(2, 2, 2\)"),
        ([[0, 1], [1]], "the rows are not equally long"),
        ([[-1, -1], [-1, -1]], "contains no labels"),
        ([[NAN, None]], "contains no labels"),
        (np.empty((0, 3)), "contains no labels"),
    ],
)
def test_matrices_that_cannot_be_used(matrix: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^answers.npy: .*{message}"):
        Annotations.from_matrix(matrix, where="answers.npy")


@pytest.mark.parametrize("ids", [["a"], ["a", "b", "c"]])
def test_ids_of_a_matrix_must_be_as_many_as_its_rows_and_columns(ids: list[str]) -> None:
    with pytest.raises(InputError, match=f"matrix: {len(ids)} task ids for 2 tasks"):
        Annotations.from_matrix([[0, 1], [1, 1]], task_ids=ids)
    with pytest.raises(InputError, match=f"matrix: {len(ids)} annotator ids for 2 annotators"):
        Annotations.from_matrix([[0, 1], [1, 1]], annotator_ids=ids)


def test_unknown_class_in_a_matrix_is_named_by_its_row() -> None:
    with pytest.raises(InputError, match="matrix: row 3: 'c' not among the 2 classes"):
        Annotations.from_matrix([["a", "b"], ["a", None], ["a", "c"]], classes=["a", "b"])


# ---------------------------------------------------------------- bad input


def test_unknown_label_is_named_with_its_row_and_the_nearest_class() -> None:
    message = r"^annotations: row 3: 'catt', 'owl' not among the 2 classes; did you mean 'cat'\?"
    labels = ["cat", None, "catt", "owl"]
    with pytest.warns(DataWarning, match="dropped 1 rows"), pytest.raises(InputError, match=message):
        Annotations.from_triples([1, 2, 3, 4], [1, 1, 1, 1], labels, classes=["cat", "dog"])


def test_unknown_label_without_a_near_class() -> None:
    with pytest.raises(InputError, match="row 2: 7 not among the 2 classes; correct the labels or add them"):
        Annotations.from_triples([1, 2], [1, 1], [1, 7], classes=[1, 2])


def test_classes_listed_twice() -> None:
    with pytest.raises(InputError, match=r"classes are listed twice in \['a', 'b', 'a'\]"):
        Annotations.from_triples([1], [1], ["a"], classes=["a", "b", "a"])


@pytest.mark.parametrize(("rule", "kept"), [("last", ["z", "y"]), ("first", ["x", "y"])])
def test_repeated_pairs_keep_one(rule: Any, kept: list[str]) -> None:
    tasks, workers, labels = [1, 2, 1, 1], ["w", "w", "w", "w"], ["x", "y", "y", "z"]
    message = (
        f"annotations: 2 rows repeat a (task, worker) pair, the first is task 1, worker 'w'; kept the {rule} of each"
    )
    with pytest.warns(DataWarning, match=f"^{re.escape(message)}$"):
        ann = Annotations.from_triples(tasks, workers, labels, on_duplicate=rule)
    assert ann.n_annotations == 2
    assert ann.classes[ann.labels].tolist() == kept


def test_repeated_pairs_as_an_error() -> None:
    with pytest.raises(
        InputError, match=r"x\.csv: 1 rows repeat a \(task, worker\) pair.*task 5, worker 8; remove them"
    ):
        Annotations.from_triples([5, 5], [8, 8], [0, 1], on_duplicate="error", where="x.csv")


@pytest.mark.parametrize("rule", ["last", "first", "error"])
def test_without_repeated_pairs_every_rule_is_silent(rule: Any) -> None:
    assert Annotations.from_triples(TASKS, WORKERS, LABELS, on_duplicate=rule) == expected()


def test_unknown_rule_for_repeated_pairs() -> None:
    with pytest.raises(InputError, match="on_duplicate must be 'last', 'first' or 'error', not 'median'"):
        Annotations.from_triples([1], [1], [1], on_duplicate="median")  # type: ignore[arg-type]


def test_a_missing_label_does_not_replace_an_earlier_one() -> None:
    with pytest.warns(DataWarning, match="dropped 1 rows"):
        ann = Annotations.from_triples([1, 1], ["w", "w"], ["x", None])
    assert ann.classes[ann.labels].tolist() == ["x"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)), min_size=1))
def test_repeated_pairs_against_a_dictionary(rows: list[tuple[int, int, int]]) -> None:
    last = {(task, worker): label for task, worker, label in rows}
    first = {(task, worker): label for task, worker, label in reversed(rows)}
    columns = [list(column) for column in zip(*rows, strict=True)]
    for rule, kept in (("last", last), ("first", first)):
        options: dict[str, Any] = {"on_duplicate": rule, "classes": range(4)}
        if len(kept) < len(rows):
            with pytest.warns(DataWarning, match=f"{len(rows) - len(kept)} rows repeat"):
                ann = Annotations.from_triples(*columns, **options)
        else:
            ann = Annotations.from_triples(*columns, **options)
        pairs = zip(ann.task_ids[ann.tasks].tolist(), ann.annotator_ids[ann.annotators].tolist(), strict=True)
        assert dict(zip(pairs, ann.labels.tolist(), strict=True)) == kept


@pytest.mark.parametrize("gap", [None, NAN, np.nan])
@pytest.mark.parametrize("labels", [["x", "y"], [3, 4], [(1, 2), "y"]])
def test_missing_labels_are_dropped_and_counted(labels: list[Any], gap: Any) -> None:
    with pytest.warns(
        DataWarning,
        match=r"^annotations: dropped 2 rows without a label \(empty or NaN\); 2 tasks have no label left: 2, 4$",
    ):
        ann = Annotations.from_triples([1, 2, 3, 4], [5, 6, 7, 8], [labels[0], gap, labels[1], gap])
    assert set(ann.classes.tolist()) == set(labels)
    assert ann.n_annotations == 2
    assert ann.task_ids.tolist() == [1, 2, 3, 4]  # tasks and annotators that lost their only label stay
    assert ann.annotator_ids.tolist() == [5, 6, 7, 8]
    assert ann.labels_per_task().tolist() == [1, 0, 1, 0]
    assert ann.labels_per_annotator().tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("labels", [[None, None], [NAN, NAN]])
def test_all_labels_missing(labels: list[Any]) -> None:
    with pytest.raises(InputError, match="annotations: every label is missing"):
        Annotations.from_triples([1, 2], [1, 1], labels)


@pytest.mark.parametrize("gap", [None, NAN])
def test_missing_ids_are_an_error(gap: Any) -> None:
    with pytest.raises(InputError, match=r"x\.csv: 2 rows have no task, the first is row 2"):
        Annotations.from_triples([1, gap, gap], [1, 2, 3], [1, 1, 1], where="x.csv")
    with pytest.raises(InputError, match=r"x\.csv: 1 rows have no worker, the first is row 3"):
        Annotations.from_triples([1, 2, 3], ["a", "b", gap], [1, 1, 1], where="x.csv")


def test_no_annotations_at_all() -> None:
    with pytest.raises(InputError, match="annotations: contains no annotations"):
        Annotations.from_triples([], [], [])


def test_unequal_lengths() -> None:
    with pytest.raises(InputError, match="tasks, workers and labels have 3, 2 and 1 entries"):
        Annotations.from_triples([1, 2, 3], [1, 2], [1])


def test_numbers_and_text_in_one_column_of_labels() -> None:
    frame = pd.DataFrame({"task": [0, 0, 1], "worker": ["a", "b", "a"], "label": [1, "1", 2]})
    message = "classes 1 and '1' differ only in type (number and text); they count as different classes"
    with pytest.warns(DataWarning, match=re.escape(message)):
        assert Annotations.from_frame(frame).classes.tolist() == [1, 2, "1"]


@pytest.mark.parametrize("labels", [["cat", "Cat"], ["cat", " cat"], ["cat", "CAT\n"]])
def test_classes_that_look_alike(labels: list[str]) -> None:
    twin, name = sorted(labels)
    message = f"classes {twin!r} and {name!r} differ only in case, spaces or the form of letters; they count"
    with pytest.warns(DataWarning, match=re.escape(message)):
        ann = Annotations.from_triples([1, 2], [1, 1], labels)
    assert ann.n_classes == 2
    assert Annotations.from_triples([1, 2], [1, 1], labels, classes=labels).classes.tolist() == labels


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"task": [1], "label": [1]}), "frame: no column for the worker; it has 'task', 'label'"),
        (
            pd.DataFrame({"id": [1], "item": [1], "worker": [1], "label": [1]}),
            "columns 'id', 'item' could all be the task",
        ),
        (pd.DataFrame([[1, 2, 3]]), "frame: no column for the task; it has 0, 1, 2"),
        (
            pd.DataFrame([[1, 2, 3, 4]], columns=["task", "worker", "label", "label"]),
            "the same name: .*'label' 2 times",
        ),
        (pd.DataFrame({"task": [], "worker": [], "label": []}), "frame: contains no annotations"),
        (pl.DataFrame({"task": [1], "worker": [1], "label": [["a"]]}), r"frame: label: \['a'\] cannot be a name"),
        (pl.LazyFrame({"task": [1]}), "frame: .*LazyFrame.*pass a pandas or polars DataFrame"),
        ({"task": [1]}, "frame: .*dict.*pass a pandas or polars DataFrame"),
    ],
)
def test_frames_that_cannot_be_used(frame: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Annotations.from_frame(frame)


def test_named_column_that_is_not_there() -> None:
    with pytest.raises(InputError, match="frame: no column 'emotion'; it has 'task', 'worker', 'label'"):
        Annotations.from_frame(pd.DataFrame(long_table()), label="emotion")


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (([2], [0], [0]), r"task codes must be in range\(2\), found 2 to 2"),
        (([0], [-1], [0]), r"annotator codes must be in range\(2\), found -1 to -1"),
        (([0, 1], [0, 0], [0, 2]), r"class codes must be in range\(2\), found 0 to 2"),
        (([0, 1], [0], [0]), "one-dimensional and equally long"),
        (([[0]], [[0]], [[0]]), "one-dimensional and equally long"),
    ],
)
def test_codes_are_checked(codes: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Annotations(*codes, task_ids=["a", "b"], annotator_ids=["a", "b"], classes=["a", "b"])


# ---------------------------------------------------------------- against a slow reference


@given(MATRICES, st.data())
def test_contents_against_loops(matrix: IntMatrix, data: st.DataObject) -> None:
    n = int((matrix != MISSING).sum())
    ann = from_matrix(matrix, np.array(data.draw(st.permutations(range(n))), dtype=np.int64))
    cells = [
        (i, r, int(matrix[i, r]))
        for i in range(matrix.shape[0])
        for r in range(matrix.shape[1])
        if matrix[i, r] != MISSING
    ]
    assert list(zip(ann.tasks.tolist(), ann.annotators.tolist(), ann.labels.tolist(), strict=True)) == cells
    assert ann.indptr.tolist() == [sum(cell[0] < i for cell in cells) for i in range(matrix.shape[0] + 1)]
    assert ann.labels_per_task().tolist() == [sum(c[0] == i for c in cells) for i in range(ann.n_tasks)]
    assert ann.labels_per_annotator().tolist() == [sum(c[1] == r for c in cells) for r in range(ann.n_annotators)]
    assert ann.votes().tolist() == [
        [sum(c[0] == i and c[2] == label for c in cells) for label in range(4)] for i in range(ann.n_tasks)
    ]
    np.testing.assert_array_equal(ann.to_matrix(), matrix)
    assert [codes.dtype.name for codes in (ann.tasks, ann.annotators, ann.labels)] == ["int32"] * 3
    assert ann.indptr.dtype == np.int64


@given(MATRICES)
def test_matrix_there_and_back(matrix: IntMatrix) -> None:
    ann = from_matrix(matrix)
    if not ann.n_annotations:
        return
    again = Annotations.from_matrix(
        ann.to_matrix(), classes=range(4), task_ids=ann.task_ids, annotator_ids=ann.annotator_ids
    )
    np.testing.assert_array_equal(again.to_matrix(), matrix)
    assert again.task_ids.tolist() == ann.task_ids.tolist()
    assert again.annotator_ids.tolist() == ann.annotator_ids.tolist()


def row_indexers(n: int) -> st.SearchStrategy[Any]:
    """What NumPy takes along the first axis of an array of length n."""
    positions = st.integers(-n, n - 1)
    arrays = st.lists(positions, max_size=2 * n).map(lambda rows: np.array(rows, dtype=np.int64))
    return st.one_of(
        positions,
        positions.map(np.int64),
        st.slices(n),
        st.lists(st.booleans(), min_size=n, max_size=n).map(np.array),
        arrays,
        arrays.map(lambda rows: (rows, ...)),
        arrays.map(lambda rows: (rows, slice(None))),
        st.lists(positions, min_size=1, max_size=2 * n),
    )


@given(MATRICES, st.data())
def test_indexing_is_that_of_the_matrix(matrix: IntMatrix, data: st.DataObject) -> None:
    rows = data.draw(row_indexers(len(matrix)))
    ann = from_matrix(matrix)
    part = ann[rows]
    plain = rows[0] if isinstance(rows, tuple) else rows
    np.testing.assert_array_equal(part.to_matrix(), np.atleast_2d(matrix[plain]))
    assert part.task_ids.tolist() == np.atleast_1d(ann.task_ids[plain]).tolist()
    assert part.annotator_ids.tolist() == ann.annotator_ids.tolist()
    assert part.classes.tolist() == ann.classes.tolist()
    assert part.by_position
    np.testing.assert_array_equal(part.indptr, np.append(0, np.cumsum(part.labels_per_task())))
    np.testing.assert_array_equal(ann.to_matrix(), matrix)


def test_repeated_rows_are_kept_with_all_their_labels() -> None:
    part = expected()[[1, 1, 0, 1]]
    assert part.task_ids.tolist() == ["t2", "t2", "t1", "t2"]
    assert part.labels_per_task().tolist() == [2, 2, 3, 2]
    assert part.n_annotations == 9


@pytest.mark.parametrize("rows", [3, [0, 3], np.array([True, False])])
def test_rows_that_are_not_there(rows: Any) -> None:
    with pytest.raises(IndexError):
        expected()[rows]


@given(MATRICES, st.data())
def test_reindex_against_a_dictionary(matrix: IntMatrix, data: st.DataObject) -> None:
    ann = from_matrix(matrix)
    known = [*ann.task_ids.tolist(), "new 1", "new 2"]
    wanted = data.draw(st.lists(st.sampled_from(known), unique=True))
    rows = dict(zip(ann.task_ids.tolist(), matrix.tolist(), strict=True))
    part = ann.reindex(wanted)
    assert part.task_ids.tolist() == wanted
    assert part.to_matrix().tolist() == [rows.get(name, [MISSING] * matrix.shape[1]) for name in wanted]
    assert part.annotator_ids.tolist() == ann.annotator_ids.tolist()
    assert part.by_position == ann.by_position


@given(MATRICES, st.data())
def test_select_against_a_loop(matrix: IntMatrix, data: st.DataObject) -> None:
    ann = from_matrix(matrix)
    kept = data.draw(st.lists(st.booleans(), min_size=ann.n_annotations, max_size=ann.n_annotations))
    part = ann.select(kept)
    slow = np.full_like(matrix, MISSING)
    for k, keep in enumerate(kept):
        if keep:
            slow[ann.tasks[k], ann.annotators[k]] = ann.labels[k]
    np.testing.assert_array_equal(part.to_matrix(), slow)
    assert part.task_ids.tolist() == ann.task_ids.tolist()
    assert part.annotator_ids.tolist() == ann.annotator_ids.tolist()
    assert part.classes.tolist() == ann.classes.tolist()


@given(MATRICES)
def test_table_there_and_back(matrix: IntMatrix) -> None:
    """A long table cannot hold tasks and annotators without labels; everything else survives."""
    matrix = matrix[(matrix != MISSING).any(axis=1)][:, (matrix != MISSING).any(axis=0)]
    if not matrix.size:
        return
    ann = from_matrix(matrix)
    table = ann.to_table()
    assert table.column_names == ["task", "worker", "label"]
    assert Annotations.from_frame(table, classes=ann.classes) == ann
    assert Annotations.from_frame(table.to_pandas(), classes=ann.classes) == ann
    assert Annotations.from_frame(pl.from_arrow(table), classes=ann.classes) == ann


def test_table_is_in_the_users_names() -> None:
    assert expected().to_table().to_pydict() == {
        "task": ["t1", "t1", "t1", "t2", "t2", "t3"],
        "worker": ["ann", "bob", "eve", "ann", "bob", "ann"],
        "label": ["dog", "dog", "cat", "cow", "dog", "cat"],
    }


def test_mixed_names_are_text_in_a_table() -> None:
    assert Annotations.from_triples([1, 2], ["a", 7], [0, 1]).to_table()["worker"].to_pylist() == ["a", "7"]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6))))
def test_gather_ranges_against_a_loop(ranges: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in ranges], dtype=np.int64)
    counts = np.array([count for _, count in ranges], dtype=np.int64)
    slow = [at for start, count in ranges for at in range(start, start + count)]
    assert gather_ranges(starts, counts).tolist() == slow


# ---------------------------------------------------------------- identity, copies, immutability


def test_equality() -> None:
    ann = expected()
    assert ann == expected()
    assert ann == ann[:]  # by_position is how it was made, not what it contains
    assert ann != ann[[0, 2, 1]]
    assert ann != ann.reindex(["t1", "t2", "x"])
    assert ann != ann.select([True] * 5 + [False])
    assert ann != Annotations.from_triples(TASKS, WORKERS, LABELS, classes=["dog", "cat", "cow"])
    assert ann != Annotations.from_triples(TASKS, [name.upper() for name in WORKERS], LABELS)
    assert (ann == "annotations") is False


def test_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(expected())


ARRAYS = ["tasks", "annotators", "labels", "indptr", "task_ids", "annotator_ids", "classes"]


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(
    "made",
    [
        expected,
        lambda: expected()[[2, 0]],
        lambda: expected().reindex(["t3", "t2", "x"]),
        lambda: expected().select([True, False] * 3),
        lambda: Annotations.from_matrix(np.array(MATRIX)),
        lambda: pickle.loads(pickle.dumps(expected())),  # noqa: S301
        lambda: pickle.loads(pickle.dumps(Annotations.from_matrix(np.array(MATRIX)), protocol=5)),  # noqa: S301
        lambda: copy.deepcopy(expected()),
        lambda: Annotations.from_triples([1, 2], [True, False], [1.5, 2.5]),
    ],
)
def test_arrays_cannot_be_written(made: Callable[[], Annotations], name: str) -> None:
    ann = made()
    with pytest.raises(ValueError, match="read-only"):
        getattr(ann, name)[0] = getattr(ann, name)[-1]
    with pytest.raises(AttributeError):
        setattr(ann, name, None)


def test_what_it_was_made_from_is_not_shared() -> None:
    tasks, workers, labels = np.array([0, 1]), np.array([0, 0]), np.array([1, 0], dtype=np.int32)
    ids = np.array([7, 8])
    ann = Annotations(tasks, workers, labels, task_ids=ids, annotator_ids=[0], classes=[0, 1])
    for array in (tasks, workers, labels, ids):
        array[:] = 0
    assert ann.to_matrix().tolist() == [[1], [0]]
    assert ann.task_ids.tolist() == [7, 8]


def test_to_matrix_is_the_callers_own() -> None:
    ann = expected()
    ann.to_matrix()[:] = 0
    assert ann.to_matrix().tolist() == MATRIX


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(protocol: int) -> None:
    for ann in (expected(), expected()[[1]], Annotations.from_triples([(1, 2), "x"], [1, 1], [True, False])):
        again = pickle.loads(pickle.dumps(ann, protocol=protocol))  # noqa: S301
        assert again == ann
        assert again.by_position == ann.by_position
        np.testing.assert_array_equal(again.indptr, ann.indptr)


# ---------------------------------------------------------------- NumPy and scikit-learn


def test_as_an_array_it_is_one_set_of_pairs_per_task() -> None:
    """Something that scikit-learn can split, and cannot take for labels or a matrix of them."""
    array = np.asarray(expected()[:])
    pairs = [frozenset((r, label) for r, label in enumerate(row) if label >= 0) for row in MATRIX]
    assert array.tolist() == pairs


def test_a_huge_matrix_is_never_made() -> None:
    names = as_names(range(20_000))
    ann = Annotations([19_999], [3], [0], task_ids=names, annotator_ids=names, classes=["x"])
    assert np.asarray(ann).shape == (20_000,)
    assert ann.labels_per_task().sum() == 1
    assert ann.labels_per_annotator()[3] == 1
    assert ann.votes().shape == (20_000, 1)
    assert ann[[19_999, 0]].labels_per_task().tolist() == [1, 0]
    assert ann.to_table().to_pydict() == {"task": [19_999], "worker": [3], "label": ["x"]}


@pytest.mark.parametrize(
    "rows", [[2, 0], np.array([2, 0]), np.array([True, False, True]), [True, False, True], slice(1, None)]
)
def test_safe_indexing(rows: Any) -> None:
    part = _safe_indexing(expected(), rows)
    assert isinstance(part, Annotations)
    np.testing.assert_array_equal(part.to_matrix(), np.array(MATRIX)[rows])


def test_indexable_takes_annotations_as_they_are() -> None:
    ann = expected()
    _, same = indexable(np.zeros((3, 2)), ann)
    assert same is ann
    with pytest.raises(ValueError, match=r"\[4, 3\]"):
        indexable(np.zeros((4, 2)), ann)


def test_cross_validation_splits_features_and_annotations_together() -> None:
    x = np.arange(6)[:, None]
    ann = Annotations.from_matrix([[i, -1 if i % 2 else i] for i in range(6)], classes=range(6))
    seen = []
    for train, test in KFold(3, shuffle=True, random_state=0).split(x, ann):
        for rows in (train, test):
            part = ann[rows]
            assert part.to_matrix()[:, 0].tolist() == x[rows, 0].tolist()
            assert part.labels_per_task().tolist() == [1 if row % 2 else 2 for row in rows]
        seen += ann[test].task_ids.tolist()
    assert sorted(seen) == list(range(6))


class Recorder(BaseEstimator):  # type: ignore[misc]
    """Scores 1 where features and annotations of the same rows come together, else 0."""

    def __init__(self, knob: int = 0) -> None:
        self.knob = knob

    def fit(self, X: npt.NDArray[np.int64], y: Annotations) -> Recorder:
        assert isinstance(y, Annotations)
        self.n_ = y.n_tasks
        return self

    def score(self, X: npt.NDArray[np.int64], y: Annotations) -> float:
        return float(y.to_matrix()[:, 0].tolist() == X[:, 0].tolist() and self.n_ + y.n_tasks == 6)


def test_grid_search_indexes_annotations() -> None:
    ann = Annotations.from_matrix([[i, -1] for i in range(6)], classes=range(6))
    search = GridSearchCV(Recorder(), {"knob": [0, 1]}, cv=KFold(3)).fit(np.arange(6)[:, None], ann)
    assert search.cv_results_["mean_test_score"].tolist() == [1.0, 1.0]
    assert search.best_estimator_.n_ == 6


def test_reindex_refuses_repeated_ids() -> None:
    ann = Annotations.from_triples([0, 1], ["w", "w"], ["x", "y"])
    with pytest.raises(InputError, match="listed twice"):
        ann.reindex([0, 0, 1])


def test_empty_text_in_a_matrix_is_no_class() -> None:
    ann = Annotations.from_matrix(np.array([["x", ""], ["", "y"]]))
    assert ann.classes.tolist() == ["x", "y"]
    assert ann.to_matrix().tolist() == [[0, -1], [-1, 1]]


def test_codes_beyond_the_square_root_of_an_integer_stay_in_order() -> None:
    tasks, annotators = np.array([0, 60_000, 1], dtype=np.int32), np.array([60_000, 60_000, 0], dtype=np.int32)
    assert np.arange(3)[pair_order(tasks, annotators)].tolist() == [0, 2, 1]


def test_without_annotators_their_labels_and_classes_are_gone() -> None:
    columns = ["t", "t", "u", "v"], ["ann", 7, "bob", "bob"], ["only", "x", "x", "refused"]
    crowd = Annotations.from_triples(*columns, abstain="refused")
    left = crowd.without(["ann", "7"])
    assert left.to_table().to_pydict() == {"task": ["u"], "worker": ["bob"], "label": ["x"]}
    assert (left.task_ids.tolist(), left.classes.tolist()) == (["t", "u", "v"], ["x"])
    assert left.abstentions is not None
    assert left.abstentions.to_table().to_pydict() == {"task": ["v"], "worker": ["bob"], "label": ["refused"]}


def test_a_class_that_nobody_gave_stays_without_an_annotator() -> None:
    crowd = Annotations.from_triples([1, 2], ["a", "b"], ["x", "y"], classes=["x", "y", "z"])
    assert crowd.without(["a"]).classes.tolist() == ["y", "z"]


def test_annotators_who_cannot_be_left_out() -> None:
    crowd = Annotations.from_triples([1, 2], ["anna", "bob"], ["x", "y"])
    with pytest.raises(InputError, match="no annotator 'ana'; did you mean 'anna'"):
        crowd.without(["ana"])
    with pytest.raises(InputError, match="no label is left"):
        crowd.without(["anna", "bob"])
