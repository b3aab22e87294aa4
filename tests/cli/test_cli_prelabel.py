"""Pre-labelling: from an export to predictions that the platform imports, and work lists likewise."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import conal as package
from conal.io import import_file
from helpers.files import write_csv, write_json, write_json_lines

if TYPE_CHECKING:
    from cli.conftest import Run

CLASSES = ("cat", "dog", "fish")
WORDS = ("purr meow whiskers mouse", "bark fetch leash bone", "swim scales fin water")
N = 60
Task = dict[str, Any]


@dataclass(frozen=True)
class Project:
    """A half-labelled project of Label Studio, a text model of it, and a model of features of its tasks."""

    export: Path
    model: Path
    features: Path
    feature_model: Path
    tasks: list[Task]
    texts: list[str]

    @property
    def unlabelled(self) -> list[int]:
        return [task["id"] for task in self.tasks if not task["annotations"]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Task numbers start at 101; every third task has no label."""
    folder = tmp_path_factory.mktemp("project")
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=N)
    texts = [" ".join(rng.choice(WORDS[k].split(), size=4)) for k in truth]
    tasks: list[Task] = []
    for k, text in enumerate(texts):
        labels = [CLASSES[truth[k] if rng.random() < 0.8 else rng.integers(3)] for _ in range(3 if k % 3 else 0)]
        given = [{"completed_by": user, "result": result(label)} for user, label in enumerate(labels, 1)]
        tasks.append({"id": 101 + k, "data": {"text": text, "talk": [{"by": "ann"}]}, "annotations": given})
    export = write_json(folder / "export.json", *tasks)
    x = rng.normal(size=(N, 4))
    x[np.arange(N), truth] += 4
    rows = [(101 + k, *row) for k, row in enumerate(x.tolist())]
    features = write_csv(folder / "features.csv", ("task", "a", "b", "c", "d"), reversed(rows))
    crowd, ids = import_file(export).annotations, [task["id"] for task in tasks]
    for name, instances in (("text", texts), ("numbers", x)):
        classifier = package.CrossCoNAL(epochs=10, verbose=False).fit(instances, crowd, task_ids=ids)
        classifier.save(folder / name)
    return Project(export, folder / "text", features, folder / "numbers", tasks, texts)


def result(label: str) -> list[dict[str, Any]]:
    return [{"from_name": "kind", "to_name": "words", "type": "choices", "value": {"choices": [label]}}]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_of_all_tasks_of_an_export(conal: Run, project: Project, tmp_path: Path) -> None:
    done = conal("predict", project.model, project.export, "--out", tmp_path / "p.csv")
    assert (done.code, done.err) == (0, "")
    rows = table(tmp_path / "p.csv")
    assert [int(row["task"]) for row in rows] == [task["id"] for task in project.tasks]
    probas = package.load(project.model).predict_proba(project.texts)
    written = np.array([[float(row[f"proba_{name}"]) for name in CLASSES] for row in rows])
    np.testing.assert_allclose(written, probas, rtol=1e-12)


def test_predictions_of_the_unlabelled_rest_for_label_studio(conal: Run, project: Project, tmp_path: Path) -> None:
    options = ("--unlabelled", "--to", "label-studio", "--out", tmp_path / "p.json")
    done = conal("predict", project.model, project.export, *options)
    assert (done.code, done.err) == (0, "")
    assert "20 predictions for the project's own tasks; send them to its import/predictions" in done.out
    predictions = json.loads((tmp_path / "p.json").read_text())
    assert [entry["task"] for entry in predictions] == project.unlabelled
    texts = [task["data"]["text"] for task in project.tasks if not task["annotations"]]
    probas = package.load(project.model).predict_proba(texts)
    for entry, row in zip(predictions, probas, strict=True):
        assert entry["result"] == result(CLASSES[row.argmax()])
        assert entry["score"] == pytest.approx(row.max(), rel=1e-12)
        assert entry["model_version"] == "conal"


def test_features_of_the_tasks_by_id(conal: Run, project: Project, tmp_path: Path) -> None:
    options = ("--features", project.features, "--unlabelled")
    predict = ("predict", project.feature_model, project.export)
    assert conal(*predict, *options, "--out", tmp_path / "p.csv").code == 0
    assert conal("predict", project.feature_model, project.features, "--out", tmp_path / "all.csv").code == 0
    rows, everything = table(tmp_path / "p.csv"), table(tmp_path / "all.csv")
    assert [int(row["task"]) for row in rows] == project.unlabelled
    by_task = {row["task"]: row for row in everything}
    for row in rows:
        assert row["label"] == by_task[row["task"]]["label"]
        assert float(row["probability"]) == pytest.approx(float(by_task[row["task"]]["probability"]), abs=1e-6)
    assert conal(*predict, *options, "--to", "label-studio", "--out", tmp_path / "p.json").code == 0
    predictions = json.loads((tmp_path / "p.json").read_text())
    assert [(entry["task"], entry["result"]) for entry in predictions] == [
        (int(row["task"]), result(row["label"])) for row in rows
    ]


