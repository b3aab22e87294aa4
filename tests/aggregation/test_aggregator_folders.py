"""Aggregators in folders: what is loaded is what was saved, and what is damaged is refused."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load_file, save_file

import conal
from conal import aggregation
from conal.aggregation.base import aggregators
from conal.data.annotations import Annotations
from conal.errors import InputError, ModelFolderError
from conal.io.model_folder import WEIGHTS
from conal.parameters import parameters_of
from conal.report.page import write_report
from helpers.folders import sign

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.DataWarning")
UPDATABLE = [name for name in aggregators.names() if name not in ("gold-majority-vote", "kos", "ordinal")]
FEW: dict[str, dict[str, Any]] = {
    "cbcc": {"n_restarts": 1},
    "common-confusion": {"prior_individual": 0.3},
    "minimax-entropy": {"gamma": 1.0},
}


def crowd(seed: int, first: int = 0, n: int = 40, names: Any = "t{}".format) -> Annotations:
    rng = np.random.default_rng(seed)
    rows = [
        (names(task), f"w{worker}", "abc"[task % 3 if rng.random() < 0.75 else rng.integers(3)])
        for task in range(first, first + n)
        for worker in rng.choice(8, 4, replace=False)
    ]
    return Annotations.from_triples(
        *zip(*rows, strict=True), times=[f"2026-01-{1 + k % 28:02}" for k in range(len(rows))]
    )


def fitted(name: str, labels: Annotations) -> Any:
    verbose = {"verbose": False} if "verbose" in parameters_of(aggregators.get(name)) else {}
    made = aggregation.make(name, **verbose, **FEW.get(name, {}))
    if name != "group-confusion":
        return made.fit(labels)
    groups = ["one" if k % 2 else "two" for k in range(labels.n_annotators)]
    return made.fit(labels, annotator_info=pa.table({"worker": labels.annotator_ids.tolist(), "group": groups}))


@pytest.mark.parametrize("name", UPDATABLE)
def test_a_loaded_aggregator_goes_on_like_the_saved_one(name: str, tmp_path: Path) -> None:
    saved = fitted(name, crowd(0)).update(crowd(1, first=35, n=8))
    saved.save(tmp_path / "crowd")
    loaded: Any = aggregation.load(tmp_path / "crowd")
    assert type(loaded) is type(saved)
    assert loaded.annotations_ == saved.annotations_
    for attribute in ("probas_", "codes_", "labels_", "confusion_", "skills_", "known_codes_"):
        found, wanted = getattr(loaded, attribute), getattr(saved, attribute)
        same = np.allclose(found, wanted, rtol=0, atol=1e-12) if wanted.dtype.kind == "f" else (found == wanted).all()
        assert same, attribute  # the layout of arrays decides the last bit of sums
    more = crowd(2, first=44, n=5)
    assert np.allclose(loaded.update(more).probas_, saved.update(more).probas_, rtol=0, atol=1e-9)
    assert [entry["kind"] for entry in loaded.learned_from_] == ["fit", "update", "update"]


@pytest.mark.parametrize(
    "names", [int, "täsk {}".format, lambda k: date(2026, 1, 1 + k % 28) if k < 28 else date(2027, 1, k)]
)
def test_names_of_every_kind_survive(names: Any, tmp_path: Path) -> None:
    made = fitted("majority-vote", crowd(0, n=20, names=names))
    made.save(tmp_path / "crowd")
    assert aggregation.load(tmp_path / "crowd").task_ids_.tolist() == made.task_ids_.tolist()


def test_folders_are_kept_apart(tmp_path: Path) -> None:
    fitted("dawid-skene", crowd(0)).save(tmp_path / "crowd")
    with pytest.raises(ModelFolderError, match="is a folder of conal aggregate --save, not a conal model folder"):
        conal.load(tmp_path / "crowd")
    with pytest.raises(ModelFolderError, match="not a conal model folder; to predict, use conal fit, and for a report"):
        write_report(tmp_path / "crowd")
    with pytest.raises(InputError, match="exists already"):
        fitted("dawid-skene", crowd(0)).save(tmp_path / "crowd")
    with pytest.raises(InputError, match="not fitted yet"):
        aggregation.make("glad").save(tmp_path / "glad")


@pytest.mark.parametrize(
    ("tensor", "change"),
    [
        ("tasks", lambda array: array[:-1]),
        ("annotators", lambda array: array + 100),
        ("probas", lambda array: array * 2),
        ("probas", lambda array: array[:-1]),
        ("known", lambda array: array + 9),
        ("known", lambda array: array - 9),
        ("times", lambda array: array[:-1]),
        ("labels", lambda array: array - 1),
    ],
)
def test_tensors_that_do_not_fit_are_refused(tensor: str, change: Any, tmp_path: Path) -> None:
    folder = tmp_path / "crowd"
    fitted("dawid-skene", crowd(0)).update(crowd(1, first=35, n=8)).save(folder)
    tensors = load_file(folder / WEIGHTS)
    tensors[tensor] = change(tensors[tensor])
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(ModelFolderError, match="has changed since it was saved"):
        aggregation.load(folder)
    # Whoever forges the digests too meets the checks of the content.
    sign(folder)
    with pytest.raises(ModelFolderError, match="does not match this version of conal"):
        aggregation.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": [[]]}, "does not describe a conal model"),
        ({"fitted": {"objective_history_": ["\ud800"]}}, "cannot be read"),
        ({"fitted": None}, "does not match this version"),
        ({"fitted": {"fit": 1}}, "fit is no attribute that a fit learns"),
    ],
)
def test_configurations_that_no_folder_has_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = tmp_path / "crowd"
    fitted("dawid-skene", crowd(0)).save(folder)
    sign(folder, **change)
    with pytest.raises(ModelFolderError, match=message):
        aggregation.load(folder)


def test_a_folder_of_version_0_2_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "crowd"
    fitted("dawid-skene", crowd(0)).save(folder)
    config = json.loads((folder / "config.json").read_text())
    del config["fitted"]
    (folder / "config.json").write_text(json.dumps(config))
    sign(folder)
    with pytest.raises(ModelFolderError, match="aggregate the labels again"):
        aggregation.load(folder)
