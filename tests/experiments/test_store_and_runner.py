"""Runs and their store: nothing finished is lost or repeated, whatever happens in between."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conal.errors import InputError
from conal.experiments import Run, Store, runner
from conal.experiments.runner import run_missing
from conal.experiments.runs import execute
from conal.experiments.store import rounded

DATA: dict[str, Any] = {"n_train": 60, "n_valid": 20, "n_test": 30, "n_classes": 3, "n_annotators": 5}
FAST: dict[str, Any] = {"epochs": 2, "hidden": [8]}


def plan(n_seeds: int, **parameters: Any) -> list[Run]:
    return [Run("synthetic", "dl-mv", seed, data=DATA, parameters=FAST | parameters) for seed in range(n_seeds)]


def without_time(figures: dict[str, Any] | None) -> dict[str, Any]:
    assert figures is not None
    return {name: value for name, value in figures.items() if name != "seconds"}


def test_a_hash_stands_for_everything_and_nothing_else() -> None:
    run = Run("synthetic", "dl-mv", 1, data={"a": 1, "b": 2}, parameters={"lr": 0.1})
    assert run.hash == Run("synthetic", "dl-mv", 1, data={"b": 2, "a": 1}, parameters={"lr": 0.1}).hash
    others = [
        Run("digits", "dl-mv", 1, data=run.data, parameters=run.parameters),
        Run("synthetic", "dl-ds", 1, data=run.data, parameters=run.parameters),
        Run("synthetic", "dl-mv", 2, data=run.data, parameters=run.parameters),
        Run("synthetic", "dl-mv", 1, "last", data=run.data, parameters=run.parameters),
        Run("synthetic", "dl-mv", 1, data={"a": 1}, parameters=run.parameters),
        Run("synthetic", "dl-mv", 1, data=run.data, parameters={"lr": 0.2}),
    ]
    assert len({run.hash, *(other.hash for other in others)}) == 7


def test_results_stay_and_are_not_replaced(tmp_path: Path) -> None:
    one, two = plan(2)
    with Store(tmp_path / "s.sqlite") as store:
        assert store.missing([one, two, one]) == [one, two]
        store.add(one, {"test_accuracy": 0.5, "seconds": 1.0})
        store.add(one, {"test_accuracy": 0.9, "seconds": 1.0})
    with Store(tmp_path / "s.sqlite") as store:
        assert store.get(one) == {"test_accuracy": 0.5, "seconds": 1.0}
        assert store.get(two) is None
        assert store.missing([one, two]) == [two]
        assert len(store) == 1


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.sqlite").write_text("not a database, but long enough to be looked at by SQLite" * 10)
    with pytest.raises(InputError, match="is not a store of results"):
        Store(tmp_path / "s.sqlite")


def test_a_full_disk_is_a_message_and_finished_runs_stay(tmp_path: Path) -> None:
    first, second = Run("synthetic", "dl-mv"), Run("synthetic", "conal")
    with Store(tmp_path / "runs.sqlite") as store:
        store.add(first, {"seconds": 1.0})
        with sqlite3.connect(tmp_path / "runs.sqlite") as other:
            (pages,) = other.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite then says that the disk is full
        with pytest.raises(OSError, match=r"runs\.sqlite: database or disk is full; finished runs are kept"):
            store.add(second, {"seconds": 1.0, "much": "x" * 100_000})
        assert store.get(first) == {"seconds": 1.0}
        assert store.missing([first, second]) == [second]


def test_what_is_measured() -> None:
    """By hand from a fitted model: accuracies, and recovery where the truth is known."""
    figures = execute(Run("synthetic", "conal", 0, "annotations", data=DATA, parameters=FAST))
    assert figures["selection"] == "holdout_log_likelihood"
    assert 0 <= figures["test_accuracy"] <= 1
    assert {"common_confusion_error", "annotator_confusion_error", "omega_correlation"} <= figures.keys()
    gold = execute(Run("synthetic", "gold", 0, data=DATA, parameters={"epochs": 60, "hidden": [16]}))
    assert gold["test_accuracy"] > 0.8
    assert gold["label_accuracy"] == 1.0
    assert "common_confusion_error" not in gold


def test_the_test_protocol_selects_on_test_and_the_others_do_not() -> None:
    peeked = execute(Run("synthetic", "dl-mv", 0, "test", data=DATA, parameters={"epochs": 12, "hidden": [8]}))
    assert peeked["best_score"] == pytest.approx(peeked["test_accuracy"])
    last = execute(Run("synthetic", "dl-mv", 0, "last", data=DATA, parameters={"epochs": 12, "hidden": [8]}))
    assert last["best_epoch"] == 12
    with pytest.raises(InputError, match="has no gold validation labels"):
        execute(Run("synthetic", "dl-mv", data={**DATA, "n_valid": 0}))


def test_only_what_is_missing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        assert run_missing(store, plan(2)) == 2
        seen: list[int] = []

        def noted(run: Run) -> dict[str, Any]:
            seen.append(run.seed)
            return execute(run)

        monkeypatch.setattr(runner, "execute", noted)
        assert run_missing(store, plan(4)) == 2
        assert seen == [2, 3]
        assert run_missing(store, plan(4)) == 0


def test_processes_give_the_same_results(tmp_path: Path) -> None:
    runs = plan(3)
    with Store(tmp_path / "one.sqlite") as one, Store(tmp_path / "two.sqlite") as two:
        run_missing(one, runs)
        run_missing(two, runs, jobs=2)
        for run in runs:
            assert without_time(one.get(run)) == without_time(two.get(run))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_same_results(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    runs = plan(2)
    with (
        Store(tmp_path / "one.sqlite") as one,
        Store(tmp_path / "two.sqlite") as two,
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        run_missing(one, runs)
        run_missing(two, runs, jobs=2, backend="dask")
        for run in runs:
            assert without_time(one.get(run)) == without_time(two.get(run))


SCRIPT = """
import sys
from conal.experiments import Run, Store
from conal.experiments.runner import run_missing
data, parameters = eval(sys.argv[2]), eval(sys.argv[3])
runs = [Run("synthetic", "dl-mv", seed, data=data, parameters=parameters) for seed in range(6)]
with Store(sys.argv[1]) as store:
    run_missing(store, runs)
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """A real process, killed with -9 after its first results; this one keeps them and adds the others."""
    path = tmp_path / "s.sqlite"
    parameters = {"epochs": 150, "hidden": [8]}
    command = [sys.executable, "-c", SCRIPT, str(path), repr(DATA), repr(parameters)]
    process = subprocess.Popen(command)
    end = time.monotonic() + 60
    while not _finished(path):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = _finished(path)
    assert 1 <= len(before) < 6
    runs = plan(6, **parameters)
    with Store(path) as store:
        run_missing(store, runs)
        after = _finished(path)
        assert len(after) == 6
        assert {key: after[key] for key in before} == before  # kept as they were, time stamps included
        for run in runs[:2]:  # the first is that of the killed process
            assert without_time(store.get(run)) == rounded(without_time(execute(run)))


def _finished(path: Path) -> dict[str, tuple[Any, ...]]:
    if not path.exists():
        return {}
    connection = sqlite3.connect(path, timeout=10)
    try:
        return {row[0]: row for row in connection.execute("SELECT * FROM runs")}
    except sqlite3.OperationalError:  # the table is not there yet
        return {}
    finally:
        connection.close()
