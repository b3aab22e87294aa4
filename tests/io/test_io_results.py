"""The tables that results are written as."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from conal.data.annotations import Annotations
from conal.data.encoding import as_names, name_column
from conal.io.model_folder import annotator_table, confusion_table, label_table, where_labelled

PROBAS = np.array([[0.7, 0.3], [0.5, 0.5], [0.1, 0.9]])


def test_labels_are_the_most_probable_ones() -> None:
    table = label_table(as_names(["p", "q", "r"]), PROBAS, as_names(["x", "y"]))
    assert table.to_pydict() == {
        "task": ["p", "q", "r"],
        "label": ["x", "x", "y"],
        "probability": [0.7, 0.5, 0.9],
        "proba_x": [0.7, 0.5, 0.1],
        "proba_y": [0.3, 0.5, 0.9],
    }


def test_labels_by_other_winners() -> None:
    table = label_table(as_names([3, 1, 2]), PROBAS, as_names([10, 20]), np.array([1, 1, 1]))
    assert table["label"].to_pylist() == [20, 20, 20]
    assert table["probability"].to_pylist() == [0.3, 0.5, 0.9]


def test_a_silent_annotator_has_empty_cells() -> None:
    crowd = Annotations.from_matrix([[0, 1, -1], [1, 1, -1]], annotator_ids=["u", "v", "w"])
    codes = np.array([0, 1])
    table = annotator_table(crowd, where_labelled(crowd, np.array([0.9, 0.8, 0.5])), codes)
    assert table.to_pydict() == {
        "worker": ["u", "v", "w"],
        "num_examples_labeled": [2, 2, 0],
        "annotator_quality": [0.9, 0.8, None],
        "agreement_with_consensus": [1.0, 0.5, None],
    }
    confusion = np.arange(12.0).reshape(3, 2, 2)
    table = confusion_table(crowd, confusion)
    assert table["probability"].to_pylist() == [*range(8), None, None, None, None]
    assert table.slice(5, 2).to_pylist() == [
        {"worker": "v", "true": 0, "observed": 1, "probability": 5.0},
        {"worker": "v", "true": 1, "observed": 0, "probability": 6.0},
    ]


@pytest.mark.parametrize(
    ("names", "column"),
    [
        (["b", "a"], ["b", "a"]),
        ([2, 1], [2, 1]),
        ([True, False], [True, False]),
        ([1, "a"], ["1", "a"]),
        ([(1, 2), (3, 4)], ["(1, 2)", "(3, 4)"]),
        ([2**70, 1], [str(2**70), "1"]),
    ],
)
def test_what_arrow_has_no_type_for_becomes_text(names: list[object], column: list[object]) -> None:
    found = name_column(as_names(names))
    assert isinstance(found, pa.Array)
    assert found.to_pylist() == column
