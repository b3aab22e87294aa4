"""``conal report``, and what ``conal fit`` leaves behind for readers: the page and its data."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.csv as pv
import pytest

import conal as package
from helpers.processes import one_thread

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

SHORT = ("--epochs", 4, "--quiet")


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """A copy of the shared model folder, to do with as one likes."""
    return Path(shutil.copytree(model, tmp_path / "model"))


def test_fit_writes_the_page_and_its_data(model: Path) -> None:
    page = (model / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert len(page.encode()) < 6_000_000
    assert "6 annotators" in page
    report = json.loads((model / "report.json").read_text(encoding="utf-8"))
    assert report["crowd"]["n_annotators"] == 6


def test_the_page_comes_from_the_folder_alone(conal: Run, folder: Path, tmp_path: Path) -> None:
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    for name in ("model.safetensors", "labels.csv", "history.csv"):
        (folder / name).unlink()  # the page needs none of them
    assert conal("report", folder).out == f"report: {folder / 'report.html'}\n"
    assert (folder / "report.html").read_bytes() == before
    done = conal("report", folder, "--out", tmp_path / "page.html", "--json").json()
    assert done == {"out": str(tmp_path / "page.html"), "bytes": len(before)}
    assert (tmp_path / "page.html").read_bytes() == before


def test_the_page_is_made_in_little_address_space_and_without_v8(folder: Path) -> None:
    """V8 inside vl_convert reserves tens of gigabytes; where a process may not have them, it ends by a signal."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))

    (folder / "report.html").unlink()
    code = "import sys; from conal.cli import main; sys.argv[0] = 'conal'\ntry: main()\nfinally: print(*sys.modules)"
    words = [sys.executable, "-c", code, "report", str(folder)]
    done = subprocess.run(words, env=one_thread(), capture_output=True, text=True, check=False, preexec_fn=limit)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"altair", "vl_convert"} & set(done.stdout.split()) == {"altair"}
    assert "vegaEmbed" in (folder / "report.html").read_text(encoding="utf-8")


