"""The guide to juries is true: its examples run, one after the other, and show what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from helpers.commands import run_line

GUIDE = (Path(__file__).parents[1] / "docs" / "juries.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:true_labels. .* contradict every vote:conal.errors.DataWarning")
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    for language, code in re.findall(r"```(python|console)\n(.*?)```", GUIDE, flags=re.DOTALL):
        if language == "python":
            exec(compile(code, "juries.md", "exec"), found)  # noqa: S102
        else:
            run_line(code.removeprefix("$ ").strip())
    printed = capsys.readouterr().out.splitlines()
    (shares,) = (line for line in printed if re.fullmatch(r"0\.\d+ 0\.\d+", line))
    votes, inferred = map(float, shares.split())
    assert 0.8 < votes <= inferred
    families = [{name.split("-")[0] for name in group.tolist()} for group in found["found"].groups]
    assert families
    assert all(len(family) == 1 for family in families)  # no group mixes families
    verdicts = {row["worker"]: row["verdict"] for row in found["jury"]["judges"]}
    assert "nothing" in (verdicts["oak-xs"], verdicts["elm-xs"])
    assert "nothing" not in (verdicts["oak-l"], verdicts["elm-l"], verdicts["fir-l"])
    report = json.loads((tmp_path / "jury" / "report.json").read_text(encoding="utf-8"))
    assert report["jury"]["true_labels"] == 50
    assert report["shared_mistakes"]["effective_number"]["value"] < found["found"].n
    assert {"3 1.0 True", "4 0.0 False"} <= set(printed)
