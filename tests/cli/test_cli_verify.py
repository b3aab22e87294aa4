"""``conal verify``: whether a model folder is what was saved."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.folders import flip_bit

if TYPE_CHECKING:
    from cli.conftest import Run

OLD = Path(__file__).parents[1] / "estimator" / "folders" / "0.1.0" / "conal" / "model"
TABLES = ["annotators.csv", "common_confusion.csv", "history.csv", "labels.csv", "suggestions.csv"]
SIGNED = [*TABLES, "metrics.json", "model.safetensors", "report.json", "tasks.json"]


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """A model folder to change."""
    return shutil.copytree(model, tmp_path / "m")


def test_a_folder_as_it_was_saved(conal: Run, folder: Path) -> None:
    found = conal("verify", folder, "--json").json()
    assert found["model"] == str(folder)
    assert found["ok"] is True
    assert found["format_version"] == 2
    assert found["same"] == ["config.json", *sorted(SIGNED)]
    assert found["problems"] == {}
    assert found["unchecked"] == ["report.html"]
    assert found["other"] == []
    (folder / "notes.txt").write_text("mine")
    run = conal("verify", folder)
    assert run.code == 0
    *lines, learned = run.out.splitlines()
    assert learned.startswith("fit 20")
    assert "270 labels by 6 annotators on 90 tasks, digest " in learned
    assert lines == [
        f"{folder}: 10 files are what was saved",
        "without a digest: report.html",
        "not part of the model: notes.txt",
    ]
    assert conal("verify", folder, "--quiet").out == ""


@pytest.mark.parametrize("name", SIGNED)
def test_one_bit_in_any_file_is_found_and_refused(conal: Run, folder: Path, tmp_path: Path, name: str) -> None:
    flip_bit(folder / name, (folder / name).stat().st_size // 2, bit=3)
    run = conal("verify", folder)
    assert f"m: is not what was saved: {name} has changed since it was saved" in run.refusal()
    features = tmp_path / "none.npy"  # which is never reached
    assert (
        f"{name}: has changed since it was saved"
        in conal("predict", folder, features, "--out", tmp_path / "p.csv").refusal()
    )


def test_everything_that_differs_is_told(conal: Run, folder: Path) -> None:
    (folder / "metrics.json").unlink()
    (folder / "labels.csv").write_text("task,label\n")
    (folder / "history.csv").unlink()
    (folder / "history.csv").symlink_to(OLD / "history.csv")
    run = conal("verify", folder, "--json")
    assert run.code == 2
    assert '"ok": false' in run.out
    for words in (
        "metrics.json is missing",
        "labels.csv has changed since it was saved",
        "history.csv is a symbolic link, which conal does not follow",
    ):
        assert words in run.err


def test_a_changed_configuration(conal: Run, folder: Path) -> None:
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"seed": 0', '"seed": 1'))
    assert "config.json: has changed since it was saved" in conal("verify", folder).refusal()


def test_no_model_folder(conal: Run, tmp_path: Path) -> None:
    assert "nowhere: no such model folder" in conal("verify", tmp_path / "nowhere").refusal()
    assert "is not a model folder" in conal("verify", tmp_path).refusal()


def test_a_folder_of_the_first_version_has_fewer_digests(conal: Run) -> None:
    found = conal("verify", OLD, "--json").json()
    assert found["same"] == ["config.json", "model.safetensors", "report.json"]
    assert found["unchecked"] == sorted([*TABLES, "metrics.json"])
