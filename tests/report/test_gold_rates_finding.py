"""Rates that true labels measure, in the report: after training with them, at random and as planned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import conal
from conal.datasets import CrowdDataset
from conal.errors import InputError
from conal.report.page import render

pytestmark = pytest.mark.filterwarnings("ignore:true_labels.*contradict every vote")


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return conal.datasets.synthetic(n_train=500, n_classes=4, n_annotators=10, seed=2)


def fitted(data: CrowdDataset, true_labels: Any) -> Any:
    return conal.CrossCoNAL(epochs=12, verbose=False).fit(data.x, data.annotations, true_labels=true_labels)


def test_random_true_labels_measure_the_labels(data: CrowdDataset) -> None:
    rows = np.random.default_rng(0).choice(500, 60, replace=False)
    clf = fitted(data, dict(zip(rows.tolist(), data.classes[data.y_true[rows]].tolist(), strict=True)))
    found = clf.results_.report["gold_rates"]
    assert (found["n_gold"], found["design"]) == (60, "random")
    crowd = data.annotations
    right = crowd.labels == data.y_true[crowd.tasks]
    assert found["crowd"]["low"] <= right.mean() <= found["crowd"]["high"]
    unseen = clf.results_.findings.evidence.unseen_posterior
    accuracy = (unseen.argmax(1) == data.y_true).mean()
    assert found["cleaned"]["low"] <= accuracy <= found["cleaned"]["high"]
    shares = np.bincount(data.y_true, minlength=4) / 500
    held = [each["low"] <= share <= each["high"] for each, share in zip(found["by_class"], shares, strict=True)]
    assert sum(held) >= 3
    assert (unseen[rows].max(1) < 1).mean() > 0.9  # while their own labels are certain
    assert (clf.probas_[rows].max(1) == 1).all()
    page = render(clf.results_.report)
    assert "Measured by true labels" in page
    assert ">Measured by 60 true labels</p>" in page
    assert "count as a random sample" in page


def test_planned_true_labels_bring_their_probabilities(data: CrowdDataset) -> None:
    rows = np.arange(0, 500, 10)
    table = pa.table(
        {"task": rows, "label": data.classes[data.y_true[rows]], "inclusion_probability": np.linspace(0.05, 1, 50)}
    )
    found = fitted(data, table)
    section = found.results_.report["gold_rates"]
    assert section["design"] == "planned"
    assert "the probabilities by which their tasks were drawn" in render(found.results_.report)
    shared = found.results_.report["shared_mistakes"]["effective_number"]
    assert shared["true_labels"] == 0  # a planned sample is not random
    with pytest.raises(InputError, match="inclusion_probability must be above 0"):
        fitted(data, table.set_column(2, "inclusion_probability", pa.array(np.zeros(50))))


def test_without_or_with_few_true_labels_nothing_is_measured(data: CrowdDataset) -> None:
    few = {k: data.classes[data.y_true[k]] for k in range(5)}
    assert "gold_rates" not in fitted(data, few).results_.report


def test_without_fits_that_did_not_see_them_true_labels_measure_the_crowd_alone(data: CrowdDataset) -> None:
    many = {k: data.classes[data.y_true[k]] for k in range(60)}
    clf = conal.make("dl-cl", epochs=2, verbose=False).fit(data.x, data.annotations, true_labels=many)
    report = clf.results_.report
    found = report["gold_rates"]
    assert found["cleaned"] is None
    assert report["crowd"]["basis"]["expected_label_accuracy"] == "measured"
    assert report["crowd"]["basis"]["expected_inferred_accuracy"] == "belief"
    right = (data.annotations.labels == data.y_true[data.annotations.tasks])[data.annotations.tasks < 60]
    assert report["crowd"]["expected_label_accuracy"] == pytest.approx(right.mean(), abs=0.03)
    assert "The inferred labels were not measured" in render(report)
