"""Model folders of earlier versions load, and predict what they predicted (folders/make.py wrote them)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import conal
from conal.errors import ModelFolderError
from conal.report.page import write_report

FOLDERS = sorted(Path(__file__).parent.glob("folders/*/*/model"))
FILES = ["annotators.csv", "common_confusion.csv", "history.csv", "labels.csv", "suggestions.csv"]


def expected(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder.parent / "expected.json").read_text(encoding="utf-8"))
    return found


def test_there_are_folders_of_every_kind() -> None:
    names = {folder.parent.name for folder in FOLDERS if folder.parent.parent.name == "0.1.0"}
    assert names == {"conal", "xconal", "text"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: "-".join(folder.parts[-3:-1]))
def test_an_old_folder_loads_and_predicts_the_same(folder: Path) -> None:
    clf, wanted = conal.load(folder), expected(folder)
    version = folder.parent.parent.name
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["conal_version"] == version
    np.testing.assert_allclose(clf.predict_proba(wanted["inputs"]), wanted["predict_proba"], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(clf.probas_, wanted["probas"], rtol=1e-12)
    assert clf.labels_.tolist() == wanted["labels"]
    assert clf.task_ids_.tolist() == wanted["task_ids"]
    assert clf.annotator_ids_.tolist() == wanted["annotator_ids"]
    assert list(clf.tables_) == FILES
    assert clf.tables_["labels.csv"]["label"].to_pylist() == wanted["labels"]
    assert clf.tables_["annotators.csv"]["worker"].to_pylist() == wanted["annotator_ids"]
    assert clf.tables_["annotators.csv"]["annotator_quality_low"].type == pa.float64()
    assert set(clf.tables_["suggestions.csv"]["task"].to_pylist()) <= set(wanted["task_ids"])
    report = clf.results_.report
    assert report["suggestions"]["total"] == len(clf.tables_["suggestions.csv"])
    assert report["model"]["metrics"]["n_annotators"] == len(wanted["annotator_ids"])


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: "-".join(folder.parts[-3:-1]))
def test_an_old_folder_can_be_shown_and_saved_again(folder: Path, tmp_path: Path) -> None:
    page = write_report(folder, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Crowd labels and inferred true labels" in page
    conal.load(folder).save(tmp_path / "again")
    for name in [*FILES, "report.json", "metrics.json", "model.safetensors"]:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name


def test_named_features_of_an_old_folder_keep_their_names() -> None:
    (folder,) = (folder for folder in FOLDERS if folder.parts[-3:-1] == ("0.1.0", "xconal"))
    assert conal.load(folder).feature_names_in_.tolist() == ["a", "b", "c"]


def test_a_table_that_was_damaged_is_told(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDERS[0], tmp_path / "model")
    (folder / "annotators.csv").write_text("worker,num_examples_labeled\na,many\n", encoding="utf-8")
    with pytest.raises(ModelFolderError, match=r"annotators\.csv: cannot be read .*; fit the model again"):
        conal.load(folder)
