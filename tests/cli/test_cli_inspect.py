"""``conal inspect`` and exports in ``conal aggregate``: what is shown, and what is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

Write = Callable[..., Path]


def choice(label: str, control: str = "kind") -> dict[str, Any]:
    return {"from_name": control, "to_name": "text", "type": "choices", "value": {"choices": [label]}}


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Four tasks by three annotators in Label Studio's JSON, one skipped, one true label."""
    votes = {1: "xxy", 2: "yyy", 3: "xyx", 4: "yx"}
    tasks = []
    for task, labels in votes.items():
        given = [{"completed_by": {"email": f"a{k}@x"}, "result": [choice(y)]} for k, y in enumerate(labels)]
        tasks.append({"id": task, "data": {"text": f"<b>{task}</b>"}, "annotations": given})
    tasks[0]["annotations"].append({"completed_by": 9, "result": [choice("x")], "ground_truth": True})  # type: ignore[attr-defined]
    tasks[3]["annotations"].append({"completed_by": 9, "result": [], "was_cancelled": True})  # type: ignore[attr-defined]
    path = tmp_path / "project.json"
    path.write_text(json.dumps(tasks))
    return path


def test_text(conal: Run, export: Path) -> None:
    run = conal("inspect", export)
    assert (run.code, run.err) == (0, "")
    lines = run.out.splitlines()
    assert lines[0] == f"{export}: Label Studio JSON (label-studio), question kind"
    assert lines[1] == "11 labels by 3 annotators on 4 tasks, 2 classes"
    assert "labels per task:      2 to 3, median 3, mean 2.75" in lines
    assert "true labels: 1 tasks; 66.7 % of the labels of these tasks are right" in lines
    assert "task data: text" in lines
    assert "  y  6 (54.5 %)" in lines
    assert "  left out: 1 skipped by the annotator" in lines
    assert any(line.startswith("Krippendorff's alpha: ") for line in lines)
    assert all(lines[k + 1].startswith("    -> ") for k, line in enumerate(lines) if line.startswith("  left out"))


def test_json(conal: Run, export: Path) -> None:
    facts = conal("inspect", export, "--json").json()
    assert (facts["format"], facts["n_annotations"], facts["classes"]) == ("label-studio", 11, {"x": 5, "y": 6})
    assert facts["dropped"] == {"skipped by the annotator": 1}
    assert set(facts["agreement"]["fleiss_kappa"]) == {"value", "low", "high"}


def test_a_plain_table(conal: Run, crowd: Crowd) -> None:
    run = conal("inspect", crowd.labels)
    assert run.code == 0
    assert f"{crowd.labels}: a table with one annotation per row (csv)" in run.out
    assert f"{len(crowd.rows):,} labels by 6 annotators on 90 tasks, 3 classes" in run.out


def test_a_long_label_is_cut(conal: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"task,worker,label\nt,a,{'x' * 10_000}\nt,b,y\n")
    run = conal("inspect", path)
    assert run.code == 0
    assert max(map(len, run.out.splitlines())) < 250
    assert "(10,000 characters)" in run.out


@pytest.mark.parametrize("column", ["task", "worker", "label"])
def test_a_name_of_many_combining_marks_takes_no_time(conal: Run, tmp_path: Path, column: str) -> None:
    """Python normalises Unicode in one step that nothing interrupts, whose time goes with the square of the marks."""
    path, name = tmp_path / "a.csv", "a" + "\u0301\u0316" * 100_000
    row = {"task": "t", "worker": "a", "label": "x"} | {column: name}
    path.write_text(f"task,worker,label\n{','.join(row.values())}\nt,b,y\nu,b,y\n", encoding="utf-8")
    before = time.process_time()
    assert conal("inspect", path).code == 0
    assert time.process_time() - before < 5


