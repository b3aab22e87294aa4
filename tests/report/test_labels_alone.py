"""The report of an aggregator: labels alone, and no word about a classifier."""

from __future__ import annotations

import json
import shlex
from typing import Any

import numpy as np
import pytest

from conal import aggregation
from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.report.findings import checked_report
from conal.report.intervals import gibbs_draws
from conal.report.labels_alone import findings_of_labels
from conal.report.page import render
from helpers.crowds import graded_crowd


@pytest.fixture(scope="module")
def fitted() -> Any:
    return aggregation.DawidSkene().fit(graded_crowd(0, n_tasks=150, n_annotators=8))


def test_parts_that_need_a_classifier_are_left_out(fitted: Any) -> None:
    report, page = fitted.results_.report, render(fitted.results_.report)
    assert "model" not in report
    assert "disagreements" not in report["tasks"]
    rows = [row for found in report["tasks"].values() for row in found["rows"]]
    assert rows
    assert not any("classifier_label" in row for row in rows)
    assert {"classifier_label", "classifier_probability"}.isdisjoint(fitted.tables_["labels.csv"].column_names)
    assert sorted(fitted.tables_) == ["annotators.csv", "common_confusion.csv", "labels.csv", "suggestions.csv"]
    for word in ('id="disagreement"', 'id="training"', "The classifier", "epoch", "model folder"):
        assert word not in page.split("</style>")[1].split("<script")[0]
    assert 'id="aggregation"' in page
    assert "conal report · dawid-skene" in page
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_figures_are_those_of_the_aggregator(fitted: Any) -> None:
    labels, people = fitted.tables_["labels.csv"], fitted.tables_["annotators.csv"].to_pydict()
    crowd = fitted.annotations_
    given = crowd.labels_per_task() > 0
    assert labels["label"].to_pylist() == [
        name if known else None for name, known in zip(fitted.labels_.tolist(), given, strict=True)
    ]
    probas = np.column_stack([labels[f"proba_{name}"].to_numpy() for name in range(3)])
    np.testing.assert_allclose(probas, fitted.probas_)
    right = fitted.probas_[crowd.tasks, crowd.labels]
    for r in range(1, 8):
        assert people["annotator_quality"][r] == pytest.approx(right[crowd.annotators == r].mean(), abs=0.08)
        assert (
            people["annotator_quality_low"][r] <= people["annotator_quality"][r] <= people["annotator_quality_high"][r]
        )
    weights = crowd.labels_per_annotator() / crowd.n_annotations
    common = np.array(fitted.results_.report["common_confusion"]["matrix"])
    np.testing.assert_allclose(common, np.einsum("r,rcl->cl", weights, fitted.confusion_))


def test_an_aggregator_that_separates_noise_tells_so() -> None:
    made = aggregation.CommonConfusion().fit(graded_crowd(0, n_tasks=80))
    report = made.results_.report
    assert report["aggregation"]["separates_noise"]
    np.testing.assert_allclose(report["common_confusion"]["matrix"], made.common_confusion_)
    rates = {row["worker"]: row["common_noise_rate"] for row in report["annotators"]["rows"]}
    assert rates[3] == pytest.approx(made.omega_[3])
    page = render(report)
    assert ">ω<" not in page  # in the tables only
    assert "It is the most economical split" in page


def test_intervals_contain_the_truth_about_as_often_as_they_say() -> None:
    inside = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        z, skill = rng.integers(3, size=300), np.linspace(0.55, 0.95, 10)
        right = rng.random((300, 10)) < skill
        labels = np.where(right, z[:, None], (z[:, None] + rng.integers(1, 3, size=right.shape)) % 3)
        labels[rng.random(labels.shape) < 0.5] = -1
        crowd = Annotations.from_matrix(labels, classes=range(3))
        table = aggregation.DawidSkene(verbose=False).fit(crowd).tables_["annotators.csv"].to_pydict()
        inside += [
            low <= p <= high
            for low, p, high in zip(table["annotator_quality_low"], skill, table["annotator_quality_high"], strict=True)
        ]
    assert np.mean(inside) >= 0.85


