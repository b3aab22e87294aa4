"""Shared mistakes by inferred and by true labels: what a run keeps, and the table and page of the experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conal import aggregation, datasets
from conal.experiments import Run, Store
from conal.experiments.commonness import CROWDS, Commonness
from conal.experiments.outputs import read_outputs, write_outputs
from conal.experiments.runs import execute
from conal.metrics import co_direction, effective_number


def test_a_run_keeps_both_figures_by_true_and_by_inferred_labels() -> None:
    settings = {"n_train": 150, "n_valid": 0, "n_test": 20, "n_annotators": 8, "labels_per_instance": 4, "seed": 2}
    kept = execute(Run("synthetic", "xconal", 0, "last", settings, {"epochs": 2}, ("commonness",)))["commonness"]
    data = datasets.load("synthetic", **settings)
    certain = np.eye(6)[data.y_true]
    assert kept["true"] == co_direction(data.annotations, certain).overall.value
    assert kept["effective_true"] == effective_number(data.annotations, certain).value
    model = aggregation.make("dawid-skene").fit(data.annotations)
    assert kept["dawid-skene"]["effective"] == effective_number(data.annotations, model.probas_).value
    assert kept["dawid-skene"]["label_accuracy"] == (model.codes_ == data.y_true).mean()
    assert kept["dawid-skene"]["effective_at_most"] == effective_number(data.annotations, model.probas_).high
    assert 1 < kept["xconal"]["effective"] <= kept["xconal"]["effective_at_most"] <= 4.5


def test_there_are_as_many_crowds_as_the_figures_need() -> None:
    """A hundred without and with nothing but common noise, twenty in between."""
    proportions = [run.data["proportion"] for run in Commonness().runs()]
    counts = {at: proportions.count(at) for at in sorted(set(proportions))}
    assert counts == {0.0: 104, 0.25: 24, 0.5: 24, 0.75: 24, 1.0: 104}
    assert {run.data["n_annotators"] for run in Commonness().runs()} == {8, 30, 200}
    assert {run.data["labels_per_instance"] for run in Commonness().runs()} == {3, 8, 10}


def figures(low: float, high: float, effective: float) -> dict[str, Any]:
    found = {"value": 0.5, "low": low, "high": high, "reason": "", "label_accuracy": 0.9}
    return found | {"effective": effective, "effective_at_most": effective + 1}


def test_table_and_page(tmp_path: Path) -> None:
    experiment = Commonness(seeds=2)
    with Store(":memory:") as store:
        for number, run in enumerate(experiment.runs()):
            told = figures(0.4, 0.6, 8.0) if number else figures(0.45, 0.6, 5.0)  # 0.42 is not in the first interval
            none = figures(0.4, 0.6, 10.0) | {"value": None, "low": None, "high": None}
            kept = {"true": 0.42, "effective_true": 8.0, "xconal": told, "dawid-skene": none}
            store.add(run, {"commonness": kept, "seconds": 1.0})
        table = experiment.table(store)
        write_outputs(experiment, store, tmp_path)
    n = len(experiment.runs())
    assert len(table) == 2 * n == 2 * len(CROWDS) * 2 * 7
    page = experiment.page(table)
    held = f"{100 * (n - 1) / n:.1f}"
    assert f"| `xconal` | all | {n} | 90.0 | {held} | {held} | 0.0 | {100 / n:.1f} | 0.08 | 0.20 |" in page
    assert f"| `dawid-skene` | all | {n} | 90.0 | \u2013 | \u2013 | 100.0 | 0.0 | \u2013 | \u2013 |" in page
    assert "| 30 annotators | 10 | `dawid-skene` | 8.00 | 10.00 | 0.0 | 11.00 | 1.38 | 0 of 7 |" in page
    assert "| 30 annotators | 3 | `xconal` | 8.00 | 8.00 | 100.0 | 9.00 | 1.12 | 0 of 7 |" in page
    assert "| 8 annotators | 3 | `xconal` | 8.00 | 7.57 | 85.7 | 8.57 | 0.75 | 1 of 7 |" in page
    assert experiment.page(read_outputs(experiment, tmp_path)) == page


@pytest.mark.parametrize("quick", [False, True])
def test_every_run_has_the_gate_of_equation_3(quick: bool) -> None:
    assert {run.data["gate"] for run in Commonness(quick=quick).runs()} == {"effects"}
