"""The sweeps over common noise: the paper's axes, both readings, and honest words about who is ahead."""

from __future__ import annotations

from conal import experiments
from conal.datasets import load
from conal.experiments import Run, Store
from conal.experiments.runner import run_missing
from conal.experiments.sweeps import METHODS, Synthetic


def test_the_axes_are_the_papers() -> None:
    runs = Synthetic().runs()
    settings = {(r.data["common_strength"], r.data["proportion"]) for r in runs}
    assert settings == {(s, 0.5) for s in (0.4, 0.5, 0.6, 0.7, 0.8)} | {(0.4, p) for p in (0, 0.3, 0.4, 0.5, 0.6, 0.7)}
    assert {r.data["common_type"] for r in runs} == {"asymmetric", "symmetric"}
    assert {r.data["individual_strength"] for r in runs} == {0.3, 0.7}
    assert {r.method for r in runs} == set(METHODS)
    assert all(r.data["seed"] == r.seed for r in runs)
    assert len({r.hash for r in runs}) == 10 * 2 * 2 * len(METHODS) * 5  # strength 0.4 is proportion 0.5, run once


def figures(run: Run) -> dict[str, float]:
    """CoNAL one point behind AggNet, ahead of all others."""
    accuracy = {"conal": 0.90, "aggnet": 0.91}.get(run.method, 0.80)
    return {
        "test_accuracy": accuracy,
        "label_accuracy": 0.9,
        "common_confusion_error": 0.05,
        "omega_correlation": 0.4,
        "seconds": 1.0,
    }


def test_the_page_says_where_conal_is_behind_and_shows_why() -> None:
    experiment = Synthetic(seeds=1)
    with Store(":memory:") as store:
        for run in experiment.runs():
            store.add(run, figures(run))
        table = experiment.table(store)
    page = experiment.page(table)
    assert "0.6: -1.0 points against `aggnet`" in page
    assert "| mean error of the common confusion | 0.050 |" in page
    assert "| correlation of omega | 0.400 |" in page
    assert page.count("\n## ") == 8
    assert set(experiment.charts(table)) == {
        f"synthetic-{varies}-individual-{reading}" for varies in ("strength", "proportion") for reading in (0.3, 0.7)
    }


def test_quick_runs_end_to_end() -> None:
    experiment = Synthetic(quick=True, seeds=1)
    with Store(":memory:") as store:
        runs = [run for run in experiment.runs() if run.method in ("dl-mv", "conal")]
        assert run_missing(store, runs) == 4
        table = experiment.table(store)
    measured = [row for row in table.to_pylist() if row["test_accuracy"] is not None]
    assert {row["method"] for row in measured} == {"dl-mv", "conal"}
    assert all(row["test_accuracy"] > 0.5 for row in measured)


def test_settings_are_those_of_the_datasets() -> None:
    (run,) = [r for r in experiments.get("synthetic")(quick=True, seeds=1).runs() if r.method == "conal"][:1]
    data = load("synthetic", **run.data)
    assert data.truth is not None
    assert data.truth.settings.common_strength == 0.6
    assert len(data.x) == 1000