def test_tasks_without_features_stop_or_are_left_out(conal: Run, project: Project, tmp_path: Path) -> None:
    lines = project.features.read_text().splitlines(keepends=True)
    (tmp_path / "some.csv").write_text("".join(lines[:-2]))
    options = ("--features", tmp_path / "some.csv", "--out", tmp_path / "p.csv")
    predict = ("predict", project.feature_model, project.export, *options)
    assert "2 tasks have no features: 102, 101" in conal(*predict).refusal()
    assert conal(*predict, "--set", "allow_missing=true").code == 0
    assert len(table(tmp_path / "p.csv")) == N - 2


def test_texts_apart_from_the_tasks(conal: Run, project: Project, tmp_path: Path) -> None:
    labels = write_csv(tmp_path / "l.csv", ("task", "worker", "label"), [("a", "w", "cat"), ("b", "w", "dog")])
    texts = write_csv(tmp_path / "t.csv", ("task", "text"), [("c", "fin"), ("b", "bark bone"), ("a", "meow purr")])
    with_texts = ("predict", project.model, labels, "--text", texts, "--out", tmp_path / "p.csv")
    done = conal(*with_texts)
    assert done.code == 0
    assert "1 feature rows match no task: 'c'" in done.err
    assert [(row["task"], row["label"]) for row in table(tmp_path / "p.csv")] == [("a", "cat"), ("b", "dog")]


def test_a_project_that_nobody_has_labelled(conal: Run, project: Project, tmp_path: Path) -> None:
    export = write_json(tmp_path / "new.json", *(task | {"annotations": []} for task in project.tasks))
    predict = ("predict", project.model, export)
    assert conal(*predict, "--out", tmp_path / "p.csv").code == 0
    assert len(table(tmp_path / "p.csv")) == N
    out = ("--to", "label-studio", "--out", tmp_path / "p.json")
    assert "nobody has labelled a task of this project" in conal(*predict, *out).refusal()
    assert conal(*predict, *out, "--new-tasks").code == 0
    tasks = json.loads((tmp_path / "p.json").read_text())
    assert [task["data"] for task in tasks] == [task["data"] for task in project.tasks]
    assert {len(task["predictions"]) for task in tasks} == {1}


def test_other_tasks_become_new_tasks_of_label_studio(conal: Run, project: Project, tmp_path: Path) -> None:
    texts = write_csv(tmp_path / "t.csv", ("id", "body"), [("a", "meow purr"), ("b", "fin scales swim")])
    out = ("--to", "label-studio", "--out", tmp_path / "p.json")
    assert conal("predict", project.model, texts, *out).code == 0
    first, second = json.loads((tmp_path / "p.json").read_text())
    assert first["data"] == {"task": "a", "text": "meow purr"}
    (prediction,) = second["predictions"]
    assert prediction["result"] == [
        {"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": ["fish"]}}
    ]


def exports(folder: Path) -> Iterator[tuple[str, Path]]:
    """The texts of two tasks, in exports of platforms as ``conal fit`` reads them."""
    texts = ["meow purr", "fin swim scales"]
    rows = [(f"t{k}", "w", "cat", text) for k, text in enumerate(texts)]
    own = ("HITId", "WorkerId", "Answer.kind.label", "Input.text")
    yield "mturk", write_csv(folder / "batch.csv", own, rows)
    own = ("ASSIGNMENT:task_id", "ASSIGNMENT:worker_id", "OUTPUT:kind", "INPUT:text")
    yield "toloka", write_csv(folder / "assignments.tsv", own, rows)
    lines = [
        {"text": text, "_input_hash": k, "answer": "accept", "accept": ["cat"], "_annotator_id": "w"}
        for k, text in enumerate(texts)
    ]
    yield "prodigy", write_json_lines(folder / "prodigy.jsonl", *lines)
    minimal = [
        {"text": text, "id": k, "kind": "cat", "annotator": 1, "annotation_id": k} for k, text in enumerate(texts)
    ]
    yield "label-studio-min", write_json(folder / "min.json", *minimal)


