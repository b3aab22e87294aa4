"""Rates that true labels measure in the report of an aggregator: each is judged by a fit without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conal import aggregation
from conal.data.true_labels import INCLUSION, parts_of_labels
from conal.datasets import CrowdDataset, synthetic
from conal.report import labels_alone
from conal.report.labels_alone import findings_of_labels
from conal.report.page import render

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return synthetic(n_train=400, n_classes=3, n_annotators=10, labels_per_instance=4, seed=3)


def truth_of(data: CrowdDataset, rows: Any) -> dict[Any, Any]:
    return {int(k): data.classes[data.y_true[k]] for k in rows}


@pytest.mark.parametrize("name", ["dawid-skene", "majority-vote", "common-confusion"])
def test_each_part_is_judged_by_a_fit_without_it(name: str, data: CrowdDataset) -> None:
    rows = np.arange(0, 400, 8)
    fitted = aggregation.make(name).fit(data.annotations, true_labels=truth_of(data, rows))
    unseen = findings_of_labels(fitted).evidence.unseen_posterior
    assert unseen is not None
    part = parts_of_labels(data.y_true[rows], 5)
    for k in range(5):
        other = aggregation.make(name).fit(data.annotations, true_labels=truth_of(data, rows[part != k]))
        np.testing.assert_array_equal(unseen[rows[part == k]], other.probas_[rows[part == k]])
    others = np.setdiff1d(np.arange(400), rows)
    np.testing.assert_array_equal(unseen[others], fitted.probas_[others])


def test_the_report_has_the_rates(data: CrowdDataset) -> None:
    rows = np.random.default_rng(1).choice(400, 60, replace=False)
    fitted = aggregation.DawidSkene().fit(data.annotations, true_labels=truth_of(data, rows))
    section: Any = dict(fitted.results_.report)["gold_rates"]
    assert (section["n_gold"], section["design"]) == (60, "random")
    crowd = data.annotations
    right = (crowd.labels == data.y_true[crowd.tasks]).mean()
    assert section["crowd"]["low"] <= right <= section["crowd"]["high"]
    assert section["crowd"]["high"] - section["crowd"]["low"] < 0.2
    unseen = findings_of_labels(fitted).evidence.unseen_posterior
    assert unseen is not None
    cleaned = (unseen.argmax(1) == data.y_true)[crowd.labels_per_task() > 0].mean()
    assert section["cleaned"]["low"] <= cleaned <= section["cleaned"]["high"]
    assert "Measured by true labels" in render(fitted.results_.report)


def planned(data: CrowdDataset, rows: Any) -> pa.Table:
    truth = truth_of(data, rows)
    columns = {"task": list(truth), "label": list(truth.values())}
    return pa.table(columns | {INCLUSION: np.linspace(0.1, 0.9, len(truth))})


def test_planned_tasks_keep_their_probabilities(data: CrowdDataset, tmp_path: Path) -> None:
    table = planned(data, range(50))
    fitted = aggregation.DawidSkene().fit(data.annotations, true_labels=table)
    section: Any = dict(fitted.results_.report)["gold_rates"]
    assert section["design"] == "planned"
    assert fitted.inclusion_ is not None
    np.testing.assert_array_equal(fitted.inclusion_[:50], np.linspace(0.1, 0.9, 50))
    assert np.isnan(fitted.inclusion_[50:]).all()
    fitted.save(tmp_path / "crowd")
    loaded = aggregation.load(tmp_path / "crowd")
    np.testing.assert_array_equal(loaded.inclusion_, fitted.inclusion_)
    new = aggregation.load(tmp_path / "crowd").update(_one_label(data))
    assert new.inclusion_ is not None
    assert len(new.inclusion_) == 401
    assert np.isnan(new.inclusion_[-1])


def _one_label(data: CrowdDataset) -> pa.Table:
    return pa.table({"task": [1000], "worker": [0], "label": [data.classes[0]]})


def test_nothing_is_measured_by_few_labels_or_where_it_takes_too_long(
    data: CrowdDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = aggregation.DawidSkene().fit(data.annotations, true_labels=truth_of(data, range(9)))
    assert "gold_rates" not in few.results_.report
    many = aggregation.DawidSkene().fit(data.annotations, true_labels=truth_of(data, range(40)))
    monkeypatch.setattr(labels_alone, "MAX_LABELS", 100)
    assert findings_of_labels(many).evidence.unseen_posterior is None
