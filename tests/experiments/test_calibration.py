"""Calibration of cleaned labels: what a run measures, and how the page judges it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conal import metrics
from conal.datasets import digits
from conal.estimator import make
from conal.experiments import Store
from conal.experiments.calibration import Calibration
from conal.experiments.cleaned_labels import cleaned_labels
from conal.experiments.outputs import read_outputs, write_outputs
from conal.experiments.runner import run_missing
from helpers.real import load_or_skip


def test_claims_are_of_tasks_with_labels() -> None:
    data = digits()
    unlabelled = data.annotations.select(data.annotations.tasks != 0)  # nobody has labelled the first task
    part = replace(data, annotations=unlabelled)
    clf = make("dl-mv", epochs=3, verbose=False).fit(part.x, part.annotations)
    found = cleaned_labels(clf, part)
    probas, truth = clf.probas_[1:], part.classes[part.y_true][1:]
    assert found["claimed"] == pytest.approx(np.max(probas, axis=1).mean())
    assert found["label_accuracy"] == pytest.approx((clf.labels_[1:] == truth).mean())
    assert found["calibration_error"] == pytest.approx(
        metrics.calibration_error(truth, probas, classes=clf.classes_), abs=1e-12
    )


def test_the_page_stars_what_is_overconfident(tmp_path: Path) -> None:
    experiment = Calibration(seeds=3)
    with Store(":memory:") as store:
        for run in experiment.runs():
            more = 0.1 if run.method == "dl-cl" else 0.0
            labels = {"claimed": 0.8 + more + 0.001 * run.seed, "label_accuracy": 0.8, "calibration_error": 0.05}
            people = {"annotators": 20, "held": 19, "width": 0.2}
            store.add(run, {"seconds": 1.0, "cleaned_labels": labels, "annotator_intervals": people})
        write_outputs(experiment, store, tmp_path)
    page = experiment.page(read_outputs(experiment, tmp_path))  # from the file, as the results page is made
    assert page.count("| `dl-cl` | 90.1 | 80.0 | +10.1 (+9.9 to +10.3) \\* | 5.0 | 95.0 (20.0) |") == 3
    assert page.count("| `conal` | 80.1 | 80.0 | +0.1 (-0.1 to +0.3) | 5.0 | 95.0 (20.0) |") == 3
    assert "| `gold` |" not in page


@pytest.mark.slow
def test_a_run_keeps_both() -> None:
    load_or_skip("labelme")
    (run,) = [run for run in Calibration(quick=True, seeds=1).runs() if run.method == "dl-cl"]
    with Store(":memory:") as store:
        assert run_missing(store, [replace(run, parameters={"epochs": 5})], verbose=False) == 1
        found = store.require(replace(run, parameters={"epochs": 5}))
    assert 0 < found["cleaned_labels"]["claimed"] <= 1
    assert 0 < found["annotator_intervals"]["annotators"] <= 59
