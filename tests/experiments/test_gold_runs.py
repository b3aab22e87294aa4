"""Runs with a few true labels: which tasks are drawn, what learns from them, and what is measured."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conal import aggregation, datasets
from conal.data.annotations import Annotations
from conal.datasets import CrowdDataset
from conal.estimator import make
from conal.experiments import Run, Store
from conal.experiments.gold_draws import Draw, planned_draw, random_draw
from conal.experiments.gold_measurements import KINDS, rates_held
from conal.experiments.gold_runs import execute_gold
from conal.experiments.runner import run_missing
from conal.experiments.stacked_votes import stacked_votes
from conal.findings.expert_plan import expert_plan

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")  # tiny crowds, few epochs

DATA: dict[str, Any] = {"n_train": 150, "n_valid": 0, "n_test": 60, "n_classes": 3, "n_annotators": 8, "seed": 4}
FAST: dict[str, Any] = {"epochs": 5, "hidden": [8]}
RUN = Run("synthetic", "xconal", 1, "own", DATA, FAST, gold={"n": 40, "design": "random"})


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return datasets.load("synthetic", **DATA)


def test_runs_without_true_labels_keep_their_names() -> None:
    """Stored results of other experiments are found again."""
    run = Run("synthetic", "dl-mv", 1, data={"n_train": 100})
    config = {"dataset": "synthetic", "method": "dl-mv", "seed": 1, "protocol": "gold", "data": {"n_train": 100}}
    text = json.dumps({"format": 1, **config, "parameters": {}, "keep": []}, sort_keys=True)
    assert run.hash == hashlib.sha256(text.encode()).hexdigest()[:24]
    assert len({run.hash, *(replace(run, gold={"n": n, "design": "random"}).hash for n in (0, 5))}) == 3


def test_random_tasks_are_labelled_and_larger_draws_contain_smaller_ones(data: CrowdDataset) -> None:
    labels = np.where(np.arange(150)[:, None] % 3 == 0, -1, np.arange(2)[None])
    sparse = replace(data, annotations=Annotations.from_matrix(labels, classes=range(3)))
    few, many = (random_draw(sparse, n, seed=3).rows for n in (10, 60))
    assert set(few) < set(many)
    assert (many % 3 != 0).all()
    assert len(set(many)) == 60
    assert set(random_draw(sparse, 10, seed=4).rows) != set(few)


def test_planned_tasks_are_those_of_the_command(data: CrowdDataset) -> None:
    clf = make("xconal", **FAST, seed=0, verbose=False).fit(data.x, data.annotations)
    drawn = planned_draw(clf, data, 20, seed=5)
    plan = expert_plan(clf.tables_["labels.csv"], 20, seed=5).to_pylist()
    expected = {row["task"]: row["inclusion_probability"] for row in plan}
    assert drawn.inclusion is not None
    assert dict(zip(drawn.rows.tolist(), drawn.inclusion.tolist(), strict=True)) == expected
    table = drawn.table(data)
    assert table is not None
    assert table.column_names == ["task", "label", "inclusion_probability"]
    assert table["label"].to_pylist() == data.classes[data.y_true[drawn.rows]].tolist()


def test_true_labels_are_trained_on_and_others_measured(data: CrowdDataset) -> None:
    found = execute_gold(RUN)
    rows = random_draw(data, 40, seed=1).rows
    gold = dict(zip(rows.tolist(), data.classes[data.y_true[rows]].tolist(), strict=True))
    clf = make("xconal", **FAST, seed=1, verbose=False).fit(data.x, data.annotations, true_labels=gold)
    others = np.setdiff1d(np.arange(150), rows)
    assert found["label_accuracy"] == (clf.labels_ == data.classes[data.y_true])[others].mean()
    assert found["claimed"] == clf.probas_[others].max(1).mean()
    assert data.test is not None
    assert found["test_accuracy"] == clf.score(data.test.x, data.classes[data.test.y])
    without = make("xconal", **FAST, seed=1, verbose=False).fit(data.x, data.annotations)
    assert found["label_accuracy_before"] == (without.labels_ == data.classes[data.y_true])[others].mean()


def test_no_true_labels_are_a_plain_fit(data: CrowdDataset) -> None:
    found = execute_gold(replace(RUN, gold={"n": 0, "design": "random"}))
    clf = make("xconal", **FAST, seed=1, verbose=False).fit(data.x, data.annotations)
    assert found["label_accuracy"] == found["label_accuracy_before"] == (clf.labels_ == data.y_true).mean()


def test_labels_can_choose_the_epoch_only(data: CrowdDataset) -> None:
    found = execute_gold(replace(RUN, protocol="gold"))
    rows = random_draw(data, 40, seed=1).rows
    clf = make("xconal", **FAST, seed=1, verbose=False, selection="gold")
    clf.fit(data.x, data.annotations, validation=(data.x[rows], data.classes[data.y_true[rows]]))
    assert data.test is not None
    assert found["test_accuracy"] == clf.score(data.test.x, data.classes[data.test.y])


def test_true_labels_alone_and_labels_of_the_crowd_alone(data: CrowdDataset) -> None:
    alone = execute_gold(replace(RUN, method="gold", protocol="last", parameters={"epochs": 40}))
    assert 0.5 < alone["test_accuracy"] <= 1
    one = execute_gold(replace(RUN, method="gold", protocol="last", gold={"n": 1, "design": "random"}))
    first = data.y_true[random_draw(data, 1, seed=1).rows[0]]  # a single class: always that one
    assert data.test is not None
    assert one["test_accuracy"] == (data.test.y == first).mean()
    found = execute_gold(replace(RUN, method="dawid-skene", parameters={}))
    drawn = random_draw(data, 40, seed=1)
    fitted = aggregation.make("dawid-skene").fit(data.annotations, true_labels=drawn.table(data))
    others = np.setdiff1d(np.arange(150), drawn.rows)
    assert found["label_accuracy"] == (fitted.codes_ == data.y_true)[others].mean()
    assert found["test_accuracy"] is None


def test_stacked_votes_learn_whom_to_believe() -> None:
    """One annotator says the next class every time, the other two guess: true labels of forty tasks show it."""
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=400)
    votes = np.column_stack([(z + 1) % 3, rng.integers(3, size=(400, 2))])
    crowd = Annotations.from_matrix(votes, classes=range(3))
    found = stacked_votes(crowd, np.arange(40), z[:40])
    np.testing.assert_allclose(found.sum(1), 1)
    assert (found.argmax(1) == z)[40:].mean() > 0.95
    single = stacked_votes(crowd, np.flatnonzero(z == 2)[:5], z[z == 2][:5])
    assert (single == [0, 0, 1]).all()


def test_intervals_of_rates_are_compared_with_the_truth(data: CrowdDataset) -> None:
    """Perfect predictions: every interval holds, and those of the labels alone are wider."""
    certain = np.eye(3)[data.y_true]
    found = rates_held(data, certain, random_draw(data, 50, seed=0))
    assert set(found) == set(KINDS)
    assert (found["classes"]["n"], found["cleaned"]["n"], found["crowd"]["n"]) == (3, 1, 1)
    assert all(each["held"] == each["n"] for each in found.values())
    assert found["classes"]["width"] < 0.7 * found["classes"]["alone"]
    everything = rates_held(data, certain, Draw(np.arange(150)))
    assert everything["classes"]["alone"] == pytest.approx(0, abs=0.01)  # all tasks are known
    wrong = rates_held(data, np.roll(certain, 1, axis=1), random_draw(data, 50, seed=0))
    assert wrong["cleaned"]["held"] == 1  # no cleaned label is right, and the true labels say so


def test_a_fit_tells_how_many_of_its_intervals_hold(data: CrowdDataset) -> None:
    run = replace(RUN, keep=("annotator_intervals", "pipeline_rates"))
    with Store(":memory:") as store:
        assert run_missing(store, [run], verbose=False) == 1
        found = store.require(run)
    given = data.annotations.labels_per_annotator()
    assert found["annotator_intervals"]["annotators"] == (given >= 10).sum() > 0
    assert 0 <= found["annotator_intervals"]["held"] <= found["annotator_intervals"]["annotators"]
    assert found["pipeline_rates"]["classes"]["n"] == 3
    assert found["pipeline_rates"]["classes"]["width"] > 0


def test_replays_draw_again_and_again(data: CrowdDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    from conal.experiments import gold_measurements

    monkeypatch.setattr(gold_measurements, "REPLAYS", 3)
    run = replace(RUN, gold={"n": 0, "design": "random"}, keep=("replayed_rates",))
    found = execute_gold(run)["replayed_rates"]
    assert set(found) == {"random", "planned"}
    assert found["random"]["classes"]["n"] == found["planned"]["classes"]["n"] == 3 * 3
    assert found["random"]["cleaned"]["n"] == 3
