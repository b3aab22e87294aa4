"""The guide to texts is true: its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from helpers.commands import run_line
from helpers.files import write_csv

GUIDE = (Path(__file__).parents[1] / "docs" / "text.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)


def test_python_example_runs() -> None:
    (code,) = blocks("python")
    names: dict[str, object] = {}
    exec(compile(code, "text.md", "exec"), names)  # noqa: S102
    assert len(names["clf"].labels_) == 6  # type: ignore[attr-defined]


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    texts = [f"{rng.choice(['good', 'fine'] if k % 2 else ['bad', 'poor'])} film {k % 7}" for k in range(40)]
    rows = [(k, w, "pos" if (k % 2) == (rng.random() < 0.8) else "neg", texts[k]) for k in range(40) for w in range(3)]
    write_csv(tmp_path / "labels.csv", ("task", "worker", "label", "remark"), rows)
    write_csv(tmp_path / "texts.csv", ("task", "text"), enumerate(texts))
    write_csv(tmp_path / "new_texts.csv", ("id", "text"), [("a", "good"), ("b", "a poor film")])
    commands = [line[2:] for block in blocks("console") for line in block.splitlines()]
    assert len(commands) == 6
    for command in commands[:3]:
        more = "--epochs 3 --overwrite" if command.startswith("conal fit") else ""
        run_line(f"{command} {more}")
    assert (tmp_path / "predictions.csv").read_text().splitlines()[0] == "task,label,probability,proba_neg,proba_pos"
