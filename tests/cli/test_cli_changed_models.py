"""Model folders that are not what was saved: no command loads them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.folders import flip_bit

if TYPE_CHECKING:
    from cli.conftest import Run

TABLES = ["annotators.csv", "common_confusion.csv", "history.csv", "labels.csv", "suggestions.csv"]
SIGNED = [*TABLES, "metrics.json", "model.safetensors", "report.json", "tasks.json"]


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """A model folder to change."""
    return shutil.copytree(model, tmp_path / "m")


@pytest.mark.parametrize("name", SIGNED)
def test_one_bit_in_any_file_is_found_and_refused(conal: Run, folder: Path, tmp_path: Path, name: str) -> None:
    flip_bit(folder / name, (folder / name).stat().st_size // 2, bit=3)
    features = tmp_path / "none.npy"  # which is never reached
    run = conal("predict", folder, features, "--out", tmp_path / "p.csv")
    assert f"{name}: has changed since it was saved" in run.refusal()


def test_a_changed_configuration(conal: Run, folder: Path) -> None:
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"seed": 0', '"seed": 1'))
    assert "config.json: has changed since it was saved" in conal("report", folder).refusal()


def test_no_model_folder(conal: Run, tmp_path: Path) -> None:
    assert "nowhere: no such model folder" in conal("report", tmp_path / "nowhere").refusal()
    assert "is not a model folder" in conal("report", tmp_path).refusal()
