"""``conal aggregate``: the same as the library, all tables or none, and no torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.json as pj
import pyarrow.parquet as pq
import pytest

from conal import aggregation
from conal.aggregation.base import Aggregator
from conal.aggregation.counts import vote_shares
from conal.cli.app import Terminated
from conal.data.annotations import Annotations
from conal.io import tables, write_table
from conal.parameters import Doc, parameters, parameters_of, whole
from helpers.files import names_in
from helpers.processes import conal_and_its_modules

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

Write = Callable[..., Path]

SOME = ("auto", "dawid-skene", "glad", "majority-vote")
"""Aggregators of every kind, seen from the command line: with a seed or not, with EM or not."""
HEADER = ("task", "worker", "label")
COLUMNS = ["task", "label", "probability", "proba_cat", "proba_dog", "proba_fish"]
SMALL = [
    ("a", "ann", "x"),
    ("a", "bob", "x"),
    ("a", "eve", "y"),
    ("b", "ann", "y"),
    ("b", "bob", "y"),
    ("c", "ann", "x"),
    ("c", "eve", "y"),
]
"""Votes: a is x by two to one, b is y, c is a tie, which goes to x."""


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pv.read_csv(path).to_pylist()
    return rows


def probas_of(table: Any, names: list[str]) -> Any:
    return np.column_stack([table[f"proba_{name}"].to_numpy() for name in names])


@pytest.fixture
def small(tmp_path: Path, write: Write) -> Path:
    """Seven labels that can be aggregated by hand."""
    folder = tmp_path / "in"
    folder.mkdir()
    return write(folder / "labels.csv", HEADER, SMALL)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty folder for results."""
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


@pytest.fixture
def refuse(conal: Run, small: Path, place: Path) -> Callable[..., str]:
    """``conal aggregate`` must be refused and must write nothing; returns the message."""

    def run(*options: object, labels: Path | None = None, out: Path | None = None) -> str:
        arguments = ("aggregate", labels or small, "--out", out or place / "l.csv", *options)
        before = {path: path.read_bytes() for path in place.iterdir() if path.is_file()}
        message: str = conal(*arguments).refusal()
        assert {path: path.read_bytes() for path in place.iterdir() if path.is_file()} == before
        return message

    return run


# -------------------------------------------------------------------- what is in the tables


def test_majority_vote_by_hand(conal: Run, small: Path, place: Path) -> None:
    options = ("--annotators", place / "a.csv", "--confusion", place / "c.csv", "--method", "majority-vote")
    run = conal("aggregate", small, "--out", place / "l.csv", *options)
    assert (run.code, run.err) == (0, "")
    third = 1 / 3
    assert rows_of(place / "l.csv") == [
        {"task": "a", "label": "x", "probability": 2 * third, "proba_x": 2 * third, "proba_y": third},
        {"task": "b", "label": "y", "probability": 1, "proba_x": 0, "proba_y": 1},
        {"task": "c", "label": "x", "probability": 0.5, "proba_x": 0.5, "proba_y": 0.5},
    ]
    names = ("worker", "num_examples_labeled", "annotator_quality", "agreement_with_consensus", "quality_basis")
    expected = [("ann", 3, 1.0, 1.0), ("bob", 2, 1.0, 1.0), ("eve", 2, 0.0, 0.0)]
    assert rows_of(place / "a.csv") == [dict(zip(names, (*row, "belief"), strict=True)) for row in expected]
    cells = [1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0.5, 0.5]  # eve labelled nothing that is y
    keys = [(worker, true, observed) for worker in ("ann", "bob", "eve") for true in "xy" for observed in "xy"]
    assert [tuple(row.values()) for row in rows_of(place / "c.csv")] == [
        (*key, cell) for key, cell in zip(keys, cells, strict=True)
    ]
    assert list(rows_of(place / "c.csv")[0]) == ["worker", "true", "observed", "probability"]
    assert names_in(place) == ["a.csv", "c.csv", "l.csv"]


@pytest.mark.filterwarnings("ignore:gold-majority-vote")
@pytest.mark.parametrize("method", SOME)
def test_tables_are_those_of_the_aggregator(conal: Run, shared_crowd: Crowd, tmp_path: Path, method: str) -> None:
    paths = [tmp_path / name for name in ("l.csv", "a.csv", "c.csv")]
    options = ("--annotators", paths[1], "--confusion", paths[2], "--method", method)
    result = conal("aggregate", shared_crowd.labels, "--out", paths[0], *options, "--json").json()
    crowd = Annotations.read(shared_crowd.labels)
    fitted = aggregation.make(method).fit(crowd)
    labels, annotators, confusion = (pv.read_csv(path) for path in paths)

    assert labels.column_names == COLUMNS
    assert labels["task"].to_pylist() == crowd.task_ids.tolist()
    assert labels["label"].to_pylist() == fitted.labels_.tolist()
    np.testing.assert_allclose(probas_of(labels, ["cat", "dog", "fish"]), fitted.probas_, rtol=1e-12)
    np.testing.assert_allclose(labels["probability"].to_numpy(), fitted.probas_.max(1), rtol=1e-12)

    assert annotators["worker"].to_pylist() == crowd.annotator_ids.tolist()
    assert annotators["num_examples_labeled"].to_pylist() == crowd.labels_per_annotator().tolist()
    np.testing.assert_allclose(annotators["annotator_quality"].to_numpy(), fitted.skills_, rtol=1e-12)
    inferred = dict(zip(fitted.task_ids_.tolist(), fitted.labels_.tolist(), strict=True))
    for row in annotators.to_pylist():
        own = [label == inferred[task] for task, worker, label in shared_crowd.rows if worker == row["worker"]]
        assert row["agreement_with_consensus"] == pytest.approx(sum(own) / len(own))

    np.testing.assert_allclose(confusion["probability"].to_numpy(), fitted.confusion_.ravel(), rtol=1e-12)
    assert confusion["observed"].to_pylist()[:3] == ["cat", "dog", "fish"]
    assert confusion["true"].to_pylist()[:4] == ["cat", "cat", "cat", "dog"]
    assert confusion["worker"].to_pylist()[:10] == ["w0"] * 9 + ["w1"]

    assert result["method"] == method
    assert result["converged"] == getattr(fitted, "converged_", None)
    assert result["n_iter"] == getattr(fitted, "n_iter_", None)


