"""What experiments will cost: shared and finished runs cost nothing, stored times are used."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from conal.cli.app import app
from conal.experiments import Run, Store
from conal.experiments.bounds import Bound
from conal.experiments.costs import FACTORS, RATES, estimate, estimated_seconds
from conal.experiments.outputs import write_outputs
from conal.experiments.real_tables import Table1, Table3


def test_a_run_costs_tasks_times_epochs_times_networks() -> None:
    run = Run("labelme", "dl-mv", parameters={"epochs": 50, "ensemble": 2})
    assert estimated_seconds(run) == pytest.approx(1e-6 * RATES["dl-mv"] * FACTORS["labelme"] * 1000 * 50 * 2)
    part = Run("synthetic", "dl-mv", data={"n_train": 3000, "sample": {"n_tasks": 300}}, parameters={"epochs": "auto"})
    assert estimated_seconds(part) == pytest.approx(1e-6 * RATES["dl-mv"] * FACTORS["synthetic"] * 300 * 100)
    assert estimated_seconds(part, {("synthetic", "dl-mv"): 1.0}) == pytest.approx(0.03)


def test_shared_and_finished_runs_are_free_and_stored_times_count(tmp_path: Path) -> None:
    first, third = Table1(seeds=1), Table3(seeds=1)
    with Store(":memory:") as store:
        costs = estimate([first, third], store, tmp_path)
        assert (costs[0].runs, costs[1].runs) == (len(first.runs()), 0)
        done = [run for run in first.runs() if run.method == "dl-cl" and run.dataset == "labelme"]
        store.add(done[0], {"seconds": 10 * estimated_seconds(done[0])})
        (after,) = estimate([first], store, tmp_path)
    expected = costs[0].seconds - estimated_seconds(done[0]) + 9 * sum(map(estimated_seconds, done[1:]))
    assert after.runs == costs[0].runs - 1
    assert after.seconds == pytest.approx(expected)


def test_a_table_that_the_present_code_made_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bound, "full_size", (2, 20))
    experiment = Bound()
    with Store(":memory:") as store:
        assert estimate([experiment], store, tmp_path)[0].seconds == 60 * Bound.minutes > 0
        write_outputs(experiment, store, tmp_path)
        assert estimate([experiment], store, tmp_path)[0].seconds == 0
        written = (tmp_path / "bound.csv").read_text()
        monkeypatch.setattr(Bound, "table", lambda *_: pytest.fail("it was made again"))
        write_outputs(experiment, store, tmp_path)
        assert (tmp_path / "bound.csv").read_text() == written
        monkeypatch.undo()
        monkeypatch.setattr(Bound, "full_size", (1, 20))
        (tmp_path / "bound.csv").write_text(written.replace(experiment.code(), "0123456789ab"))
        write_outputs(experiment, store, tmp_path)  # other code made it
        assert (tmp_path / "bound.csv").read_text().count("\n") == 2


def test_fewer_seeds_are_another_table() -> None:
    assert Bound(seeds=1).code() != Bound().code() == Bound(seeds=5).code()


def test_the_command_says_what_it_will_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bound, "full_size", (2, 20))
    result = CliRunner().invoke(app, ["reproduce", "bound", "--out", str(tmp_path)])
    assert "tables without runs to do, about 1 CPU minutes" in result.stderr
