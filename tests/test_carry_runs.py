"""Runs are carried over changes that they do not execute, and only over those."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from runpy import run_path

import pytest

import carry_runs
from carry_runs import ROOT, executed, in_version, kind_of, shortened
from conal.experiments import Run
from conal.experiments.run_files import CARRIED, read_runs, write_runs
from conal.experiments.store import Finished, Store, versions
from differing_lines import difference

PRESENT = """
'''A module.'''
import os

SIZE = 3

class Crowd:
    level = 1

    def of(self, data):
        '''Words.'''
        if data is None:
            raise ValueError(
                'nothing',
            )
        return data  # why

def size(x):
    return x
"""


@pytest.mark.parametrize(
    ("before", "after", "old", "new"),
    [
        ("'''A module.'''", "'''Other words.'''", [], []),
        ("'''Words.'''", "# Words.", [], []),
        ("return data  # why", "return (data)", [], []),
        ("'nothing',", "'no data',", [13, 14, 15], [13, 14, 15]),  # the whole statement, whose parts have no lines
        ("data is None", "data is None or len(data) == 0", [12], [12]),
        ("def size(x):\n", "def size(x, more=0):\n", [18], [18]),
        ("return x\n", "if x:\n        return x\n    return None\n", [19], [19, 20, 21]),
        ("def size(x):", "def other(x):\n    return x\n\ndef size(x):", [], [18, 19]),
        ("SIZE = 3", "SIZE = 3\nOTHER = 4", [], [6]),
        ("import os\n", "import os\nimport sys\n", [], [4]),
        ("import os\n", "import os, sys\n", [], [3]),
    ],
)
def test_lines_that_differ(before: str, after: str, old: list[int], new: list[int]) -> None:
    assert PRESENT.count(before) == 1
    assert difference(PRESENT, PRESENT.replace(before, after)) == (old, new, [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SIZE = 3", "SIZE = 4"),
        ("level = 1", "level = 2"),
        ("import os", "import sys as os"),
        ("import os", "from path import os"),
        ("SIZE = 3", "SIZE = 3\nSIZE += 1"),
        ("SIZE = 3", "SIZE = 3\nprint(SIZE)"),
        ("class Crowd:", "class Crowd(dict):"),
    ],
)
def test_what_imports_execute_is_refused(before: str, after: str) -> None:
    assert difference(PRESENT, PRESENT.replace(before, after)).refused


def test_executed_lines_are_seen(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("def f(x):\n    if x:\n        return 1\n    return 2\n")
    f: Callable[[int], int] = run_path(str(file))["f"]
    lines = {str(file): [1, 3, 4]}
    assert executed(lines, lambda: f(1)) == {str(file): [1, 3]}
    assert executed(lines, lambda: f(0)) == {str(file): [1, 4]}
    assert executed({str(file): [3]}, lambda: f(0)) == {}
    assert executed({str(tmp_path / "other.py"): [1]}, lambda: f(0)) == {}


def test_runs_of_a_kind_differ_in_numbers_alone() -> None:
    run = Run("music", "conal", parameters={"lr": 0.1, "schedule": "cosine", "ensemble": 5})
    alike = Run("music", "conal", seed=3, parameters={"lr": 0.2, "schedule": "cosine", "ensemble": 3})
    others = [
        Run("music", "conal", parameters={"lr": 0.1, "schedule": "none", "ensemble": 5}),
        Run("music", "conal", protocol="last", parameters=run.parameters),
        Run("music", "conal", parameters=run.parameters, keep=("right",)),
        Run("music", "conal", parameters=run.parameters, gold={"n": 5}),
    ]
    assert kind_of(run) == kind_of(alike)
    assert len({kind_of(run), *map(kind_of, others)}) == 5
    assert shortened(run).parameters == {"lr": 0.1, "schedule": "cosine", "ensemble": 2, "epochs": 2}
    assert shortened(Run("music", "xconal", parameters={"epochs": "auto"})).parameters == {"epochs": "auto"}
    assert shortened(Run("music", "dawid-skene", gold={"n": 5})).parameters == {}


UNREACHED = "            return data\n", "            return data\n        if data == 0:\n            data = None\n"
REACHED = "        first, *others = own", "        len('')\n        first, *others = own"
TINY = {"n_train": 60, "n_valid": 20, "n_test": 20}


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An earlier version of the package: a statement that no run executes, and one of the crowd layer's alone."""
    source = tmp_path / "earlier" / "src"
    shutil.copytree(ROOT / "src" / "conal", source / "conal", ignore=shutil.ignore_patterns("__pycache__"))
    for name, (before, after) in {"data/annotations.py": UNREACHED, "methods/crowd_layer.py": REACHED}.items():
        text = (source / "conal" / name).read_text()
        assert before in text
        (source / "conal" / name).write_text(text.replace(before, after, 1))
    monkeypatch.setattr(carry_runs, "source_of", lambda commit, folder: source)
    return source


def keep(folder: Path, earlier: Path) -> None:
    """Keep two runs as the earlier version made them."""
    runs = [Run("synthetic", name, data=TINY, parameters={"epochs": 2}) for name in ("dl-mv", "dl-cl")]
    with Store(":memory:") as store:
        for run in runs:
            store.add(run, carry_runs.figures_of(run))
        write_runs(store, folder)
        codes = in_version(earlier, "describe", {"folder": str(folder)})["codes"]
        store.put(*(each._replace(code=code) for each, code in zip(list(read_runs(folder)), codes, strict=True)))
        write_runs(store, folder)


@pytest.mark.slow
def test_runs_are_carried_over_what_they_do_not_execute(earlier: Path, tmp_path: Path) -> None:
    keep(tmp_path / "runs", earlier)
    before = {each.run.method: each for each in read_runs(tmp_path / "runs")}
    assert all(each.code != each.run.code for each in before.values())
    carry_runs.carry("abc1234", tmp_path / "runs")
    after = {each.run.method: each for each in read_runs(tmp_path / "runs")}
    assert after["dl-cl"] == before["dl-cl"]
    assert after["dl-mv"].code == after["dl-mv"].run.code
    assert after["dl-mv"].made_by == {**versions(), CARRIED: "abc1234"}
    assert after["dl-mv"].figures == before["dl-mv"].figures


def test_a_repeated_run_must_give_what_is_kept() -> None:
    run = Run("synthetic", "dl-mv", data=TINY, parameters={"epochs": 2})
    kept = Finished(run, carry_runs.as_kept(run), run.code, versions())
    carry_runs.repeat([kept])
    kept.figures["label_accuracy"] += 0.001
    for each in (kept, kept._replace(made_by=versions() | {CARRIED: "abc1234"})):  # also if it was carried before
        with pytest.raises(SystemExit, match="seed 0: not as kept: label_accuracy"):
            carry_runs.repeat([each])