def test_dawid_skene_is_the_default(conal: Run, shared_crowd: Crowd, tmp_path: Path) -> None:
    assert conal("aggregate", shared_crowd.labels, "--out", tmp_path / "a.csv").code == 0
    named = ("--out", tmp_path / "b.csv", "--method", "dawid-skene")
    assert conal("aggregate", shared_crowd.labels, *named).code == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
def test_every_format_says_the_same(conal: Run, shared_crowd: Crowd, tmp_path: Path, ending: str) -> None:
    paths = {option: tmp_path / f"{option}.{ending}" for option in ("out", "annotators", "confusion")}
    options = [word for option, path in paths.items() for word in (f"--{option}", path)]
    assert conal("aggregate", shared_crowd.labels, *options).code == 0
    readers = {
        "csv": pv.read_csv,
        "tsv": lambda path: pv.read_csv(path, parse_options=pv.ParseOptions(delimiter="\t")),
        "parquet": pq.read_table,
        "jsonl": pj.read_json,
    }
    labels, annotators, confusion = (readers[ending](path) for path in paths.values())
    fitted = aggregation.DawidSkene().fit(Annotations.read(shared_crowd.labels))
    assert labels.column_names == COLUMNS
    np.testing.assert_allclose(probas_of(labels, ["cat", "dog", "fish"]), fitted.probas_, rtol=1e-12)
    np.testing.assert_allclose(annotators["annotator_quality"].to_numpy(), fitted.skills_, rtol=1e-12)
    assert confusion.num_rows == 6 * 3 * 3


def test_parameters_reach_the_aggregator(conal: Run, shared_crowd: Crowd, tmp_path: Path) -> None:
    settings = ("--set", "prior=0.5", "--set", "n_restarts=3", "--set", "seed=7")
    assert conal("aggregate", shared_crowd.labels, "--out", tmp_path / "l.parquet", *settings).code == 0
    fitted = aggregation.DawidSkene(prior=0.5, n_restarts=3, seed=7).fit(Annotations.read(shared_crowd.labels))
    np.testing.assert_array_equal(
        probas_of(pq.read_table(tmp_path / "l.parquet"), ["cat", "dog", "fish"]), fitted.probas_
    )


def test_ties_by_lot_are_in_the_table(conal: Run, tmp_path: Path, write: Write) -> None:
    labels = write(tmp_path / "t.csv", HEADER, [(k, *pair) for k in range(40) for pair in ("ax", "by")])
    options = ("--method", "majority-vote", "--set", "ties=random", "--set", "seed=5")
    assert conal("aggregate", labels, "--out", tmp_path / "l.csv", *options).code == 0
    fitted = aggregation.MajorityVote(ties="random", seed=5).fit(Annotations.read(labels))
    found = [row["label"] for row in rows_of(tmp_path / "l.csv")]
    assert found == fitted.labels_.tolist()
    assert {"x", "y"} == set(found)
    assert {row["probability"] for row in rows_of(tmp_path / "l.csv")} == {0.5}


