"""The container, the registry and the folder lookup."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import conal.datasets
from conal.data.annotations import Annotations
from conal.datasets.base import CrowdDataset, Split, data_folder
from conal.errors import InputError


def test_names_are_the_loaders_and_functions_win_over_modules() -> None:
    for name in ("cifar10", "digits", "labelme", "music", "synthetic"):
        assert name in conal.datasets.names()
        assert callable(getattr(conal.datasets, name))


def test_unknown_dataset_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="there is no dataset 'labelmee'; did you mean 'labelme'"):
        conal.datasets.load("labelmee")


def test_options_reach_the_dataset() -> None:
    data = conal.datasets.load("synthetic", n_train=30, n_valid=5, n_test=4, n_classes=3)
    assert (len(data.x), len(data.valid or ()), len(data.test or ()), len(data.classes)) == (30, 5, 4, 3)


def test_everything_exported_exists() -> None:
    assert all(hasattr(conal.datasets, name) for name in conal.datasets.__all__)


def test_import_is_light() -> None:
    heavy = "{'sklearn', 'scipy', 'pandas', 'torch', 'polars'}"
    code = f"import sys, conal.datasets; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_sizes_must_agree() -> None:
    ann = Annotations.from_matrix([[0, 1], [1, 0]])
    with pytest.raises(InputError, match="3 rows of features, 2 annotated tasks and 2 true labels"):
        CrowdDataset("tiny", np.zeros((3, 1)), ann, np.zeros(2, dtype=np.int64))
    with pytest.raises(InputError, match=r"3 rows of features, labels of shape \(2,\)"):
        Split(np.zeros((3, 1)), np.zeros(2, dtype=np.int64))


def test_annotations_must_go_by_row() -> None:
    by_name = Annotations.from_triples([7, 9], ["a", "b"], [0, 1])
    with pytest.raises(InputError, match=r"annotations\[rows\]"):
        CrowdDataset("tiny", np.zeros((2, 1)), by_name, np.zeros(2, dtype=np.int64))


def test_folder_is_the_users_then_the_variable_then_the_shared_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, shared, here = tmp_path / "chosen", tmp_path / "shared" / "data", tmp_path / "here"
    for folder in (chosen / "thing", shared / "thing", here / "own"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("CONAL_DATA", str(chosen))
    assert data_folder("thing", "own") == Path("own")
    assert data_folder("thing") == chosen / "thing"
    assert data_folder(("other", "thing")) == chosen / "thing"
    monkeypatch.delenv("CONAL_DATA")
    assert data_folder("thing").resolve() == shared / "thing"


def test_missing_folder_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONAL_DATA", "elsewhere")
    with pytest.raises(InputError) as caught:
        data_folder("thing", archive="thing.tar.gz")
    message = str(caught.value)
    for part in (
        str(Path("elsewhere", "thing")),
        str(Path("..", "shared", "data", "thing")),
        "thing.tar.gz",
        "CONAL_DATA",
    ):
        assert part in message
