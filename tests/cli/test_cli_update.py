"""``conal update``: folders of aggregators and models get further labels, and are the old or the new one."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run


def split(crowd: Crowd, folder: Path) -> tuple[Path, Path]:
    """The labels of most tasks, and the rest: labels of known tasks and of new ones, some by a new annotator."""
    old, new = folder / "old.csv", folder / "new.csv"
    late = [row for k, row in enumerate(crowd.rows) if row[0] >= 80 or k % 10 == 0]
    early = [row for row in crowd.rows if row not in late]
    late += [(task, "eve", crowd.z[task]) for task in (3, 85)]
    for path, rows in ((old, early), (new, late)):
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("task", "worker", "label"), *rows])
    return old, new


def labels_in(path: Path) -> dict[str, str]:
    with path.open(newline="") as file:
        return {row["task"]: row["label"] for row in csv.DictReader(file)}


def test_an_aggregator_is_saved_and_updated(conal: Run, shared_crowd: Crowd, tmp_path: Path) -> None:
    old, new = split(shared_crowd, tmp_path)
    folder, out = tmp_path / "crowd", tmp_path / "clean.csv"
    assert conal("aggregate", old, "--out", out, "--save", folder, "--quiet").code == 0
    found = conal("update", folder, new, "--out", tmp_path / "updated.csv", "--json").json()
    assert found["n_new_tasks"] == 10
    assert found["n_tasks"] == 90
    assert found["n_annotators"] == 7
    conal("aggregate", old, new, "--out", tmp_path / "refit.csv", "--quiet")
    updated, refit = (labels_in(tmp_path / f"{name}.csv") for name in ("updated", "refit"))
    assert np.mean([updated[task] == refit[task] for task in refit]) > 0.95
    again = conal("update", folder, new)
    assert "labels are known already" in again.refusal()
    assert "pass new labels only" in again.err
    assert "are known already" in conal("update", folder, old).refusal()
    history = json.loads((folder / "config.json").read_text())["learned_from"]
    assert [entry["kind"] for entry in history] == ["fit", "update"]
    assert (
        "an aggregator has labels alone" in conal("update", folder, new, "--features", shared_crowd.features).refusal()
    )
    assert (
        "is a folder of conal aggregate --save"
        in conal("predict", folder, shared_crowd.features, "--out", tmp_path / "p.csv").refusal()
    )


def test_labels_that_are_there_already_are_not_counted_as_new(conal: Run, tmp_path: Path, write: Any) -> None:
    head = ("task", "worker", "label")
    old = [(task, worker, "yes" if task % 2 else "no") for task in range(20) for worker in "abc"]
    first = write(tmp_path / "old.csv", head, old)
    conal("aggregate", first, "--out", tmp_path / "out.csv", "--save", tmp_path / "crowd", "--quiet")
    second = write(tmp_path / "new.csv", head, [*old[:6], (0, "d", "no"), (50, "a", "yes")])
    shutil.copytree(tmp_path / "crowd", tmp_path / "copy")
    found = conal("update", tmp_path / "crowd", second, "--json").json()
    assert (found["n_new_labels"], found["n_known_labels"], found["n_new_tasks"]) == (2, 6, 1)
    told = conal("update", tmp_path / "copy", second).out
    assert "2 new labels (6 more repeat or replace old ones), 1 new tasks; now 21 tasks and 4 annotators" in told


def test_a_correction_can_be_taken_back(conal: Run, tmp_path: Path, write: Any) -> None:
    head = ("task", "worker", "label")
    old = [(task, worker, "yes" if task % 2 else "no") for task in range(20) for worker in "abc"]
    first = write(tmp_path / "old.csv", head, old)
    conal("aggregate", first, "--out", tmp_path / "out.csv", "--save", tmp_path / "crowd", "--quiet")
    for label in ("yes", "no", "yes", "no"):
        correction = write(tmp_path / "correction.csv", head, [(0, worker, label) for worker in "abcd"])
        done = conal("update", tmp_path / "crowd", correction, "--out", tmp_path / "out.csv", "--overwrite")
        assert done.code == 0, done.err
        assert labels_in(tmp_path / "out.csv")["0"] == label
        assert "labels are known already" in conal("update", tmp_path / "crowd", correction).refusal()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Crowd]:
    """A model folder with its data, and new labels for it."""
    from cli.conftest import make_crowd
    from helpers.commands import run_line

    folder = tmp_path_factory.mktemp("kept")
    crowd = make_crowd(folder)
    old, new = split(crowd, folder)
    run_line(
        f"conal fit {old} --features {crowd.features} --out {folder / 'model'} --epochs 10 --keep-data --quiet "
        "--no-report --set allow_missing=true"
    )
    return folder / "model", new, crowd


def test_a_model_is_updated_and_remembers_what_it_has_learned_from(
    conal: Run, kept: tuple[Path, Path, Crowd], tmp_path: Path
) -> None:
    stock, new, crowd = kept
    folder = tmp_path / "model"
    shutil.copytree(stock, folder)
    found = conal("update", folder, new, "--features", crowd.features, "--json", "--no-report").json()
    assert found["n_new_labels"] > 0
    assert found["n_updates"] == 1
    assert found["epochs"] == 4
    labels = labels_in(folder / "labels.csv")
    assert np.mean([labels[str(task)] == crowd.z[task] for task in range(90)]) > 0.9
    assert "are known already" in conal("update", folder, new, "--features", crowd.features).refusal()
    history = json.loads((folder / "config.json").read_text())["learned_from"]
    assert [entry["kind"] for entry in history] == ["fit", "update"]


def test_what_cannot_be_updated_is_refused_and_stays(
    conal: Run, kept: tuple[Path, Path, Crowd], model: Path, tmp_path: Path, write: Any
) -> None:
    stock, new, crowd = kept
    refused = conal("update", model, new, "--features", crowd.features)
    assert "saved without its training data" in refused.refusal()
    assert "--keep-data" in refused.err
    folder = tmp_path / "model"
    shutil.copytree(stock, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = write(tmp_path / "other.csv", ("task", "worker", "label"), [(1, "w1", "bird")])
    assert "'bird' not among the 3 classes" in conal("update", folder, other).refusal()
    unknown = write(tmp_path / "unknown.csv", ("task", "worker", "label"), [(999, "w1", "cat")])
    assert "1 tasks are new (999); pass their features" in conal("update", folder, unknown).refusal()
    assert "have no features: 999" in conal("update", folder, unknown, "--features", crowd.features).refusal()
    assert "trained on features" in conal("update", folder, new, "--text", new).refusal()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    both = conal("fit", new, "--features", crowd.features, "--out", tmp_path / "m", "--keep-data", "--anonymise")
    assert "leave out one" in both.refusal()


@pytest.mark.parametrize("spelled", ["140.0", "00140"])
@pytest.mark.parametrize("column", ["task", "worker"])
def test_an_id_that_is_spelled_differently_makes_no_second_task_or_annotator(
    conal: Run, tmp_path: Path, spelled: str, column: str
) -> None:
    old, new, folder = tmp_path / "old.csv", tmp_path / "new.csv", tmp_path / "crowd"
    old.write_text("task,worker,label\n140,ann,x\n140,140,x\nt2,140,y\nt2,ann,y\n")
    row = f"{spelled},bob,x" if column == "task" else f"t3,{spelled},x"
    new.write_text(f"task,worker,label\n{row}\nt3,bob,y\n")
    assert conal("aggregate", old, "--out", tmp_path / "clean.csv", "--save", folder, "--quiet").code == 0
    before = sorted((path.name, path.read_bytes()) for path in folder.iterdir())
    refused = conal("update", folder, new).refusal()
    kind = "tasks" if column == "task" else "annotators"
    assert f"{kind} are spelled differently here and in the labels so far: '{spelled}' and '140'" in refused
    assert sorted((path.name, path.read_bytes()) for path in folder.iterdir()) == before
