"""The guide to true labels is true: its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import conal
from conal.io import write_annotations
from helpers.commands import run_line
from helpers.files import write_csv

GUIDE = (Path(__file__).parents[1] / "docs" / "fifty-gold-labels.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)


@pytest.mark.filterwarnings("ignore:true_labels. .* contradict every vote:conal.errors.DataWarning")
def test_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("python")
    exec(compile(code, "fifty-gold-labels.md", "exec"), {})  # noqa: S102
    alone, taught = (tuple(map(float, line.split())) for line in capsys.readouterr().out.splitlines())
    assert min(alone + taught) > 0.9


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = conal.datasets.synthetic(n_train=60, n_classes=2, n_annotators=5, seed=0)
    write_annotations(data.annotations, tmp_path / "labels.csv")
    np.save(tmp_path / "features.npy", data.x)
    write_csv(tmp_path / "gold.csv", ("task", "label"), enumerate(data.y_true[:10].tolist()))
    command, plan = (line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$"))
    run_line(f"{command} --epochs 2 --no-report")
    run_line(plan)
    assert conal.load(tmp_path / "model").metrics_["n_true_labels"] == 10