def test_an_aggregator_without_verbose_does_not_get_it(
    conal: Run, small: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Plain(Aggregator):
        def _aggregate(self, crowd: Annotations, known: Any) -> Any:
            return vote_shares(crowd)

    monkeypatch.setattr(aggregation, "get", lambda name: Plain)
    monkeypatch.setattr(aggregation, "make", lambda name, **parameters: Plain(**parameters))
    assert conal("aggregate", small, "--out", place / "l.csv").code == 0
    assert [row["label"] for row in rows_of(place / "l.csv")] == ["x", "y", "x"]


# -------------------------------------------------------------------- labels of every kind


@pytest.mark.parametrize(
    ("names", "columns", "found"),
    [
        (("x", "y"), ["proba_x", "proba_y"], ["x", "y", "x"]),
        ((3, 10), ["proba_3", "proba_10"], [3, 10, 3]),
        ((0.5, 2), ["proba_0.5", "proba_2.0"], [0.5, 2.0, 0.5]),
        (("false", "true"), ["proba_false", "proba_true"], ["false", "true", "false"]),
        (("007", "7"), ["proba_007", "proba_7"], ["007", "7", "007"]),
    ],
)
def test_types_of_labels(
    conal: Run, tmp_path: Path, write: Write, names: Any, columns: list[str], found: list[Any]
) -> None:
    labels = write(tmp_path / "t.csv", HEADER, [(t, w, names["xy".index(label)]) for t, w, label in SMALL])
    result = conal("aggregate", labels, "--out", tmp_path / "l.parquet", "--method", "majority-vote", "--json").json()
    table = pq.read_table(tmp_path / "l.parquet")
    assert table.column_names[3:] == columns
    assert table["label"].to_pylist() == found
    assert list(result["counts"]) == [column.removeprefix("proba_") for column in columns]
    assert list(result["counts"].values()) == [2, 1]


def test_truth_values(conal: Run, tmp_path: Path) -> None:
    tasks, workers, names = (list(column) for column in zip(*SMALL, strict=True))
    truths = [name == "y" for name in names]
    write_table(pa.table({"task": tasks, "worker": workers, "label": truths}), tmp_path / "t.parquet")
    options = ("--method", "majority-vote", "--confusion", tmp_path / "c.parquet")
    assert conal("aggregate", tmp_path / "t.parquet", "--out", tmp_path / "l.parquet", *options).code == 0
    table = pq.read_table(tmp_path / "l.parquet")
    assert table["label"].to_pylist() == [False, True, False]
    assert table.column_names[3:] == ["proba_False", "proba_True"]
    assert pq.read_table(tmp_path / "c.parquet")["true"].to_pylist()[:3] == [False, False, True]


def test_classes_in_the_order_given_and_one_that_nobody_chose(conal: Run, small: Path, place: Path) -> None:
    options = ("--method", "majority-vote", "--classes", "z,y,x")
    result = conal("aggregate", small, "--out", place / "l.csv", *options, "--json").json()
    assert result["counts"] == {"z": 0, "y": 2, "x": 1}  # the tie now goes to y
    rows = rows_of(place / "l.csv")
    assert list(rows[0])[3:] == ["proba_z", "proba_y", "proba_x"]
    assert [row["label"] for row in rows] == ["x", "y", "y"]


def test_special_characters(conal: Run, tmp_path: Path, write: Write) -> None:
    names = {"x": '"a, ""b"""', "y": "'çÿ 漢'"}
    rows = [(f'"{task}, 1"', f'"{worker} ""é"""', names[label]) for task, worker, label in SMALL]
    labels = write(tmp_path / "t.csv", HEADER, rows)
    paths = [tmp_path / name for name in ("out ü.csv", "a'.csv", "c c.csv")]
    options = ("--method", "majority-vote", "--annotators", paths[1], "--confusion", paths[2])
    result = conal("aggregate", labels, "--out", paths[0], *options, "--json").json()
    assert result["counts"] == {"'çÿ 漢'": 2, 'a, "b"': 1}
    parse = pv.ParseOptions(newlines_in_values=True)
    table, annotators, confusion = (pv.read_csv(path, parse_options=parse) for path in paths)
    assert table["task"].to_pylist() == ["a, 1", "b, 1", "c, 1"]
    assert table["label"].to_pylist() == ['a, "b"', "'çÿ 漢'", "'çÿ 漢'"]
    assert table.column_names[3:] == ["proba_'çÿ 漢'", 'proba_a, "b"']
    assert annotators["worker"].to_pylist() == ['ann "é"', 'bob "é"', 'eve "é"']
    assert set(confusion["observed"].to_pylist()) == {'a, "b"', "'çÿ 漢'"}


def test_columns_by_name_format_and_duplicates(conal: Run, tmp_path: Path) -> None:
    lines = ["song\twho\tgenre", "s\tw\tpop", "s\tw\trock", "t\tw\trock", "t\tv\trock"]
    (tmp_path / "export.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "gold.csv").write_text("song,genre\nt,pop\n", encoding="utf-8")
    columns = ("--task-column", "song", "--worker-column", "who", "--label-column", "genre", "--set", "format=tsv")
    options = (*columns, "--method", "majority-vote", "--overwrite")
    run = conal("aggregate", tmp_path / "export.txt", "--out", tmp_path / "l.csv", *options)
    assert "1 rows repeat a (task, worker) pair" in run.err
    assert [(row["song"], row["label"]) for row in rows_of(tmp_path / "l.csv")] == [("s", "rock"), ("t", "rock")]
    more = ("--set", "on_duplicate=first", "--true-labels", tmp_path / "gold.csv")
    assert conal("aggregate", tmp_path / "export.txt", "--out", tmp_path / "l.csv", *options, *more).code == 0
    assert [row["label"] for row in rows_of(tmp_path / "l.csv")] == ["pop", "pop"]


def test_a_matrix_with_an_empty_row_and_a_silent_annotator(conal: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.array([[0, 0, 1, -1], [1, 1, -1, -1], [-1, -1, -1, -1]]))
    options = ("--annotators", tmp_path / "a.csv", "--confusion", tmp_path / "c.csv", "--method", "majority-vote")
    run = conal("aggregate", tmp_path / "m.npy", "--out", tmp_path / "l.csv", *options)
    assert run.code == 0
    message = f"{tmp_path / 'l.csv'}: the label of 1 tasks is empty, because nobody labelled them: 2"
    assert run.err == f"warning: {message}\n"
    rows = rows_of(tmp_path / "l.csv")
    found = [(row["task"], row["label"], row["probability"]) for row in rows]
    assert found == [(0, 0, 2 / 3), (1, 1, 1), (2, None, None)]
    assert (rows[2]["proba_0"], rows[2]["proba_1"]) == (0.5, 0.5)
    assert run.out.splitlines()[2] == "0 1, 1 1"
    silent = rows_of(tmp_path / "a.csv")[3]
    assert list(silent.values()) == [3, 0, None, None, ""]
    probabilities = pv.read_csv(tmp_path / "c.csv")["probability"]
    assert probabilities[12:].to_pylist() == [None] * 4
    assert probabilities[:12].null_count == 0


def test_a_worker_whose_labels_are_all_missing_is_silent(conal: Run, tmp_path: Path, write: Write) -> None:
    labels = write(tmp_path / "t.csv", HEADER, [*SMALL, ("a", "zoe", ""), ("d", "zoe", "NA")])
    options = ("--annotators", tmp_path / "a.csv")
    run = conal("aggregate", labels, "--out", tmp_path / "l.csv", *options)
    assert run.code == 0
    reading, writing = run.err.splitlines()
    assert reading == (
        f"warning: {labels}: dropped 2 rows without a label (1 'NA', 1 empty or NaN); 1 tasks have no label left: 'd'; "
        "if 'NA' is a class, pass --set missing="
    )
    assert writing.endswith("l.csv: the label of 1 tasks is empty, because nobody labelled them: 'd'")
    assert list(rows_of(tmp_path / "a.csv")[3].values()) == ["zoe", 0, None, None, ""]
    rows = rows_of(tmp_path / "l.csv")
    assert [row["task"] for row in rows] == ["a", "b", "c", "d"]
    assert (rows[3]["label"], rows[3]["probability"]) == ("", None)


def test_a_true_label_is_enough_for_a_task_without_labels(conal: Run, tmp_path: Path, write: Write) -> None:
    labels = write(tmp_path / "t.csv", HEADER, [*SMALL, ("d", "zoe", "")])
    gold = write(tmp_path / "gold.csv", ("task", "label"), [("d", SMALL[0][2])])
    run = conal("aggregate", labels, "--out", tmp_path / "l.csv", "--true-labels", gold)
    assert "nobody labelled" not in run.err
    assert rows_of(tmp_path / "l.csv")[3]["label"] == SMALL[0][2]


def test_words_that_are_classes(conal: Run, tmp_path: Path, write: Write) -> None:
    labels = write(tmp_path / "t.csv", HEADER, [("a", "v", "NA"), ("a", "w", "NA"), ("b", "v", "EU"), ("b", "w", "-")])
    run = conal("aggregate", labels, "--out", tmp_path / "l.csv", "--method", "majority-vote", "--set", "missing=")
    assert (run.code, run.err) == (0, "")
    assert rows_of(tmp_path / "l.csv")[0]["label"] == "NA"
    options = ("--method", "majority-vote", "--set", "missing=-, EU", "--overwrite")
    run = conal("aggregate", labels, "--out", tmp_path / "l.csv", *options)
    assert "dropped 2 rows without a label (1 '-', 1 'EU')" in run.err
    assert "if '-'" not in run.err  # it was said
    assert rows_of(tmp_path / "l.csv")[1]["label"] in ("", None)


@pytest.mark.parametrize("method", SOME)
def test_a_single_class(conal: Run, tmp_path: Path, write: Write, method: str) -> None:
    labels = write(tmp_path / "t.csv", HEADER, [(task, worker, "x") for task, worker, _ in SMALL])
    run = conal("aggregate", labels, "--out", tmp_path / "l.csv", "--method", method)
    assert (run.code, run.err) == (0, "")
    assert {(row["label"], row["probability"]) for row in rows_of(tmp_path / "l.csv")} == {("x", 1)}


# -------------------------------------------------------------------- true labels


def test_true_labels_by_hand(conal: Run, small: Path, place: Path, write: Write) -> None:
    gold = write(small.parent / "gold.csv", ("item", "truth"), [("c", "y"), ("a", "y")])
    options = ("--method", "majority-vote", "--true-labels", gold, "--annotators", place / "a.csv")
    result = conal("aggregate", small, "--out", place / "l.csv", *options, "--json").json()
    assert result["n_true_labels"] == 2
    assert [(row["label"], row["probability"]) for row in rows_of(place / "l.csv")] == [("y", 1), ("y", 1), ("y", 1)]
    assert [row["annotator_quality"] for row in rows_of(place / "a.csv")] == pytest.approx([1 / 3, 1 / 2, 1])


@pytest.mark.parametrize("method", SOME)
def test_true_labels_are_those_of_the_library(conal: Run, shared_crowd: Crowd, tmp_path: Path, method: str) -> None:
    known = {task: shared_crowd.z[task] for task in range(0, 90, 4)}
    gold = tmp_path / "gold.csv"
    gold.write_text("task,label\n" + "".join(f"{task},{label}\n" for task, label in known.items()), encoding="utf-8")
    options = ("--method", method, "--true-labels", gold)
    assert conal("aggregate", shared_crowd.labels, "--out", tmp_path / "l.csv", *options).code == 0
    fitted = aggregation.make(method).fit(Annotations.read(shared_crowd.labels), true_labels=known)
    table = pv.read_csv(tmp_path / "l.csv")
    np.testing.assert_allclose(probas_of(table, ["cat", "dog", "fish"]), fitted.probas_, rtol=1e-12)
    assert [table["label"][task].as_py() for task in known] == list(known.values())


def test_true_labels_of_other_tasks_are_counted(conal: Run, small: Path, place: Path, write: Write) -> None:
    gold = write(small.parent / "gold.csv", ("task", "label"), [("p", "zebra"), ("b", "x"), ("q", "x")])
    run = conal("aggregate", small, "--out", place / "l.csv", "--true-labels", gold, "--json")
    assert run.json()["n_true_labels"] == 1
    (line,) = run.err.splitlines()
    assert line.startswith(f"warning: {gold}: ignored 2 of 3 true labels, of tasks without annotations: 'p', 'q' (")
    assert rows_of(place / "l.csv")[1]["label"] == "x"


def test_numbers_in_the_gold_file_and_text_in_the_labels(conal: Run, tmp_path: Path, place: Path, write: Write) -> None:
    rows = [("7", "a", "0"), ("7", "b", "0"), ("12b", "a", "unsure"), ("8", "b", "1")]
    labels = write(tmp_path / "t.csv", HEADER, rows)
    gold = write(tmp_path / "gold.csv", ("task", "label"), [(7, 1), (8, 1)])
    options = ("--true-labels", gold, "--method", "majority-vote")
    run = conal("aggregate", labels, "--out", place / "l.parquet", *options)
    assert (run.code, run.err) == (0, "")
    assert pq.read_table(place / "l.parquet")["label"].to_pylist() == ["unsure", "1", "1"]


def test_text_in_the_gold_file_and_numbers_in_the_labels(conal: Run, tmp_path: Path, place: Path, write: Write) -> None:
    labels = write(tmp_path / "t.csv", HEADER, [(7, "a", 0), (7, "b", 0), (8, "b", 1)])
    gold = write(tmp_path / "gold.csv", ("task", "label"), [("7", "1"), ("x9", "?")])
    options = ("--true-labels", gold, "--method", "majority-vote", "--json")
    run = conal("aggregate", labels, "--out", place / "l.csv", *options)
    assert run.json()["n_true_labels"] == 1
    assert "ignored 1 of 2 true labels" in run.err
    assert rows_of(place / "l.csv")[0]["label"] == 1


def test_a_class_called_like_missing(conal: Run, tmp_path: Path, place: Path, write: Write) -> None:
    labels = write(tmp_path / "t.csv", HEADER, [("a", "v", "NA"), ("a", "w", "EU"), ("b", "v", "EU")])
    gold = write(tmp_path / "gold.csv", ("task", "label"), [("b", "NA")])
    options = ("--true-labels", gold, "--method", "majority-vote", "--classes", "EU,NA")
    assert conal("aggregate", labels, "--out", place / "l.parquet", *options).code == 0
    assert pq.read_table(place / "l.parquet")["label"].to_pylist() == ["EU", "NA"]


def test_true_labels_by_row_for_a_matrix(conal: Run, tmp_path: Path, place: Path) -> None:
    np.save(tmp_path / "m.npy", np.array([[0, 0], [1, 0], [1, 1]]))
    np.save(tmp_path / "z.npy", np.array([1, 1, 0]))
    options = ("--true-labels", tmp_path / "z.npy", "--method", "majority-vote")
    assert conal("aggregate", tmp_path / "m.npy", "--out", place / "l.csv", *options).code == 0
    assert [row["label"] for row in rows_of(place / "l.csv")] == [1, 1, 0]


# -------------------------------------------------------------------- what it says


def test_json_is_one_object_on_stdout(conal: Run, shared_crowd: Crowd, place: Path) -> None:
    run = conal("aggregate", shared_crowd.labels, "--out", place / "l.csv", "--annotators", place / "a.csv", "--json")
    result = run.json()
    assert run.err == ""
    fitted = aggregation.DawidSkene().fit(Annotations.read(shared_crowd.labels))
    labels = fitted.labels_.tolist()
    assert result.pop("seconds") >= 0
    assert result == {
        "out": str(place / "l.csv"),
        "annotators": str(place / "a.csv"),
        "confusion": None,
        "report": None,
        "method": "dawid-skene",
        "files": [],
        "why": None,
        "n_annotations": 270,
        "n_annotators": 6,
        "n_tasks": 90,
        "n_unlabelled": 0,
        "n_classes": 3,
        "converged": True,
        "n_iter": fitted.n_iter_,
        "counts": {name: labels.count(name) for name in ("cat", "dog", "fish")},
        "n_true_labels": 0,
        "n_refused": None,
        "saved": None,
    }


def test_summary(conal: Run, shared_crowd: Crowd, place: Path, write: Write) -> None:
    gold = write(place / "gold.csv", ("task", "label"), [(0, "cat")])
    options = ("--true-labels", gold, "--annotators", place / "a.csv", "--confusion", place / "c.csv")
    run = conal("aggregate", shared_crowd.labels, "--out", place / "l.csv", "--method", "dawid-skene", *options)
    first, second, third, *paths = run.out.splitlines()
    assert first == "dawid-skene: 270 labels by 6 annotators on 90 tasks, 3 classes"
    assert second.startswith("converged after ")
    assert second.endswith(" s; 1 known true labels")
    assert third.startswith("cat ")
    assert paths == [f"labels: {place / 'l.csv'}", f"annotators: {place / 'a.csv'}", f"confusion: {place / 'c.csv'}"]


def test_counting_votes_does_not_converge(conal: Run, small: Path, place: Path) -> None:
    run = conal("aggregate", small, "--out", place / "l.csv", "--method", "majority-vote")
    assert "converged" not in run.out
    assert run.out.splitlines()[2:] == ["x 2, y 1", f"labels: {place / 'l.csv'}"]


def test_work_that_has_not_converged_says_so(conal: Run, shared_crowd: Crowd, place: Path) -> None:
    settings = ("--set", "n_iter=1", "--set", "tol=0")
    run = conal("aggregate", shared_crowd.labels, "--out", place / "l.csv", *settings)
    assert run.code == 0
    assert "not converged after 1 iterations; " in run.out
    (line,) = run.err.splitlines()
    assert line.startswith("warning: DawidSkene has not converged after 1 iterations")


def test_quiet_says_nothing(conal: Run, shared_crowd: Crowd, place: Path) -> None:
    run = conal("aggregate", shared_crowd.labels, "--out", place / "l.csv", "--quiet")
    assert (run.code, run.out, run.err) == (0, "", "")
    assert names_in(place) == ["l.csv"]


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_the_bar_is_the_aggregators(
    conal: Run, small: Path, place: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    fit = aggregation.DawidSkene.fit

    def watched(self: Any, *arguments: Any, **more: Any) -> Any:
        seen.append(self.verbose)
        return fit(self, *arguments, **more)

    monkeypatch.setattr(aggregation.DawidSkene, "fit", watched)
    assert conal("aggregate", small, "--out", place / "l.csv", *options).code == 0
    assert seen == [not options]


# -------------------------------------------------------------------- all tables or none


def test_earlier_tables_are_replaced_only_when_asked(conal: Run, small: Path, place: Path) -> None:
    options = ("--annotators", place / "a.csv", "--confusion", place / "c.csv")
    for name in ("l.csv", "a.csv", "c.csv"):
        (place / name).write_text("old", encoding="utf-8")
        run = conal("aggregate", small, "--out", place / "l.csv", *options)
        assert f"{name}: exists already; choose another place, or pass --overwrite" in run.refusal()
        assert names_in(place) == [name]
        assert (place / name).read_text(encoding="utf-8") == "old"
        (place / name).unlink()
    for name in ("l.csv", "a.csv", "c.csv"):
        (place / name).write_text("old", encoding="utf-8")
    assert conal("aggregate", small, "--out", place / "l.csv", *options, "--overwrite").code == 0
    assert [pv.read_csv(place / name).num_rows for name in ("l.csv", "a.csv", "c.csv")] == [3, 3, 12]


@pytest.mark.parametrize("option", ["--annotators", "--confusion"])
def test_a_table_that_fails_takes_the_others_with_it(
    conal: Run, small: Path, place: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(table: Any, path: Path) -> None:
        raise OSError("disk is full")

    monkeypatch.setitem(tables._WRITERS, "parquet", failing)
    run = conal("aggregate", small, "--out", place / "l.csv", option, place / "x.parquet")
    assert (run.code, run.err) == (1, "error: disk is full\n")
    assert names_in(place) == []


def test_places_that_cannot_be_written(refuse: Callable[..., str], small: Path, place: Path) -> None:
    (place / "folder.csv").mkdir()
    (place / "file").write_text("", encoding="utf-8")
    for option in ("--annotators", "--confusion"):
        assert "unknown kind of table '.xlsx'" in refuse(option, place / "a.xlsx")
        assert "folder.csv: is a folder" in refuse(option, place / "folder.csv", "--overwrite")
        assert "is not a folder" in refuse(option, place / "file" / "a.csv")
        assert "is used for two tables" in refuse(option, place / ".." / place.name / "l.csv")
        assert "is an input file" in refuse(option, small, "--overwrite")
    assert "unknown kind of table '.gz'" in refuse(out=place / "l.csv.gz")
    assert "is an input file" in refuse(out=small)
    assert "is used for two tables" in refuse("--annotators", place / "a.csv", "--confusion", place / "a.csv")


def test_no_result_replaces_the_true_labels(refuse: Callable[..., str], small: Path, write: Write) -> None:
    gold = write(small.parent / "gold.csv", ("task", "label"), [("a", "y")])
    assert "gold.csv: is an input file" in refuse("--true-labels", gold, "--overwrite", out=gold)


def test_folders_are_made(conal: Run, small: Path, place: Path) -> None:
    options = ("--out", place / "new" / "l.csv", "--annotators", place / "other" / "a.csv")
    assert conal("aggregate", small, *options).code == 0
    assert names_in(place) == ["new", "other"]


# -------------------------------------------------------------------- bad input


def test_an_unknown_method_lists_them_all(refuse: Callable[..., str]) -> None:
    message = refuse("--method", "dawid")
    assert "there is no aggregator 'dawid'" in message
    assert f"Known: {', '.join(aggregation.names())}" in message


def test_an_unknown_parameter_lists_the_known_ones(refuse: Callable[..., str]) -> None:
    message = refuse("--method", "glad", "--set", "lam=1")
    assert "glad has no parameter 'lam'; it has " in message
    assert all(name in message for name in aggregation.get("glad").parameter_names())


@pytest.mark.parametrize("value", ["abc", "[1]", "null", '{"a": 1}', "-3", "NaN"])
def test_values_of_the_wrong_type_or_range(refuse: Callable[..., str], value: str) -> None:
    for name, declared in parameters_of(aggregation.get("common-confusion")).items():
        if not (value == "null" and declared.constraint.holds(None)):
            assert name in refuse("--method", "common-confusion", "--set", f"{name}={value}")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("n_iter=abc", "n_iter must be a whole number of at least 1, not 'abc'"),
        ("n_iter=1.5", "n_iter must be a whole number of at least 1, not 1.5"),
        ("n_iter=true", "n_iter must be a whole number of at least 1, not True"),
        ("n_iter=0", "n_iter must be a whole number of at least 1, not 0"),
        ("tol=small", "tol must be a finite number of at least 0, not 'small'"),
        ("tol=NaN", "tol must be a finite number of at least 0, not nan"),
        ("prior=-1", "prior must be a finite number of at least 0, not -1"),
        ("verbose=maybe", "verbose must be true or false, not 'maybe'"),
        ("prior", "--set 'prior': expected NAME=VALUE"),
    ],
)
def test_messages_about_parameters(refuse: Callable[..., str], setting: str, words: str) -> None:
    assert words in refuse("--set", setting)


def test_parameters_of_several_types_and_of_any(
    refuse: Callable[..., str], conal: Run, small: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @parameters
    class Choosy(aggregation.MajorityVote):
        groups: Annotated[int | None, whole(1), Doc("")] = None
        weights: Annotated[list[float] | None, Doc("")] = None

    monkeypatch.setattr(aggregation, "get", lambda name: Choosy)
    monkeypatch.setattr(aggregation, "make", lambda name, **parameters: Choosy(**parameters))
    assert "groups must be None or a whole number of at least 1, not 'many'" in refuse("--set", "groups=many")
    fine = ("--set", "groups=null", "--set", "weights=[1, 2]")
    assert conal("aggregate", small, "--out", place / "l.csv", *fine).code == 0


def test_seeds_out_of_range(refuse: Callable[..., str]) -> None:
    assert "seed must be" in refuse("--set", "seed=-1")


def test_label_files_that_cannot_be_read(refuse: Callable[..., str], tmp_path: Path, write: Write) -> None:
    assert "nowhere.csv: no such file" in refuse(labels=tmp_path / "nowhere.csv")
    assert "but no rows" in refuse(labels=write(tmp_path / "t.csv", HEADER, []))
    assert "--worker-column" in refuse(labels=write(tmp_path / "t.csv", ("task", "label"), [("a", "x")]))
    assert "every label is missing" in refuse(labels=write(tmp_path / "t.csv", HEADER, [("a", "w", "")]))
    assert "not among the 2 classes" in refuse("--classes", "x,z")
    assert "a name is empty" in refuse("--classes", "x,,y")
    twice = write(tmp_path / "t.csv", HEADER, [*SMALL, SMALL[0]])
    assert "1 rows repeat" in refuse("--set", "on_duplicate=error", labels=twice)
    assert "'excel'" in refuse("--set", "format=excel")


def test_true_labels_that_cannot_be_used(refuse: Callable[..., str], tmp_path: Path, write: Write) -> None:
    def gold(header: tuple[str, ...], *rows: tuple[str, ...]) -> str:
        return refuse("--true-labels", write(tmp_path / "gold.csv", header, rows))

    assert "nowhere.csv: no such file" in refuse("--true-labels", tmp_path / "nowhere.csv")
    message = gold(("task", "label"), ("a", "zebra"), ("b", "zebra"))
    assert "gold.csv: true labels 'zebra' are not among the classes 'x', 'y'" in message
    assert "--classes" in message
    assert "gold.csv: 2 true labels without task ids; add a column 'task'" in gold(("label",), ("x",), ("y",))
    assert "which column has the true labels?" in gold(("task", "colour", "size"), ("a", "x", "y"))
    assert "true labels 'red' are not among the classes" in gold(("task", "colour"), ("a", "red"))
    assert "2 true labels are missing, the first in row 1" in gold(("task", "label"), ("a", ""), ("b", ""))
    message = gold(("task", "label"), ("a", "x"), ("b", "x"), ("a", "y"))
    assert "1 tasks have several labels, such as 'a' ('x', 'y')" in message
    np.save(tmp_path / "z.npy", np.array(["x", "y", "y"]))
    assert "3 true labels without task ids" in refuse("--true-labels", tmp_path / "z.npy")


def test_out_is_needed(conal: Run, small: Path) -> None:
    run = conal("aggregate", small)
    assert run.code == 2
    assert "'--out'" in run.err
    assert run.err.endswith("; see conal aggregate --help\n")


# -------------------------------------------------------------------- the process


def test_torch_is_not_imported(small: Path, place: Path, write: Write) -> None:
    gold = write(small.parent / "gold.csv", ("task", "label"), [("c", "y")])
    places = ("--out", place / "l.csv", "--annotators", place / "a.parquet", "--confusion", place / "c.jsonl")
    arguments = ["aggregate", small, *places, "--true-labels", gold, "--json"]
    printed, loaded = conal_and_its_modules(*arguments)
    assert json.loads(printed)["n_tasks"] == 3
    assert {"conal", "scipy", "pyarrow"} <= loaded
    assert loaded.isdisjoint({"torch", "lightning_fabric", "sklearn", "polars"})


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt, 130), (Terminated, 143)])
def test_an_interruption_that_python_wraps_is_one(
    conal: Run, small: Path, place: Path, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException], code: int
) -> None:
    """As when Ctrl-C comes while an import makes a class: "RuntimeError: Error calling __set_name__"."""

    def interrupt(*_: object, **__: object) -> None:
        raise RuntimeError("Error calling __set_name__") from raised()

    monkeypatch.setattr(aggregation.DawidSkene, "fit", interrupt)
    run = conal("aggregate", small, "--out", place / "l.csv")
    assert run.code == code
    assert "Traceback" not in run.err