def test_aggregate_takes_exports(conal: Run, export: Path, tmp_path: Path) -> None:
    run = conal("aggregate", export, "--method", "majority-vote", "--out", tmp_path / "labels.csv", "--quiet")
    assert run.code == 0
    assert run.err == f"warning: {export} (Label Studio JSON): left out 1 skipped by the annotator\n"
    rows = (tmp_path / "labels.csv").read_text().splitlines()
    assert [row.split(",")[:2] for row in rows[1:4]] == [["1", "x"], ["2", "y"], ["3", "x"]]


@pytest.mark.parametrize("command", ["inspect", "aggregate", "convert"])
def test_what_is_refused(conal: Run, export: Path, tmp_path: Path, command: str) -> None:
    rest = {
        "inspect": (),
        "aggregate": ("--out", tmp_path / "o.csv"),
        "convert": ("--out", tmp_path / "o.csv", "--to", "csv"),
    }
    for options, message in (
        (("--set", "format=prodigy"), "is not Prodigy JSONL: expected lines with '_input_hash'"),
        (("--set", "format=prodgy"), "there is no format 'prodgy'; did you mean 'prodigy'?"),
        (("--question", "mood"), "there is no control 'mood'; it has 'kind'"),
        (("--worker-column", "w"), "--worker-column does not apply to Label Studio JSON"),
    ):
        assert message in conal(command, export, *rest[command], *options).refusal()
    export.write_text(export.read_text()[:-40])
    assert "is not complete JSON" in conal(command, export, *rest[command], "--set", "format=label-studio").refusal()
    assert not (tmp_path / "o.csv").exists()


def test_options_of_exports_have_no_meaning_for_plain_tables(conal: Run, crowd: Crowd) -> None:
    table = "does not apply to a table with one annotation per row; it takes --task-column, --worker-column, "
    assert f"--question {table}" in conal("inspect", crowd.labels, "--question", "x").refusal()
    assert f"--set keep_rejected {table}" in conal("inspect", crowd.labels, "--set", "keep_rejected=true").refusal()


def test_fit_takes_exports_and_folders(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    folder = tmp_path / "doccano"
    folder.mkdir()
    for worker in sorted({row[1] for row in crowd.rows}):
        docs = ({"id": task, "text": "t", "label": [label]} for task, who, label in crowd.rows if who == worker)
        (folder / f"{worker}.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    options = ("--features", crowd.features, "--out", tmp_path / "m", "--method", "dl-mv", "--epochs", 2, "--json")
    assert conal("fit", folder, *options).json()["n_annotations"] == len(crowd.rows)


def test_an_unknown_format_is_told_the_known_ones(conal: Run, crowd: Crowd) -> None:
    assert "Known: argilla, doccano" in conal("inspect", crowd.labels, "--set", "format=word").refusal()


def test_blanks_around_a_class_are_visible(conal: Run, tmp_path: Path, write: Write) -> None:
    rows = [(0, "ann", "cat"), (0, "bob", "cat "), (1, "ann", "dog"), (1, "bob", "dog")]
    labels = write(tmp_path / "labels.csv", ("task", "worker", "label"), rows)
    assert "\n  'cat '  1 (25.0 %)\n" in conal("inspect", labels).out
    assert "'cat ' " in conal("aggregate", labels, "--out", tmp_path / "clean.csv").out


def test_a_file_that_commands_refuse(conal: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("task,worker,label\nt,a,x\nt,b,y\nu,a\nu,A,x\nt,a,x\n", encoding="utf-8")
    run = conal("inspect", path)
    assert (run.code, run.err) == (2, "")
    lines = run.out.splitlines()
    assert f"  {path}: rows with more or fewer cells than the header: 1 (line 4)" in lines
    assert lines[0] == f"{path}: a table with one annotation per row (csv)"
    assert any("'A' and 'a' differ only in case" in line and line.endswith("(line 5)") for line in lines)
    assert any("or pass --merge-spelling" in line for line in lines)
    assert lines[-1].startswith("next: correct the problems")
    run = conal("inspect", path, "--json")
    assert run.code == 2
    facts = json.loads(run.out)
    assert (facts["usable"], facts["next"], facts["problems"][0]["lines"]) == (False, None, [4])
    assert conal("aggregate", path, "--out", tmp_path / "o.csv").code == 2