def test_exports_of_other_platforms(conal: Run, project: Project, tmp_path: Path) -> None:
    for name, path in exports(tmp_path):
        out = tmp_path / f"{name}.csv"
        done = conal("predict", project.model, path, "--out", out)
        assert done.code == 0, (name, done.err)
        assert [row["label"] for row in table(out)] == ["cat", "fish"], name


def test_what_is_refused(conal: Run, project: Project, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    out = ("--out", tmp_path / "p.csv")
    with_text = ("predict", project.model, project.export)
    with_features = ("predict", project.feature_model)
    assert "pass those of the tasks with --features" in conal(*with_features, project.export, *out).refusal()
    assert "trained on texts" in conal(*with_text, "--features", project.features, *out).refusal()
    assert "trained on features" in conal(*with_features, project.export, "--text", project.export, *out).refusal()
    assert "is a table" in conal(*with_features, project.features, "--unlabelled", *out).refusal()
    assert "applies to exports" in conal(*with_features, project.features, "--question", "kind", *out).refusal()
    assert "--new-tasks needs --to" in conal(*with_text, "--new-tasks", *out).refusal()
    assert "--to label-studio writes .json" in conal(*with_text, "--to", "label-studio", *out).refusal()
    json_out = ("--to", "label-studio", "--out", tmp_path / "p.json")
    assert "needs the tasks; pass the export" in conal(*with_features, project.features, *json_out).refusal()
    assert "is an input file" in conal(*with_text, "--to", "label-studio", "--out", project.export).refusal()
    assert sorted(tmp_path.iterdir()) == before


def test_a_question_that_the_model_does_not_answer(conal: Run, project: Project, tmp_path: Path) -> None:
    mood = [{"from_name": "mood", "to_name": "words", "type": "choices", "value": {"choices": ["happy"]}}]
    tasks = [task | {"annotations": [{"completed_by": 1, "result": mood}]} for task in project.tasks]
    export = write_json(tmp_path / "mood.json", *tasks)
    refusal = conal("predict", project.model, export, "--to", "label-studio", "--out", tmp_path / "p.json").refusal()
    assert "the labels of 'mood' are 'happy'; choose the question that the model was trained on" in refusal


def test_every_task_has_a_label(conal: Run, project: Project, tmp_path: Path) -> None:
    export = write_json(tmp_path / "e.json", *(task for task in project.tasks if task["annotations"]))
    refusal = conal("predict", project.model, export, "--unlabelled", "--out", tmp_path / "p.csv").refusal()
    assert "every task has a label; remove --unlabelled" in refusal


def work_list(project: Project, folder: Path) -> Path:
    rows = [(104, 2, 0.3, "dog", 0.4), (103, 1, 0.1, "cat", 0.7)]
    return write_csv(folder / "suggestions.csv", ("task", "worker", "expected_gain", "label", "probability"), rows)


def test_a_work_list_for_label_studio(conal: Run, project: Project, tmp_path: Path) -> None:
    labels, out = work_list(project, tmp_path), tmp_path / "work.json"
    convert = ("convert", project.export, "--to", "label-studio", "--labels", labels, "--out", out)
    assert conal(*convert).code == 0
    assert json.loads(out.read_text()) == [
        {"task": 104, "model_version": "conal: ask 2", "score": 0.4, "result": result("dog")},
        {"task": 103, "model_version": "conal: ask 1", "score": 0.7, "result": result("cat")},
    ]
    assert conal(*convert, "--new-tasks", "--no-annotations", "--overwrite").code == 0
    tasks = json.loads(out.read_text())
    assert [task["data"] for task in tasks] == [project.tasks[3]["data"], project.tasks[2]["data"]]


def test_the_work_list_of_a_model(conal: Run, project: Project, tmp_path: Path) -> None:
    """The table that ``conal fit`` writes is read as it is."""
    labels, out = project.model / "suggestions.csv", tmp_path / "work.json"
    rows = table(labels)
    options = ("--to", "label-studio", "--labels", labels, "--out", out)
    assert rows
    assert conal("convert", project.export, *options).code == 0
    assert [entry["task"] for entry in json.loads(out.read_text())] == [int(row["task"]) for row in rows]


def test_an_empty_work_list(conal: Run, project: Project, tmp_path: Path) -> None:
    labels, out = tmp_path / "suggestions.csv", tmp_path / "work.json"
    labels.write_text("task,worker,expected_gain,label,probability\n")
    convert = ("convert", project.export, "--to", "label-studio", "--labels", labels, "--out", out)
    done = conal(*convert)
    assert (done.code, done.err) == (0, "")
    assert "0 predictions" in done.out
    assert json.loads(out.read_text()) == []