@pytest.mark.parametrize("moment", ["fit", "write"])
def test_interrupted_it_leaves_nothing(
    conal: Run, small: Path, place: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    if moment == "fit":
        monkeypatch.setattr(aggregation.DawidSkene, "fit", interrupt)
    else:
        monkeypatch.setitem(tables._WRITERS, "parquet", interrupt)
    run = conal("aggregate", small, "--out", place / "l.csv", "--annotators", place / "a.parquet")
    assert (run.code, run.out) == (130, "")
    assert names_in(place) == []


def test_the_report_of_labels_alone(crowd: Crowd, conal: Run, tmp_path: Path) -> None:
    out, folder = tmp_path / "clean.csv", tmp_path / "new" / "report"
    found = conal("aggregate", crowd.labels, "--out", out, "--report", folder, "--json").json()
    assert found["report"] == str(folder / "report.html")
    files = ["annotators.csv", "common_confusion.csv", "labels.csv", "report.html", "report.json", "suggestions.csv"]
    assert names_in(folder) == files
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "conal report · dawid-skene" in page
    assert 'id="disagreement"' not in page
    assert "model" not in json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [row["label"] for row in rows_of(folder / "labels.csv")] == [row["label"] for row in rows_of(out)]
    again = conal("aggregate", crowd.labels, "--out", tmp_path / "other.csv", "--report", folder)
    assert again.code == 2
    assert "exists already" in again.err
    assert not (tmp_path / "other.csv").exists()
    assert conal("aggregate", crowd.labels, "--out", out, "--report", folder, "--overwrite").code == 0
    assert names_in(folder) == files


@pytest.mark.parametrize("name", ["annotators.csv", "report.json"])
def test_a_report_does_not_replace_files_of_a_folder_that_is_no_report(
    small: Path, conal: Run, tmp_path: Path, name: str
) -> None:
    mine = tmp_path / "study" / name
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    run = conal("aggregate", small, "--out", tmp_path / "clean.csv", "--report", mine.parent, "--overwrite")
    assert f"{mine}: was not written by conal, since {mine.parent} has no report" in run.refusal()
    assert names_in(mine.parent) == [name]
    assert mine.read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "clean.csv").exists()


