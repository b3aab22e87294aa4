"""``conal convert``: tables, Label Studio's tasks, and nothing half-written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conal.data.annotations import Annotations
from conal.io import import_file, read_annotations

if TYPE_CHECKING:
    from cli.conftest import Run

TOLOKA = """INPUT:text\tOUTPUT:kind\tGOLDEN:kind\tASSIGNMENT:task_id\tASSIGNMENT:worker_id\tASSIGNMENT:status
one <b>\tcat\t\tt1\tw1\tAPPROVED
one <b>\tdog\t\tt1\tw2\tREJECTED
two\tdog\tdog\tt2\tw1\tAPPROVED
two\tdog\tdog\tt2\tw2\tAPPROVED
"""
WANTED = Annotations.from_triples(["t1", "t2", "t2"], ["w1", "w1", "w2"], ["cat", "dog", "dog"])


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "assignments.tsv"
    path.write_text(TOLOKA)
    return path


@pytest.mark.parametrize(("to", "ending"), [("csv", "csv"), ("parquet", "parquet")])
def test_tables(conal: Run, export: Path, tmp_path: Path, to: str, ending: str) -> None:
    out = tmp_path / f"out.{ending}"
    result = conal("convert", export, "--to", to, "--out", out, "--json").json()
    assert (result["format"], result["n_annotations"], result["n_gold"]) == ("toloka", 3, 1)
    assert result["dropped"] == {"rejected by the requester": 1}
    assert read_annotations(out) == WANTED
    if ending == "csv":
        assert out.read_text() == "task,worker,label\nt1,w1,cat\nt2,w1,dog\nt2,w2,dog\n"


def test_label_studio_tasks(conal: Run, export: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("task,label,probability,proba_cat,proba_dog\nt1,cat,0.9,0.9,0.1\nt2,dog,0.75,0.25,0.75\n")
    out = tmp_path / "tasks.json"
    run = conal("convert", export, "--to", "label-studio", "--out", out, "--labels", labels)
    assert run.code == 0
    result = {"from_name": "kind", "to_name": "item", "type": "choices"}

    def of(label: str) -> list[Any]:
        return [result | {"value": {"choices": [label]}}]

    assert json.loads(out.read_text()) == [
        {
            "data": {"task": "t1", "text": "one <b>"},
            "annotations": [{"completed_by": {"email": "w1"}, "result": of("cat")}],
            "predictions": [{"model_version": "conal", "score": 0.9, "result": of("cat")}],
        },
        {
            "data": {"task": "t2", "text": "two"},
            "annotations": [
                {"completed_by": {"email": "w1"}, "result": of("dog")},
                {"completed_by": {"email": "w2"}, "result": of("dog")},
                {"ground_truth": True, "result": of("dog")},
            ],
            "predictions": [{"model_version": "conal", "score": 0.75, "result": of("dog")}],
        },
    ]
    back = import_file(out, task="task")
    assert back.annotations == WANTED
    assert back.true_labels == {"t2": "dog"}
    assert conal("convert", export, "--to", "label-studio", "--out", out, "--no-annotations", "--overwrite").code == 0
    assert json.loads(out.read_text()) == [
        {"data": {"task": "t1", "text": "one <b>"}},
        {"data": {"task": "t2", "text": "two"}},
    ]


def test_numbers_name_tasks_and_users(conal: Run, tmp_path: Path) -> None:
    table, out = tmp_path / "a.csv", tmp_path / "tasks.json"
    table.write_text("task,worker,label\n7,1,0\n7,2,1\n")
    assert conal("convert", table, "--to", "label-studio", "--out", out).code == 0
    (task,) = json.loads(out.read_text())
    assert (task["id"], [entry["completed_by"] for entry in task["annotations"]]) == (7, [1, 2])
    assert read_annotations(out).annotator_ids.tolist() == [1, 2]
    labels = tmp_path / "labels.csv"
    labels.write_text("task,label\n7,1\n")
    assert conal("convert", table, "--to", "label-studio", "--out", out, "--labels", labels, "--overwrite").code == 0
    (task,) = json.loads(out.read_text())
    assert task["predictions"][0]["score"] is None
    assert task["predictions"][0]["result"][0]["value"] == {"choices": ["1"]}


EXPORTED = Path(__file__).parents[1] / "io" / "exports" / "label_studio.json"
"""What Label Studio 1.23 exported: tasks 7 to 12, three controls that refer to "review"; 11 and 12 are unlabelled."""

ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sentiment": ("choices", {"good": {"choices": ["good"]}, "bad": {"choices": ["bad"]}}),
    "stars": ("rating", {"1": {"rating": 1}, "4": {"rating": 4}}),
    "topic": (
        "taxonomy",
        {"Other": {"taxonomy": [["Other"]]}, "Food / Fruit / Veg": {"taxonomy": [["Food", "Fruit / Veg"]]}},
    ),
}


@pytest.mark.parametrize("control", sorted(ANSWERS))
def test_predictions_for_the_tasks_of_a_label_studio_project(conal: Run, tmp_path: Path, control: str) -> None:
    kind, values = ANSWERS[control]
    first, second = values
    labels = tmp_path / "labels.csv"
    labels.write_text(f"task,label,probability\n7,{first},0.75\n12,{second},0.5\n")
    out = tmp_path / "predictions.json"
    options = ("--question", control, "--to", "label-studio", "--labels", labels, "--no-annotations")
    run = conal("convert", EXPORTED, *options, "--out", out)
    assert (run.code, run.err) == (0, "")
    assert "2 predictions for the project's own tasks" in run.out

    def of(label: str) -> list[Any]:
        return [{"from_name": control, "to_name": "review", "type": kind, "value": values[label]}]

    assert json.loads(out.read_text()) == [
        {"task": 7, "model_version": "conal", "score": 0.75, "result": of(first)},
        {"task": 12, "model_version": "conal", "score": 0.5, "result": of(second)},
    ]


def test_tasks_named_by_a_field_keep_their_numbers(conal: Run, tmp_path: Path) -> None:
    labels, out = tmp_path / "labels.csv", tmp_path / "p.json"
    labels.write_text("task,label\nreview 2,good\n")
    options = ("--question", "sentiment", "--task-column", "text", "--to", "label-studio", "--labels", labels)
    assert conal("convert", EXPORTED, *options, "--out", out).code == 0
    (prediction,) = json.loads(out.read_text())
    assert prediction["task"] == 9


def test_new_tasks_from_a_label_studio_export(conal: Run, tmp_path: Path) -> None:
    labels, out = tmp_path / "labels.csv", tmp_path / "t.json"
    labels.write_text("task,label,probability\n12,bad,0.5\n")
    options = ("--question", "sentiment", "--to", "label-studio", "--labels", labels, "--new-tasks")
    assert conal("convert", EXPORTED, *options, "--out", out).code == 0
    tasks = json.loads(out.read_text())
    exported = json.loads(EXPORTED.read_text())
    assert [task["data"] for task in tasks] == [task["data"] for task in exported]
    assert [len(task["annotations"]) for task in tasks] == [2, 2, 2, 2, 0, 0]
    for task, old in zip(tasks, exported, strict=True):
        for own, theirs in zip(task["annotations"], old["annotations"], strict=True):
            assert own["completed_by"] == theirs["completed_by"]
            assert own["result"] == [result for result in theirs["result"] if result["from_name"] == "sentiment"]
    result = {"from_name": "sentiment", "to_name": "review", "type": "choices", "value": {"choices": ["bad"]}}
    assert tasks[5]["predictions"] == [{"model_version": "conal", "score": 0.5, "result": [result]}]
    assert not any("predictions" in task for task in tasks[:5])


def test_predictions_need_the_export_that_names_the_object(conal: Run, tmp_path: Path) -> None:
    path, labels, out = tmp_path / "min.json", tmp_path / "labels.csv", tmp_path / "p.json"
    row = {"text": "x", "id": 7, "kind": "cat", "annotator": 1, "annotation_id": 1}
    path.write_text(json.dumps([row, row | {"annotator": 2, "kind": "dog"}]))
    labels.write_text("task,label\n7,cat\n")
    options = ("--to", "label-studio", "--labels", labels, "--out", out)
    assert "export the project as JSON, or write new tasks" in conal("convert", path, *options).refusal()
    assert not out.exists()
    assert conal("convert", path, *options, "--new-tasks").code == 0
    (task,) = json.loads(out.read_text())
    assert task["predictions"][0]["result"][0]["from_name"] == "kind"


def test_what_is_refused(conal: Run, export: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    before = sorted(tmp_path.iterdir())
    csv = ("--to", "csv", "--out", out)
    assert "--to csv writes .csv; choose" in conal("convert", export, "--to", "csv", "--out", "o.json").refusal()
    assert "need --to label-studio" in conal("convert", export, *csv, "--new-tasks").refusal()
    tasks = ("--to", "label-studio", "--labels", tmp_path / "o.json", "--out", tmp_path / "o.json")
    assert "is an input file" in conal("convert", export, *tasks).refusal()
    assert "no such file" in conal("convert", tmp_path / "nothing.json", *csv).refusal()
    run = conal("convert", export, "--to", "xml", "--out", out)
    assert run.code == 2
    assert sorted(tmp_path.iterdir()) == before
    out.write_text("mine")
    assert "exists already" in conal("convert", export, *csv).refusal()
    assert out.read_text() == "mine"
