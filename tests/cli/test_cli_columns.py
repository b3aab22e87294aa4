"""Names of columns: named once, remembered by folders, and kept in tables of results."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import conal as library
from conal.errors import ModelFolderError
from conal.io import import_file
from helpers.files import write_lines

if TYPE_CHECKING:
    from cli.conftest import Run

NAMED = ("--task-column", "sid", "--worker-column", "who", "--label-column", "outcome")
ROWS = [f"{k:03},{who},{'yes' if (k + (who == 'c')) % 2 else 'no'}" for k in range(30) for who in "abc"]


def header(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()[0].split(",")


def column(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return [row[0] for row in csv.reader(file)][1:]


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "labels.csv", "sid,who,outcome", *ROWS)


@pytest.fixture
def features(tmp_path: Path) -> Path:
    """Ids beside features, which are only ids because they have the name of the tasks."""
    return write_lines(tmp_path / "features.csv", "sid,x", *(f"{k:03},{k % 2}.5" for k in range(30)))


def test_a_model_remembers_the_names(conal: Run, labels: Path, features: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "out.csv"
    words = ("--features", features, "--out", model, "--epochs", "2", "--keep-data", "--no-report", "-q")
    assert conal("fit", labels, *words, *NAMED).code == 0
    ids = [f"{k:03}" for k in range(30)]
    assert (header(model / "labels.csv")[:2], column(model / "labels.csv")) == (["sid", "label"], ids)
    assert conal("predict", model, features, "--out", out).code == 0
    assert (header(out)[0], column(out)) == ("sid", ids)
    assert conal("predict", model, features, "--out", out, "--task-column", "x", "--overwrite").code == 2
    more = write_lines(tmp_path / "more.csv", "outcome,sid,who", "yes,000,d", "no,030,d")
    new = write_lines(tmp_path / "new.csv", "sid,x", "030,0.5")
    assert conal("update", model, more, "--features", new, "--out", out, "--overwrite", "--no-report").code == 0
    assert (header(out)[0], len(column(out))) == ("sid", 31)
    assert header(model / "labels.csv")[0] == "sid"
    loaded = library.load(model)
    assert loaded.table("labels.csv", "arrow").column_names[0] == "task"
    assert loaded.task_ids_.tolist() == [*ids, "030"]


def test_a_folder_of_an_aggregator_remembers_the_names(conal: Run, labels: Path, tmp_path: Path) -> None:
    saved, out = tmp_path / "saved", tmp_path / "out.csv"
    report = tmp_path / "report"
    assert conal("aggregate", labels, "--out", out, "--save", saved, "--report", report, *NAMED).code == 0
    assert header(out)[0] == header(report / "labels.csv")[0] == "sid"
    more = write_lines(tmp_path / "more.csv", "outcome,sid,who", "yes,000,d")
    assert conal("update", saved, more, "--out", out, "--overwrite").code == 0
    assert (header(out)[0], len(column(out))) == ("sid", 30)
    usual = write_lines(tmp_path / "usual.csv", "worker,label,task", "e,yes,000")
    assert conal("update", saved, usual).code == 0
    other = write_lines(tmp_path / "other.csv", "sid,who,x,y", "000,f,yes,no")
    assert "no column for the label" in conal("update", saved, other).refusal()


def test_names_that_were_found_are_not_those_of_results(conal: Run, tmp_path: Path) -> None:
    labels = write_lines(tmp_path / "labels.csv", "sentence_id,rater,verdict", *ROWS)
    features = write_lines(tmp_path / "features.csv", "sentence_id,x", *(f"{k:03},{k % 2}.5" for k in range(30)))
    model, out = tmp_path / "model", tmp_path / "out.csv"
    words = ("--features", features, "--out", model, "--epochs", "2", "--no-report", "-q")
    assert conal("fit", labels, *words).code == 0
    assert conal("predict", model, features, "--out", out).code == 0
    assert header(out)[0] == header(model / "labels.csv")[0] == "task"
    assert column(out) == column(model / "labels.csv") == [f"{k:03}" for k in range(30)]


def test_a_name_that_results_have_for_something_else(conal: Run, tmp_path: Path) -> None:
    labels = write_lines(tmp_path / "labels.csv", "probability,worker,label", *ROWS)
    out = tmp_path / "out.csv"
    assert conal("aggregate", labels, "--out", out, "--task-column", "probability").code == 0
    assert header(out)[:3] == ["task", "label", "probability"]


def test_results_are_predictions_for_a_file_with_the_same_names(conal: Run, labels: Path, tmp_path: Path) -> None:
    out, to = tmp_path / "out.csv", tmp_path / "tasks.json"
    assert conal("aggregate", labels, "--out", out, *NAMED).code == 0
    words = ("--to", "label-studio", "--labels", out, "--out", to, *NAMED)
    assert conal("convert", labels, *words).code == 0
    assert len(json.loads(to.read_text(encoding="utf-8"))) == 30


def test_a_file_has_the_names_of_an_earlier_one(labels: Path, tmp_path: Path) -> None:
    first = import_file(labels, task="sid", worker="who", label="outcome")
    assert first.columns == {"task": "sid", "worker": "who", "label": "outcome"}
    assert import_file(labels, usual=first.columns).annotations.to_table() == first.annotations.to_table()
    wide = write_lines(tmp_path / "wide.csv", "id,system,result", *(f"q{k % 6},m{k // 6},yes" for k in range(12)))
    usual = {"worker": "system", "label": "result"}
    assert import_file(wide, usual=usual).annotations.annotator_ids.tolist() == ["m0", "m1"]


def test_columns_of_a_damaged_folder_are_refused(conal: Run, labels: Path, tmp_path: Path) -> None:
    from conal.io.model_folder import columns_of, digest_of_json

    saved = tmp_path / "saved"
    assert conal("aggregate", labels, "--out", tmp_path / "o.csv", "--save", saved, *NAMED).code == 0
    config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    assert columns_of(config)["task"] == "sid"
    assert columns_of({}) == {}
    del config["config_sha256"]
    config["columns"] = {"task": ["sid"]}
    (saved / "config.json").write_text(json.dumps(config | {"config_sha256": digest_of_json(config)}))
    with pytest.raises(ModelFolderError, match="columns must be names"):
        library.updates.load(saved)
