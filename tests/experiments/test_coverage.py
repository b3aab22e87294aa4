"""The coverage of intervals: the truth that they are held against, and the table and page of the experiment."""

from __future__ import annotations

import numpy as np
import pytest

from conal import datasets
from conal.experiments import Run, Store
from conal.experiments.coverage import CROWDS, METHODS, Coverage
from conal.experiments.report_measurements import true_figures
from conal.experiments.runs import execute


def test_the_truth_of_annotators_and_pairs() -> None:
    data = datasets.load("synthetic", n_train=60, n_valid=0, n_test=5, n_classes=3, n_annotators=4, seed=1)
    quality, shares = true_figures(data)
    crowd, truth = data.annotations, data.truth
    assert truth is not None
    right: list[list[float]] = [[] for _ in range(4)]
    rows: list[list[np.ndarray[tuple[int], np.dtype[np.float64]]]] = [[] for _ in range(3)]
    for k, (task, r) in enumerate(zip(crowd.tasks, crowd.annotators, strict=True)):
        z, omega = truth.z[task], truth.omega[k]
        row = omega * truth.pi_g[z] + (1 - omega) * truth.pi_r[r, z]
        right[r].append(row[z])
        rows[z].append(row)
    np.testing.assert_allclose(quality, [np.mean(values) for values in right])
    np.testing.assert_allclose(shares, [np.mean(values, axis=0) for values in rows])


def test_a_run_counts_intervals_and_those_that_hold() -> None:
    settings = {"n_train": 150, "n_valid": 0, "n_test": 20, "n_annotators": 8, "seed": 2}
    run = Run("synthetic", "dl-ds", 0, "own", data=settings, parameters={"epochs": 3}, keep=("coverage",))
    kept = execute(run)["coverage"]
    assert kept["annotators"] == 8
    assert 0 <= kept["annotators_held"] <= 8
    assert 0 < kept["pairs_held"] <= kept["pairs"] <= 20
    assert 0 < kept["pairs_width"] < kept["annotators_width"] < 1


def test_table_and_page() -> None:
    experiment = Coverage(seeds=2)
    assert len(experiment.runs()) == 2 * len(CROWDS) * len(METHODS)
    assert len(Coverage().seeds) == 10
    with Store(":memory:") as store:
        for number, run in enumerate(experiment.runs()):
            kept = {"annotators": 30, "annotators_held": 30 - 3 * (number % 2), "annotators_width": 0.2}
            kept |= {"pairs": 20, "pairs_held": 19, "pairs_width": 0.05}
            store.add(run, {"coverage": kept, "label_accuracy": 0.9, "seconds": 1.0})
        table = experiment.table(store)
    assert len(table) == len(experiment.runs())
    page = experiment.page(table)
    assert "| 2,000 tasks, 30 annotators | `xconal` | 90.0 | 95.0 ± 5.0 (20) | 95.0 ± 0.0 (5) |" in page
    assert "2 crowds each" in page


@pytest.mark.slow
def test_the_default_methods_intervals_hold_the_truth() -> None:
    """Nominal 95 %, within five points, over a few crowds of the experiment."""
    experiment = Coverage(quick=True)
    kept = [execute(run)["coverage"] for run in experiment.runs()]
    for kind in ("annotators", "pairs"):
        share = sum(row[f"{kind}_held"] for row in kept) / sum(row[kind] for row in kept)
        assert share >= 0.90, (kind, share)
