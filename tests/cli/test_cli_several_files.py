"""Commands that take several files of labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import conal as package
from conal import Annotations

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run


@pytest.fixture
def halves(crowd: Crowd) -> tuple[Path, Path]:
    """The labels of the crowd in two files of different formats, some tasks in both."""
    one, two = crowd.folder / "one.csv", crowd.folder / "two.jsonl"
    one.write_text("task,worker,label\n" + "".join(f"{t},{w},{y}\n" for t, w, y in crowd.rows[:100]))
    keys = ("task", "worker", "label")
    two.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in crowd.rows[100:]))
    return one, two


def test_inspect(conal: Run, crowd: Crowd, halves: tuple[Path, Path]) -> None:
    run = conal("inspect", *halves)
    lines = run.out.splitlines()
    assert run.code == 0
    assert lines[0] == f"{halves[0]}, {halves[1]}: a table with one annotation per row (csv, jsonl)"
    assert lines[1].startswith(f"  {halves[0]} (a table with one annotation per row): 100 labels by ")
    assert lines[2].startswith(
        f"  {halves[1]} (a table with one annotation per row): {len(crowd.rows) - 100} labels by "
    )
    assert lines[3] == f"{len(crowd.rows)} labels by 6 annotators on 90 tasks, 3 classes"


def test_aggregate_and_convert_as_one_file(conal: Run, crowd: Crowd, halves: tuple[Path, Path], tmp_path: Path) -> None:
    whole, joined, table = tmp_path / "whole.csv", tmp_path / "joined.csv", tmp_path / "table.csv"
    assert conal("aggregate", crowd.labels, "--out", whole, "--quiet").code == 0
    found = conal("aggregate", *halves, "--out", joined, "--json").json()
    assert [file["n_annotations"] for file in found["files"]] == [100, len(crowd.rows) - 100]
    assert joined.read_bytes() == whole.read_bytes()
    run = conal("convert", *halves, "--to", "csv", "--out", table)
    assert f"{halves[1]} (a table with one annotation per row)" in run.out
    assert Annotations.read(table) == Annotations.read(crowd.labels)
    refusal = conal("convert", *halves, "--to", "csv", "--out", halves[0], "--overwrite").refusal()
    assert f"{halves[0]}: is an input file" in refusal


def test_fit(conal: Run, crowd: Crowd, halves: tuple[Path, Path], tmp_path: Path) -> None:
    options = ("--features", crowd.features, "--epochs", 2, "--no-report", "--quiet")
    assert conal("fit", crowd.labels, *options, "--out", tmp_path / "whole").code == 0
    assert conal("fit", *halves, *options, "--out", tmp_path / "joined").code == 0
    one, two = (package.load(tmp_path / name).predict_proba(crowd.x) for name in ("whole", "joined"))
    np.testing.assert_array_equal(one, two)
    refusal = conal("fit", *halves, *options, "--method", "gold", "--out", tmp_path / "gold").refusal()
    assert "the method gold takes one file of true labels" in refusal


def test_fit_takes_the_texts_of_all_exports(conal: Run, tmp_path: Path) -> None:
    kinds = {"cat": "meow purr fur", "dog": "woof bark tail"}
    tasks = [
        {
            "id": k,
            "data": {"text": f"{kinds[y]} {k}"},
            "annotations": [
                {"completed_by": w, "result": [{"from_name": "k", "type": "choices", "value": {"choices": [y]}}]}
                for w in (1, 2)
            ],
        }
        for k, y in enumerate(["cat", "dog"] * 12)
    ]
    one, two = tmp_path / "a.json", tmp_path / "b.json"
    one.write_text(json.dumps(tasks))
    two.write_text(json.dumps([task | {"id": 100 + k} for k, task in enumerate(tasks)]))
    run = conal("fit", one, two, "--text", one, "--out", tmp_path / "m", "--epochs", 2, "--no-report", "--json").json()
    assert (run["n_tasks"], [file["n_tasks"] for file in run["files"]]) == (48, [24, 24])
