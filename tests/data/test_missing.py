"""What is missing, by one rule for all sources; what is dropped is counted and told with its remedy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import conal
from conal import Annotations, aggregation
from conal.data.cleaning import MISSING_WORDS, missing_rule, read_labels
from conal.errors import DataWarning, InputError
from conal.io import features_from, import_file, read_annotations, read_gold
from conal.report.inspection import inspect_file

TASKS, WORKERS = ["t1", "t2", "t3", "t4"], ["a", "b", "a", "b"]
TOLD = "dropped 2 rows without a label (1 'NA', 1 empty or NaN)"
REMEDY = "if 'NA' is a class, pass missing='' (--set missing=)"


def table_of(labels: list[Any]) -> dict[str, list[Any]]:
    return {"task": TASKS, "worker": WORKERS, "label": labels}


def as_file(place: Path, ending: str, labels: list[Any]) -> Path:
    path = place / f"a.{ending}"
    frame = pd.DataFrame(table_of(labels))
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="," if ending == "csv" else "\t")
    return path


# ---------------------------------------------------------------- the rule


@pytest.mark.parametrize(
    "word", [*sorted(MISSING_WORDS), *sorted(map(str.upper, MISSING_WORDS)), " NaN ", "Null", "", "  ", "\t"]
)
def test_words_are_missing_in_any_case(word: str) -> None:
    assert missing_rule()(word)


@pytest.mark.parametrize("name", ["None", "none", "-", "?", "unknown", "nana", "-1", -1, 0, 1.5, False, ("NA",), b"NA"])
def test_everything_else_is_a_label(name: Any) -> None:
    assert not missing_rule()(name)


@pytest.mark.parametrize("name", [-1, -1.0, "-1", "-1.0", " -1 "])
def test_minus_one_is_missing_in_matrices(name: Any) -> None:
    assert missing_rule(in_matrix=True)(name)
    assert not missing_rule()(name)
    assert not missing_rule(missing="", in_matrix=True)(name)
    assert not missing_rule(classes=[-1, 0, 1], in_matrix=True)(-1)


@pytest.mark.parametrize(("missing", "name"), [("-", "-"), (["-", "?"], " ? "), (99, 99), ("99", 99.0), ([99], "99")])
def test_listed_values_replace_the_words(missing: Any, name: Any) -> None:
    assert missing_rule(missing)(name)
    assert not missing_rule(missing)("NA")
    assert missing_rule(missing)("")


def test_a_value_cannot_be_a_class_and_missing() -> None:
    with pytest.raises(InputError, match="label: 'NA' cannot be both a class and missing"):
        Annotations.from_triples([1, 2], [1, 1], ["NA", "x"], classes=["NA", "x"], missing="NA")


def test_labels_are_integers_again_without_the_words() -> None:
    found = read_labels([1, "NA", 2, None])
    assert found.names.dtype == np.int64
    assert (found.codes.tolist(), found.names.tolist(), found.words) == ([0, -1, 1, -1], [1, 2], {"NA": 1})


# ---------------------------------------------------------------- the same through every door


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
def test_the_same_is_missing_in_files_and_frames(tmp_path: Path, ending: str) -> None:
    labels = ["x", "NA", "", "y"]
    message = f"{re.escape(TOLD)}; 2 tasks have no label left: 't2', 't3'; {re.escape(REMEDY)}$"
    with pytest.warns(DataWarning, match=message):
        framed = Annotations.from_frame(pd.DataFrame(table_of(labels)))
    with pytest.warns(DataWarning, match=message):
        listed = Annotations.from_triples(TASKS, WORKERS, labels)
    with pytest.warns(DataWarning, match=message):
        read = read_annotations(as_file(tmp_path, ending, labels))
    assert framed == listed == read
    assert read.classes.tolist() == ["x", "y"]
    assert read.labels_per_task().tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
@pytest.mark.parametrize("missing", ["", [], ()])
def test_words_can_be_classes(tmp_path: Path, ending: str, missing: Any) -> None:
    path = as_file(tmp_path, ending, ["x", "NA", "n/a", "x"])
    wanted = Annotations.from_triples(TASKS, WORKERS, ["x", "NA", "n/a", "x"], missing=missing)
    assert wanted.classes.tolist() == ["NA", "n/a", "x"]
    assert read_annotations(path, missing=missing) == wanted


def test_numbers_beside_words_are_numbers(tmp_path: Path) -> None:
    path = as_file(tmp_path, "csv", ["1", "NA", "2", "?"])
    with pytest.warns(DataWarning, match=r"dropped 2 rows without a label \(1 '\?', 1 'NA'\)"):
        found = read_annotations(path, missing=["?", "NA"])
    assert found.classes.dtype == np.int64
    assert read_annotations(path, missing="").classes.tolist() == ["1", "2", "?", "NA"]


def test_only_words(tmp_path: Path) -> None:
    path = as_file(tmp_path, "csv", ["NA"] * 4)
    with pytest.raises(InputError, match=re.escape(f"every label is missing; {REMEDY}")):
        read_annotations(path)


def test_words_are_names_of_tasks_and_annotators_beside_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,worker,label\nNA,1,x\n1,null,y\n")
    found = read_annotations(tmp_path / "a.csv")
    assert found.task_ids.tolist() == ["1", "NA"]
    assert found.annotator_ids.tolist() == ["1", "null"]


@pytest.mark.parametrize("role", ["task", "worker"])
def test_blank_ids_are_refused_in_frames_as_in_files(role: str) -> None:
    frame = pd.DataFrame(table_of(["x"] * 4) | {role: ["p", " ", "", "q"]})
    with pytest.raises(InputError, match=f"frame: 2 rows have no {role}, the first is row 2"):
        Annotations.from_frame(frame)


def test_spaces_after_commas(tmp_path: Path) -> None:
    """A padded header says that the spaces are no part of the numbers."""
    (tmp_path / "a.csv").write_text("task, worker, label\nt, 1, 2\nu, 2, 3\n")
    found = read_annotations(tmp_path / "a.csv")
    assert (found.annotator_ids.tolist(), found.classes.tolist()) == ([1, 2], [2, 3])


@pytest.mark.parametrize("content", ["HITId,WorkerId,Answer.k\nh,v,NA\nh,w,cat\n", '{"h": {"v": "NA", "w": "cat"}}'])
def test_exports_of_platforms_follow_the_rule(tmp_path: Path, content: str) -> None:
    path = tmp_path / ("a.json" if content.startswith("{") else "a.csv")
    path.write_text(content)
    with pytest.warns(DataWarning, match=r"dropped 1 rows without a label \(1 'NA'\); if 'NA' is a class"):
        assert read_annotations(path).classes.tolist() == ["cat"]
    assert read_annotations(path, missing="").classes.tolist() == ["NA", "cat"]


# ---------------------------------------------------------------- matrices


def test_minus_one_among_texts_of_a_wide_table_is_told(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("task,a,b\nt1,cat,-1\nt2,dog,NA\nt3,cat,dog\nt4,-1,\n")
    with pytest.warns(DataWarning) as caught:
        found = read_annotations(path, format="wide")
    assert [str(entry.message) for entry in caught] == [
        f"{path}: dropped 3 cells without a label (2 '-1', 1 'NA'); if '-1' or 'NA' is a class, pass missing='' "
        "(--set missing=)",
        f"{path} (a wide table (cleanlab's labels_multiannotator)): left out 1 tasks without a label",
    ]
    assert found.classes.tolist() == ["cat", "dog"]
    assert found.to_matrix().tolist() == [[0, -1], [1, -1], [0, 1]]
    assert read_annotations(path, format="wide", missing="").classes.tolist() == ["-1", "NA", "cat", "dog"]


def test_minus_one_among_numbers_of_a_wide_table_is_the_convention(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("task,a,b,c\nt1,0,-1,1.0\nt2,1,0,\nt3,NA,-1,0.0\n")
    with pytest.warns(DataWarning, match=r"dropped 1 cells without a label \(1 'NA'\); if 'NA' is a class"):
        found = read_annotations(path, format="wide")
    assert found.classes.tolist() == [0, 1]
    assert found.to_matrix().tolist() == [[0, -1, 1], [1, 0, -1], [-1, -1, 0]]


def test_text_in_matrices() -> None:
    with pytest.warns(DataWarning, match=r"matrix: dropped 2 cells without a label \(1 '-1', 1 'null'\)"):
        found = Annotations.from_matrix(np.array([["x", "-1"], ["null", "y"]]))
    assert found.to_matrix().tolist() == [[0, -1], [-1, 1]]
    kept = Annotations.from_matrix([[-1, 0], [1, 0]], missing="")
    assert kept.classes.tolist() == [-1, 0, 1]
    assert Annotations.from_matrix([[-1, 0], [9, 0]], missing=9).to_matrix().tolist() == [[0, 1], [-1, 1]]


# ---------------------------------------------------------------- masks


@pytest.mark.parametrize("kind", [int, float, object, str])
def test_masked_cells_are_not_annotated(kind: type) -> None:
    matrix: Any = np.ma.array(np.array([[0, 1], [1, 0]]).astype(kind), mask=[[False, True], [False, False]])
    for given in (matrix, list(matrix)):
        assert Annotations.from_matrix(given).to_matrix().tolist() == [[0, -1], [1, 0]]


def test_masked_columns() -> None:
    labels = np.ma.array([0, 5, 1], mask=[False, True, False])
    for given in (labels, list(labels)):
        with pytest.warns(DataWarning, match="dropped 1 rows without a label"):
            assert Annotations.from_triples([1, 2, 3], [1, 1, 1], given).classes.tolist() == [0, 1]
    with pytest.raises(InputError, match="1 rows have no task, the first is row 2"):
        Annotations.from_triples(labels, [1, 1, 1], [0, 1, 0])


def test_masked_features_are_refused() -> None:
    with pytest.raises(InputError, match="1 values are masked; impute or remove them"):
        features_from(np.ma.array([[1.0, 2.0]], mask=[[False, True]]))


# ---------------------------------------------------------------- true labels


def test_words_among_true_labels(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("task,label\na,1\nb,NA\n")
    with pytest.raises(InputError, match=re.escape(f"1 true labels are missing, the first in row 2; {REMEDY}")):
        read_gold(tmp_path / "g.csv")
    assert read_gold(tmp_path / "g.csv", missing="").labels.tolist() == ["1", "NA"]


def test_blank_true_labels_are_unknown() -> None:
    crowd = Annotations.from_triples([1, 1, 2, 2], [0, 1, 0, 1], ["x", "x", "y", "y"])
    fitted = aggregation.MajorityVote().fit(crowd, true_labels={1: "y", 2: ""})
    assert fitted.labels_.tolist() == ["y", "y"]
    clf = conal.make("gold", epochs=1, hidden=(2,), verbose=False)
    clf.fit(np.eye(4, dtype=np.float32), np.array(["x", "y", "", "x"], dtype=object))
    assert clf.classes_.tolist() == ["x", "y"]


# ---------------------------------------------------------------- look-alikes


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["Ann", "ann "], "'Ann' and 'ann '"),
        (["Jos\u00e9", "Jose\u0301"], r"'Jose\u0301' and 'Jos\xe9'"),
        (["a b", "a\u00a0b"], r"'a b' and 'a\xa0b'"),
    ],
)
def test_annotators_that_look_alike_are_told_once_and_never_merged(
    tmp_path: Path, names: list[str], shown: str
) -> None:
    rows = ([1, 1, 2, 2], [*names, *names], ["x", "y", "x", "x"])
    message = (
        f"annotators {shown} differ only in case, spaces or the form of letters; they count as different annotators; "
        "if they are one person, give them one name"
    )
    with pytest.warns(DataWarning, match=re.escape(message)) as caught:
        crowd = Annotations.from_triples(*rows)
    assert len(caught) == 1
    assert crowd.n_annotators == 2
    with pytest.warns(DataWarning, match=re.escape(message)):
        Annotations.from_matrix([[0, 1], [1, 1]], annotator_ids=names)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(dict(zip(("task", "worker", "label"), rows, strict=True))), path)
    found = {entry["problem"]: entry["remedy"] for entry in inspect_file(path)["problems"]}
    (problem,) = [problem for problem in found if "differ only in case" in problem]
    assert found[problem].startswith("if they are one person, give them one name, or pass merge_spelling=True")


def test_inspect_names_the_remedy_for_words(tmp_path: Path) -> None:
    path = as_file(tmp_path, "csv", ["x", "NA", "y", "x"])
    found = {entry["problem"]: entry["remedy"] for entry in inspect_file(path)["problems"]}
    assert found[f"{path}: dropped 1 rows without a label (1 'NA'); 1 tasks have no label left: 't2'"] == REMEDY
    assert not [entry for entry in inspect_file(path, missing="")["problems"] if "dropped" in entry["problem"]]
    assert import_file(path, missing="").annotations.n_annotations == 4


@pytest.mark.parametrize("ids", [{"task_ids": [" "]}, {"annotator_ids": ["\u2028"]}, {"task_ids": ["\udce9"]}])
def test_ids_of_a_matrix_are_names_that_files_can_contain(ids: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"matrix: (1 rows have no|task: a name contains an incomplete character)"):
        Annotations.from_matrix([["x"]], **ids)


@pytest.mark.parametrize("empty", [np.nan, None])
def test_minus_one_beside_empty_cells_is_told(empty: Any) -> None:
    """Where empty cells say "not annotated", -1 and 1 are two classes."""
    matrix = [[1, -1, empty], [-1, empty, 1], [1, 1, 0]]
    told = r"dropped 2 cells without a label \(2 -1\); if -1 is a class, pass missing='' \(--set missing=\)"
    with pytest.warns(DataWarning, match=f"^matrix: {told}$"):
        assert Annotations.from_matrix(matrix).classes.tolist() == [0, 1]
    for options in ({"missing": ""}, {"classes": [-1, 0, 1]}):
        assert Annotations.from_matrix(matrix, **options).classes.tolist() == [-1, 0, 1]
    assert Annotations.from_matrix(matrix, missing=-1).classes.tolist() == [0, 1]


def test_minus_one_beside_other_negative_labels_is_told(tmp_path: Path) -> None:
    """On a scale from -2 to 2 it is a class."""
    (tmp_path / "scale.csv").write_text("task,a,b\nt1,-2,-1\nt2,2,0\nt3,-1,1\n")
    told = r"dropped 2 cells without a label \(2 -1\); if -1 is a class, pass missing='' \(--set missing=\)"
    with pytest.warns(DataWarning, match=told):
        found = read_annotations(tmp_path / "scale.csv", format="wide")
    assert found.classes.tolist() == [-2, 0, 1, 2]
    with pytest.warns(DataWarning, match=told):
        Annotations.from_matrix(np.array([[-2, -1], [2, 0], [-1, 1]]))
    kept = read_annotations(tmp_path / "scale.csv", format="wide", missing="")
    assert kept.classes.tolist() == [-2, -1, 0, 1, 2]


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_errors_of_excel_are_no_classes(tmp_path: Path, ending: str) -> None:
    errors = ["#REF!", "#DIV/0!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!", "#N/A", "#SPILL!", "#CALC!"]
    rows = [(k, "w", label) for k, label in enumerate(["yes", "no", *errors])]
    path = tmp_path / f"a.{ending}"
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_excel(path, index=False)
    with pytest.warns(DataWarning, match=r"dropped 9 rows without a label \(.*1 '#DIV/0!'.*--set missing="):
        assert read_annotations(path).classes.tolist() == ["no", "yes"]
    assert "#REF!" in read_annotations(path, missing="").classes.tolist()
