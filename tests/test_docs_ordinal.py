"""The guide to grades and refused answers is true: its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow.csv as pv
import pytest

from conal.datasets import ordinal_crowd
from helpers.commands import run_line
from helpers.files import write_csv

GUIDE = (Path(__file__).parents[1] / "docs" / "ordinal.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)


def test_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("python")
    exec(compile(code, "ordinal.md", "exec"), {})  # noqa: S102
    *_, ours, theirs, alpha = capsys.readouterr().out.splitlines()
    assert float(ours.split()[1]) < float(theirs.split()[1])
    assert 0 < float(alpha) < 1


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    crowd, _ = ordinal_crowd(n_tasks=40, seed=0)
    labels = np.where(np.arange(crowd.n_annotations) % 9 == 0, "refused", crowd.classes[crowd.labels].astype(str))
    rows = zip(crowd.tasks, crowd.annotators, labels, strict=True)
    write_csv(tmp_path / "grades.csv", ("task", "worker", "label"), rows)
    commands = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$")]
    assert len(commands) == 2
    for command in commands:
        run_line(command)
    table = pv.read_csv(tmp_path / "clean.csv")
    assert {"mean", "median", "low", "high", "proba_5"} <= set(table.column_names)
    assert sum(pv.read_csv(tmp_path / "judges.csv")["num_examples_refused"].to_pylist()) > 0
