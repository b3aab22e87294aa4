"""Crowds of every size: runs on parts of datasets, what they are compared with, and the page."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from conal import aggregation
from conal.experiments import Run, Store
from conal.experiments.runs import execute, load_data
from conal.experiments.small import Sizes, Small


def test_a_run_is_measured_beside_two_stages() -> None:
    data = {"n_train": 200, "n_valid": 0, "n_test": 0, "n_classes": 3, "n_annotators": 8}
    sample = {"n_tasks": 40, "seed": 2}
    run = Run("synthetic", "xconal", 2, "own", data | {"sample": sample}, {"epochs": 5}, keep=("two_stage",))
    found = execute(run)
    part = load_data(run)
    assert part.test is not None
    assert (len(part.x), len(part.test)) == (40, 160)
    inferred = aggregation.make("dawid-skene").fit(part.annotations).codes_
    rival = found["two_stage"]["dawid-skene"]
    assert rival["label_accuracy"] == pytest.approx((inferred == part.y_true).mean())
    predicted = LogisticRegression(max_iter=1000).fit(part.x, inferred).predict(part.test.x)
    assert rival["test_accuracy"] == pytest.approx((predicted == part.test.y).mean())
    assert 0 < found["test_accuracy"] <= 1


def test_every_crowd_has_its_runs() -> None:
    experiment = Small()
    assert len(experiment.seeds) == 20
    runs = experiment.runs()
    assert len({run.hash for run in runs}) == len(runs) == 20 * len(Small.crowds) * len(Small.sizes)
    juries = {run.data["jury"] for run in runs if run.dataset == "llm_jury"}
    assert len(juries) == 8
    assert len(Small(quick=True).runs()) == 2 * 2 * 2
    growing = Sizes().runs()
    assert {run.data["sample"]["n_tasks"] for run in growing} == {300, 1_000, 5_000, 20_000}
    assert len({run.hash for run in growing}) == len(growing) == 10 * 2 * 4


def test_table_and_page() -> None:
    experiment = Small(quick=True)
    with Store(":memory:") as store:
        for number, run in enumerate(experiment.runs()):
            votes = {"label_accuracy": 0.6, "test_accuracy": 0.4}
            rivals = {"dawid-skene": {"label_accuracy": 0.7, "test_accuracy": 0.5}, "majority-vote": votes}
            ours = {"label_accuracy": 0.65 - 0.02 * (number % 2), "test_accuracy": 0.55}
            store.add(run, ours | {"two_stage": rivals, "seconds": 1.0})
        table = experiment.table(store)
    assert len(table) == len(experiment.runs())
    page = experiment.page(table)
    reach = 12.706 * np.std([5, 7], ddof=1) / np.sqrt(2)  # Student's t with one degree of freedom
    gaps = [f"{gap:+.1f} ({gap - reach:+.1f} to {gap + reach:+.1f})" for gap in (-6, 4)]
    assert f"| LabelMe | 50 | 64.0 | 70.0 | {gaps[0]} | 60.0 | {gaps[1]} |" in page
    # Two crowds with two draws each; the sizes of a draw count as one.
    reach = 3.182 * np.std([5, 7, 5, 7], ddof=1) / 2
    gaps = [f"{gap:+.1f} ({gap - reach:+.1f} to {gap + reach:+.1f})" for gap in (-6, 4)]
    assert f"| all | all | 64.0 | 70.0 | {gaps[0]} \\* | 60.0 | {gaps[1]} |" in page
