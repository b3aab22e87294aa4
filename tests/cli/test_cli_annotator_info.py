"""``--annotator-info``: a table about the annotators, in ``fit`` and ``aggregate``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.csv as pv
import pytest

import conal as package
from conal.aggregation import GroupConfusion

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

Write = Callable[..., Path]

HEADER = ("worker", "group", "cost", "years")


def about(crowd: Crowd) -> list[tuple[object, ...]]:
    workers = sorted({worker for _, worker, _ in crowd.rows})
    return [(worker, "odd" if k % 2 else "even", 0.1 * k, k) for k, worker in enumerate(workers)]


def test_aggregate_uses_the_groups(conal: Run, crowd: Crowd, write: Write, tmp_path: Path) -> None:
    table = write(tmp_path / "people.csv", HEADER, reversed(about(crowd)))
    options = ("--method", "group-confusion", "--annotator-info", table, "--report", tmp_path / "report")
    done = conal("aggregate", crowd.labels, *options, "--out", tmp_path / "clean.csv", "--json")
    assert done.json()["method"] == "group-confusion"
    annotations = package.Annotations.read(crowd.labels)
    fitted = GroupConfusion(groups={worker: group for worker, group, *_ in about(crowd)}).fit(annotations)
    found = pv.read_csv(tmp_path / "clean.csv")
    np.testing.assert_allclose(found["proba_cat"].to_numpy(), fitted.probas_[:, 0], atol=1e-9)
    report = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert "--annotator-info ANNOTATORS" in report["aggregation"]["command"]


def test_groups_can_be_set_by_hand(conal: Run, crowd: Crowd, write: Write, tmp_path: Path) -> None:
    groups = json.dumps({worker: group for worker, group, *_ in about(crowd)})
    options = ("--method", "group-confusion", "--set", f"groups={groups}", "--report", tmp_path / "report")
    assert conal("aggregate", crowd.labels, *options, "--out", tmp_path / "clean.csv").code == 0
    report = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert report["aggregation"]["parameters"]["groups"] == json.loads(groups)


@pytest.mark.parametrize("command", ["fit", "aggregate"])
def test_a_missing_annotator_is_refused(conal: Run, crowd: Crowd, write: Write, tmp_path: Path, command: str) -> None:
    missing, *rest = about(crowd)
    table = write(tmp_path / "people.csv", HEADER, rest)
    out = tmp_path / ("model" if command == "fit" else "clean.csv")
    features = ("--features", crowd.features) if command == "fit" else ()
    told = conal(command, crowd.labels, *features, "--annotator-info", table, "--out", out).refusal()
    assert f"people.csv: 1 of the 6 annotators are missing: {missing[0]!r}; add a row for each" in told
    assert not out.exists()


def test_others_are_told(conal: Run, crowd: Crowd, write: Write, tmp_path: Path) -> None:
    table = write(tmp_path / "people.csv", HEADER, [*about(crowd), ("nobody", "odd", 1, 1)])
    done = conal("aggregate", crowd.labels, "--annotator-info", table, "--out", tmp_path / "clean.csv")
    assert done.code == 0
    assert "ignored 1 of 7, who gave no label here: 'nobody'" in done.err


def test_fit_takes_features_of_annotators(conal: Run, crowd: Crowd, write: Write, tmp_path: Path) -> None:
    table = write(tmp_path / "people.csv", HEADER, about(crowd))
    fast = ("--method", "conal", "--epochs", 2, "--no-report")
    out = tmp_path / "model"
    done = conal("fit", crowd.labels, "--features", crowd.features, "--annotator-info", table, "--out", out, *fast)
    assert done.code == 0, done.err
    years = np.arange(6.0)
    stored = package.load(out).model_.state_dict()["auxiliary.annotator_features"].numpy()
    np.testing.assert_allclose(stored[:, 0], (years - 2.5) / years.std(), rtol=1e-6)


def test_no_table_for_true_labels_and_none_inside_the_model(
    conal: Run, crowd: Crowd, write: Write, tmp_path: Path
) -> None:
    table = write(tmp_path / "people.csv", HEADER, about(crowd))
    gold = write(tmp_path / "gold.csv", ("task", "label"), list(enumerate(crowd.z.tolist())))
    options = ("--features", crowd.features, "--annotator-info", table, "--out", tmp_path / "model")
    told = conal("fit", gold, "--method", "gold", *options).refusal()
    assert "--annotator-info: true labels have no annotators" in told
    missing = conal("fit", crowd.labels, *options[:2], "--annotator-info", tmp_path / "no.csv", *options[4:]).refusal()
    assert "no.csv: no such file" in missing


def test_hidden_names_are_not_told(conal: Run, crowd: Crowd, write: Write, tmp_path: Path) -> None:
    table = write(tmp_path / "people.csv", HEADER, about(crowd)[1:])
    options = ("--features", crowd.features, "--annotator-info", table, "--out", tmp_path / "model", "--anonymise")
    told = conal("fit", crowd.labels, *options).refusal()
    assert "(a hidden name)" in told
    assert str(about(crowd)[0][0]) not in told.replace(str(tmp_path), "")
