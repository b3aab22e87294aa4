"""Pictures, texts and addresses in the report: options of ``conal fit`` and ``conal report``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from conal.report.exhibits import task_rows

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

SHORT = ("--epochs", 3, "--quiet")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Pictures of all tasks but the first ten, and one that is none."""
    folder = tmp_path / "images"
    folder.mkdir()
    for task in range(10, 90):
        Image.new("RGB", (40, 30), (task, 2 * task, 200)).save(folder / f"{task}.png")
    (folder / "5.jpg").write_bytes(b"no picture")
    return folder


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """A copy of the shared model folder."""
    return Path(shutil.copytree(model, tmp_path / "model"))


def report_of(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_fit_shows_pictures_texts_and_addresses(
    conal: Run, crowd: Crowd, images: Path, tmp_path: Path, write: Callable[..., Path]
) -> None:
    texts = write(tmp_path / "texts.csv", ("task", "text"), [(task, f"text {task}") for task in range(90)])
    settings = ("--set", "link=https://x.org/t?id={task}")
    shown = ("--images", images, "--text", texts, *settings)
    out = tmp_path / "m"
    run = conal("fit", crowd.labels, "--features", crowd.features, "--out", out, *shown, *SHORT)
    assert run.code == 0, run.err
    report = report_of(out)
    rows = list(task_rows(report))
    assert rows
    for row in rows:
        assert row["text"] == f"text {row['task']}"
        assert row["link"] == f"https://x.org/t?id={row['task']}"
        assert ("picture" in row) == (row["task"] >= 10)
    told = [line for line in run.err.splitlines() if "pictures are not shown" in line]
    assert len(told) == ("5" in {str(row["task"]) for row in rows})


def test_report_shows_them_on_the_page_alone(conal: Run, folder: Path, images: Path) -> None:
    before = (folder / "report.json").read_bytes()
    plain = (folder / "report.html").read_text(encoding="utf-8")
    (images / "5.jpg").unlink()
    assert conal("report", folder, "--images", images, "--link", "https://x.org/{task}").code == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "data-picture=" in page
    assert "data-picture=" not in plain.split("<script>")[0]
    assert '<a href="https://x.org/' in page
    assert (folder / "report.json").read_bytes() == before
    assert conal("report", folder).code == 0
    assert (folder / "report.html").read_text(encoding="utf-8") == plain


def test_nobody_s_tasks_are_listed_where_names_are_hidden(
    conal: Run, crowd: Crowd, images: Path, tmp_path: Path
) -> None:
    fit = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--anonymise", *SHORT)
    (images / "5.jpg").unlink()
    assert conal(*fit, "--images", images).code == 0
    report = report_of(tmp_path / "m")
    assert report["pictures"]["thumbnails"]
    assert all("doubtful" not in row for row in report["annotators"]["rows"])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("images", "nowhere", "nowhere: is no folder"),
        ("link", "javascript:alert('{task}')", "expected an address of http or https"),
        ("link", "https://x.org/1", "in which {task} stands for the task's id"),
    ],
)
def test_what_cannot_be_shown_is_refused_before_the_work(
    conal: Run, crowd: Crowd, folder: Path, tmp_path: Path, name: str, value: str, message: str
) -> None:
    fit = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", *SHORT)
    assert message in conal(*fit, "--set", f"{name}={value}").refusal()
    assert message in conal("report", folder, f"--{name}", value).refusal()
    assert not (tmp_path / "m").exists()


def test_pictures_of_other_tasks_are_refused(conal: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    Image.new("L", (9, 9)).save(tmp_path / "other" / "tiger.png")
    assert "no picture is called like a task" in conal("report", folder, "--images", tmp_path / "other").refusal()


def test_texts_of_an_export_are_shown_where_features_are_trained_on(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    """Without an option: the export contains them."""
    tasks = []
    for task in range(90):
        given = [(worker, label) for number, worker, label in crowd.rows if number == task]
        results = [
            {
                "completed_by": {"id": int(worker[1:]), "email": f"{worker}@x.org", "first_name": worker.upper()},
                "result": [{"from_name": "k", "to_name": "t", "type": "choices", "value": {"choices": [label]}}],
            }
            for worker, label in given
        ]
        address = f"https://x.org/{task}.png" if task % 3 else f"javascript:alert({task})"
        data = {"text": f"<b>text {task}", "photo": address}
        tasks.append({"id": task, "data": data, "annotations": results})
    export = tmp_path / "export.json"
    export.write_text(json.dumps(tasks))
    run = conal("fit", export, "--features", crowd.features, "--out", tmp_path / "m", *SHORT)
    assert run.code == 0, run.err
    report = report_of(tmp_path / "m")
    for row in task_rows(report):
        assert row["text"] == f"<b>text {row['task']}"
        assert row.get("picture_link") == (f"https://x.org/{row['task']}.png" if row["task"] % 3 else None)
    assert {row["name"] for row in report["annotators"]["rows"]} == {f"W{k}" for k in range(6)}
    page = (tmp_path / "m" / "report.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;text" in page
    assert "javascript:" not in page.split("<script>")[0]


def test_features_and_texts_that_do_not_go_together(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    fit = ("fit", crowd.labels, "--out", tmp_path / "m", *SHORT, "--text", crowd.labels, "--set", "text_column=label")
    both = (*fit, "--features", crowd.features)
    message = conal(*both, "--valid", crowd.labels, "--valid-labels", crowd.labels).refusal()
    assert "column 'worker' contains string, not numbers" in message  # features are trained on, so it is read as such
    assert "different texts" in conal(*both).refusal()  # the labels are no texts of the tasks