def test_known_labels_stay_known() -> None:
    crowd = graded_crowd(5)
    truth = {0: 2, 7: 1}  # nobody labelled task 0
    made = aggregation.DawidSkene().fit(crowd, true_labels=truth)
    labels = made.tables_["labels.csv"].to_pydict()
    assert [labels["label"][task] for task in truth] == [2, 1]
    assert [labels["probability"][task] for task in truth] == [1.0, 1.0]
    evidence = findings_of_labels(made).evidence
    draws = np.stack(list(gibbs_draws(evidence, np.random.default_rng(0), 20)))
    assert (draws[:, [0, 7]] == [2, 1]).all()
    assert len(np.unique(draws, axis=0)) > 1
    section = made.results_.report["aggregation"]
    assert section["n_true_labels"] == 2
    assert "--true-labels TRUE_LABELS" in section["command"]
    assert "2 true labels were given" in render(made.results_.report)


def test_ties_drawn_by_lot_are_not_called_wrong() -> None:
    crowd = Annotations.from_matrix([[0, 1], [0, 1], [1, 0], [0, 1], [1, 0], [0, 1]])
    made = aggregation.MajorityVote(ties="random", seed=1).fit(crowd)
    assert len(set(made.labels_.tolist())) == 2
    assert made.tables_["labels.csv"]["label"].to_pylist() == made.labels_.tolist()
    tasks = made.results_.report["tasks"]
    assert tasks["likely_wrong"]["total"] == 0
    assert {row["task"]: row["label"] for row in tasks["ambiguous"]["rows"]} == dict(enumerate(made.labels_.tolist()))
    assert all(row["second_label"] != row["label"] for row in tasks["ambiguous"]["rows"])


def test_tasks_that_nobody_labelled_wait_in_the_queue_and_are_not_ambiguous() -> None:
    crowd = graded_crowd(6, n_tasks=60)
    report = aggregation.DawidSkene().fit(crowd).results_.report
    assert 0 not in [row["task"] for row in report["tasks"]["ambiguous"]["rows"]]
    (waiting,) = [row for row in report["suggestions"]["rows"] if row["task"] == 0]
    assert waiting["label"] is None
    assert "None" not in render(report).split("<script")[0]


def test_another_fit_gives_another_report() -> None:
    made = aggregation.MajorityVote().fit(graded_crowd(7))
    first = made.results_.report["crowd"]["n_annotations"]
    assert made.fit(graded_crowd(8, n_tasks=90)).results_.report["crowd"]["n_annotations"] != first


@pytest.mark.parametrize("name", aggregation.names())
@pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")
def test_every_aggregator_has_a_report(name: str) -> None:
    n_classes = 2 if name == "kos" else 3
    made = aggregation.get(name)().fit(graded_crowd(9, n_tasks=15, n_classes=n_classes))
    page = render(made.report().document)
    assert f"conal report · {name}" in page
    words = shlex.split(made.results_.report["aggregation"]["command"])
    start = ["conal", "aggregate", "LABELS", "--out", "CLEANED", "--report", "FOLDER", "--method", name]
    assert words[: len(start)] == start


def test_a_report_has_a_model_or_an_aggregation(fitted: Any) -> None:
    report = dict(fitted.results_.report)
    del report["aggregation"]
    with pytest.raises(InputError, match="is damaged, model is missing"):
        checked_report(report)


def test_the_command_sets_what_was_set() -> None:
    made = aggregation.CommonConfusion(prior_omega=(2.0, 1.0), omega="annotator", seed=3).fit(graded_crowd(0))
    command = made.results_.report["aggregation"]["command"]
    assert command.endswith("--method common-confusion --set 'prior_omega=[2.0, 1.0]' --set seed=3")
