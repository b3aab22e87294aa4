"""Runs as text: the same on every machine, picked up again, and refused if somebody changed them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conal.cli.app import app
from conal.errors import InputError
from conal.experiments import Run, Store, runner
from conal.experiments.run_files import FOLDER, read_runs, take_runs, write_runs
from conal.experiments.store import Finished, versions

FIGURES: dict[str, Any] = {"test_accuracy": 0.8712121212121212, "seconds": 1.25, "history": [{"epoch": 1, "a": 1 / 3}]}
RUNS = [
    Run("synthetic", method, seed, data={"n_train": 50, "sample": {"seed": 1}}, parameters={"hidden": [8]})
    for method in ("dl-mv", "conal")
    for seed in (1, 0)
]


def filled(path: Path, runs: list[Run]) -> None:
    with Store(path) as store:
        for run in runs:
            store.add(run, FIGURES)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    filled(tmp_path / "a.sqlite", [*RUNS, Run("labelme", "xconal", keep=("right",), gold={"n": 5})])
    with Store(tmp_path / "a.sqlite") as first, Store(tmp_path / "b.sqlite") as second:
        paths = write_runs(first, tmp_path / "runs")
        assert [path.name for path in paths] == ["labelme.jsonl", "synthetic.jsonl"]
        assert take_runs(second, read_runs(tmp_path / "runs")) == 5
        by_hash = {each.run.hash: each for each in first.finished()}
        assert {each.run.hash: each for each in second.finished()} == by_hash
        assert second.require(RUNS[0]) == {"test_accuracy": 0.8712121, "seconds": 1.25} | {
            "history": [{"epoch": 1, "a": 0.3333333}]
        }
        assert next(iter(by_hash.values())).made_by == versions()
        assert take_runs(second, read_runs(tmp_path / "runs")) == 0


def test_the_order_of_running_does_not_matter(tmp_path: Path) -> None:
    texts = []
    for name, runs in (("a", RUNS), ("b", RUNS[::-1])):
        filled(tmp_path / f"{name}.sqlite", runs)
        with Store(tmp_path / f"{name}.sqlite") as store:
            (path,) = write_runs(store, tmp_path / name)
            texts.append(path.read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    lines = texts[0].splitlines()
    assert len(lines) == 4
    assert [json.loads(line)["run"]["method"] for line in lines] == ["conal", "conal", "dl-mv", "dl-mv"]


def test_present_code_replaces_other_code_and_nothing_else_does() -> None:
    run = RUNS[0]
    old = Finished(run, FIGURES | {"test_accuracy": 0.1}, "0123456789ab", {})
    other = old._replace(figures=FIGURES | {"test_accuracy": 0.2}, code="ba9876543210")
    present = old._replace(figures=FIGURES, code=run.code)
    with Store(":memory:") as store:
        assert take_runs(store, [old]) == 1
        assert take_runs(store, [other]) == 0
        assert store.require(run)["test_accuracy"] == 0.1
        assert store.stale([run]) == [run]
        assert take_runs(store, [present]) == 1
        assert store.stale([run]) == []
        assert take_runs(store, [old]) == 0
        assert store.require(run) == FIGURES


@pytest.mark.parametrize("order", [1, -1])
def test_of_a_run_that_joined_files_have_twice_the_present_code_wins(order: int) -> None:
    run = RUNS[0]
    old = Finished(run, FIGURES | {"test_accuracy": 0.1}, "0123456789ab", {})
    present = old._replace(figures=FIGURES, code=run.code)
    with Store(":memory:") as store:
        assert take_runs(store, [old, present][::order]) == 1
        assert store.require(run) == FIGURES
        assert store.stale([run]) == []


def test_a_method_that_is_gone_is_kept_but_never_present() -> None:
    gone = replace(RUNS[0], method="no-such-method")
    found = Finished(gone, FIGURES, "0123456789ab", {})
    with Store(":memory:") as store:
        assert take_runs(store, [found]) == 1
        assert take_runs(store, [found._replace(code="ba9876543210")]) == 0


@pytest.mark.parametrize(
    "line", ["{", '{"run": {}, "code": "a"}', '{"run": {"colour": 1}, "made_by": "", "figures": {}}']
)
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "music.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=r"music\.jsonl, line 1: is not a finished run .*restore the file"):
        list(read_runs(tmp_path))


def test_the_command_goes_on_from_text_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one machine wrote as text, another one does not run again; its tables are the same."""
    monkeypatch.setattr(runner, "EVERY", -1.0)
    words = ["reproduce", "recovery", "--quick", "--json", "--out"]
    first = CliRunner().invoke(app, [*words, str(tmp_path / "a")])
    assert first.exit_code == 0, first.output
    told = [line for line in first.stderr.splitlines() if line.startswith("recovery: ")]  # as a log shows it
    assert [line.partition(",")[0] for line in told] == [f"recovery: {left} of 4 runs to do" for left in (3, 2, 1)]
    assert json.loads(first.stdout)["runs"] == 4
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / FOLDER).rename(tmp_path / "b" / FOLDER)
    second = CliRunner().invoke(app, [*words, str(tmp_path / "b")])
    assert json.loads(second.stdout)["runs"] == 0
    assert (tmp_path / "b" / "recovery.csv").read_bytes() == (tmp_path / "a" / "recovery.csv").read_bytes()