def test_a_page_elsewhere_is_replaced_only_if_allowed(conal: Run, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    assert "exists already" in conal("report", folder, "--out", page).refusal()
    assert page.read_text() == "mine"
    assert conal("report", folder, "--out", page, "--overwrite").code == 0
    assert "is a folder" in conal("report", folder, "--out", tmp_path, "--overwrite").refusal()


def test_what_is_no_model_folder_is_refused(conal: Run, folder: Path, tmp_path: Path) -> None:
    assert "no such model folder" in conal("report", tmp_path / "none").refusal()
    (folder / "report.json").unlink()
    assert "has no report.json; fit the model again" in conal("report", folder).refusal()
    for content in ("{", "{}", '{"format": "conal-report", "format_version": 1}'):
        (folder / "report.json").write_text(content)
        assert "report.json: has changed since it was saved; fit the model again" in conal("report", folder).refusal()


def test_no_report_leaves_the_page_out(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    run = conal("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", *SHORT, "--no-report")
    assert run.code == 0
    names = {path.name for path in (tmp_path / "m").iterdir()}
    assert {"report.json", "suggestions.csv"} <= names
    assert "report.html" not in names


def test_report_tables_and_estimator_say_the_same(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    """Page, report.json, CSV files and the Python API show the same figures."""
    assert conal("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", *SHORT).code == 0
    report = json.loads((tmp_path / "m" / "report.json").read_text(encoding="utf-8"))
    loaded = package.load(tmp_path / "m")
    assert report["common_confusion"]["matrix"] == loaded.common_confusion_.tolist()
    workers = loaded.annotator_ids_.tolist()
    for row in report["annotators"]["rows"]:
        assert row["matrix"] == loaded.annotator_confusion_[workers.index(row["worker"])].tolist()
    people = {row["worker"]: row for row in pv.read_csv(tmp_path / "m" / "annotators.csv").to_pylist()}
    for row in report["annotators"]["rows"]:
        for name, value in people[row["worker"]].items():
            assert value == (pytest.approx(row[name], rel=1e-12) if isinstance(value, float) else row[name]), name
    labels = {row["task"]: row for row in pv.read_csv(tmp_path / "m" / "labels.csv").to_pylist()}
    rows = [row for found in report["tasks"].values() for row in found["rows"]]
    for row in rows:
        for name in set(row) & set(labels[row["task"]]):
            assert labels[row["task"]][name] == row[name], name
        assert labels[row["task"]]["num_annotations"] == sum(n for _, n in row["votes"])
    at = {task: k for k, task in enumerate(loaded.task_ids_.tolist())}
    for row in rows:
        assert row["probability"] == pytest.approx(loaded.probas_[at[row["task"]]].max(), rel=1e-12)
    assert pv.read_csv(tmp_path / "m" / "suggestions.csv").to_pylist() == [
        {name: row[name] for name in ("task", "worker", "expected_gain", "label", "probability")}
        for row in report["suggestions"]["rows"]
    ]


def test_labels_csv_has_cleanlabs_columns(model: Path, shared_crowd: Crowd) -> None:
    table = pv.read_csv(model / "labels.csv").to_pydict()
    assert table["consensus_label"] == table["label"]
    assert table["consensus_quality_score"] == table["probability"]
    for task, label, agreement, number in zip(
        table["task"], table["label"], table["annotator_agreement"], table["num_annotations"], strict=True
    ):
        given = [row[2] for row in shared_crowd.rows if row[0] == task]
        assert number == len(given)
        assert agreement == pytest.approx(given.count(label) / len(given))


def test_files_of_a_model_folder_are_replaced_by_nobody(conal: Run, folder: Path, crowd: Crowd, tmp_path: Path) -> None:
    before = (folder / "labels.csv").read_bytes()
    assert (
        "which is reserved for conal"
        in conal("report", folder, "--out", folder / "labels.csv", "--overwrite").refusal()
    )
    run = conal("predict", folder, crowd.features, "--out", folder / "labels.csv", "--overwrite")
    assert "which is reserved for conal" in run.refusal()
    assert (folder / "labels.csv").read_bytes() == before


def test_overwriting_spares_what_is_not_conals(conal: Run, folder: Path, crowd: Crowd) -> None:
    """Notes of the user in the folder, and the files that the fit reads."""
    (folder / "notes.txt").write_text("mine")
    fit = ("fit", crowd.labels, "--features", crowd.features, "--out", folder, *SHORT, "--overwrite")
    assert "contains 'notes.txt', which conal did not write" in conal(*fit).refusal()
    (folder / "notes.txt").rename(folder / "crowd.csv")
    (folder / "crowd.csv").write_bytes(crowd.labels.read_bytes())
    inside = ("fit", folder / "crowd.csv", *fit[2:])
    assert "which conal did not write" in conal(*inside).refusal()
    assert (folder / "crowd.csv").read_bytes() == crowd.labels.read_bytes()


def test_predictions_do_not_replace_what_they_are_made_of(
    conal: Run, folder: Path, crowd: Crowd, tmp_path: Path
) -> None:
    copy = tmp_path / "x.csv"
    copy.write_text("a,b\n1,2\n")
    assert "is an input file" in conal("predict", folder, copy, "--out", copy, "--overwrite").refusal()
    assert copy.read_text() == "a,b\n1,2\n"


def test_a_page_that_fails_leaves_a_model(
    conal: Run, crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("conal.report.page.render", interrupted)
    run = conal("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", *SHORT)
    assert run.code == 130
    assert f"the model is complete: {tmp_path / 'm'}; the report failed, run: conal report {tmp_path / 'm'}" in run.err
    monkeypatch.undo()
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith("m")} == {"m"}  # and no checkpoint
    assert conal("report", tmp_path / "m").code == 0