def test_a_report_does_not_go_into_a_model_folder(small: Path, conal: Run, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}", encoding="utf-8")
    failed = conal("aggregate", small, "--out", tmp_path / "clean.csv", "--report", model, "--overwrite")
    assert failed.code == 2
    assert "is a model folder" in failed.err
    assert names_in(model) == ["config.json"]
    assert not (tmp_path / "clean.csv").exists()


@pytest.mark.parametrize(("n", "told"), [(30, True), (5, False)])
def test_ids_of_labels_that_are_taken_for_those_of_tasks(conal: Run, tmp_path: Path, n: int, told: bool) -> None:
    path = tmp_path / "export.csv"
    rows = [f"{k},{k // 3},{'abc'[k % 3]},{'xy'[k % 2]}" for k in range(n)]
    path.write_text("\n".join(["id,picture,worker,label", *rows]) + "\n")
    run = conal("aggregate", path, "--out", tmp_path / "clean.csv")
    assert run.code == 0
    assert ("no task has two labels, so that annotators cannot be compared" in run.err) == told
    run = conal("aggregate", path, "--out", tmp_path / "other.csv", "--task-column", "picture")
    assert "no task has two labels" not in run.err


def test_what_takes_long_to_load_is_not_loaded_for_a_small_file(crowd: Crowd, tmp_path: Path) -> None:
    command = ("aggregate", crowd.labels, "--out", tmp_path / "out.csv", "--quiet")
    slow = {
        "scipy.sparse",
        "scipy.special",
        "scipy.optimize",
        "narwhals",
        "numba",
        "conal.metrics",
        "conal.report.evidence",
    }
    assert conal_and_its_modules(*command)[1].isdisjoint({*slow, "scipy.stats"})
    loaded = conal_and_its_modules(*command, "--overwrite", "--report", tmp_path / "page")[1]
    assert "scipy.special" in loaded
    assert "scipy.stats" not in loaded


@pytest.mark.parametrize("measured", [False, True])
def test_the_table_of_annotators_has_the_figures_of_the_report(
    conal: Run, shared_crowd: Crowd, write: Write, tmp_path: Path, measured: bool
) -> None:
    """Two estimates of the same share differed by as much as fourteen points."""
    truth = write(tmp_path / "truth.csv", ("task", "label"), list(enumerate(shared_crowd.z))[:30])
    known = ("--true-labels", truth) if measured else ()
    options = ("--annotators", tmp_path / "a.csv", "--report", tmp_path / "r", *known)
    assert conal("aggregate", shared_crowd.labels, "--out", tmp_path / "l.csv", *options).code == 0
    alone, inside = (pv.read_csv(path) for path in (tmp_path / "a.csv", tmp_path / "r" / "annotators.csv"))
    for name in ("worker", "annotator_quality", "quality_basis"):
        assert alone[name].to_pylist() == inside[name].to_pylist()
