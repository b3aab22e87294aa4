"""Measurements by true labels: what they say, that they are those of the report, and drift."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, recall_score

from conal import Annotations
from conal.aggregation import DawidSkene, GoldPool, MajorityVote
from conal.errors import DataWarning, InputError
from conal.metrics import Measurement, drift, measure
from conal.metrics.rates import warn_of_selection

FIGURES = ("value", "low", "high", "n_gold", "n_effective")


def jury(seed: int, n_tasks: int = 400, skills: tuple[float, ...] = (0.9, 0.8, 0.7, 0.6)) -> tuple[Any, np.ndarray]:
    """Labels "bad" and "good" by judges who are right that often, and whether each task is good."""
    rng = np.random.default_rng(seed)
    good = rng.random(n_tasks) < 0.8
    right = rng.random((n_tasks, len(skills))) < skills
    return Annotations.from_matrix(np.where(right == good[:, None], "good", "bad")), good


def known(good: np.ndarray, count: int = 60, seed: int = 0) -> dict[int, str]:
    drawn = np.random.default_rng(seed).choice(len(good), count, replace=False)
    return {int(i): "good" if good[i] else "bad" for i in drawn}


def measured(seed: int = 0, count: int = 60, **more: Any) -> Measurement:
    crowd, good = jury(seed, **more)
    return measure(GoldPool().fit(crowd, true_labels=known(good, count, seed)))


def test_figures_are_those_of_the_report() -> None:
    crowd, good = jury(0)
    fitted = GoldPool().fit(crowd, true_labels=known(good))
    found, section = measure(fitted), fitted.report().document["gold_rates"]
    assert {name: found.inferred[name] for name in FIGURES} == pytest.approx(section["cleaned"])
    assert {name: found.vote[name] for name in FIGURES} == pytest.approx(section["majority"])
    assert found.above_vote == pytest.approx(section["above_majority"])
    assert found.believed == pytest.approx(section["claimed"])
    for row, other in zip(found.judges, section["annotators"], strict=True):
        assert row["worker"] == other["worker"]
        assert row["above"] == pytest.approx(other["above"])
    assert [row["class"] for row in found.shares] == ["bad", "good"]
    assert (found.n_tasks, found.n_true_labels, found.design, found.positive) == (400, 60, "random", "good")


@pytest.mark.parametrize(("positive", "code"), [(None, 1), ("bad", 0)])
def test_kappa_sensitivity_and_specificity_are_those_of_scikit_learn(positive: str | None, code: int) -> None:
    crowd, good = jury(1)
    gold = known(good)
    found = measure(GoldPool().fit(crowd, true_labels=gold), positive=positive)
    tasks = np.array(sorted(gold))
    truth = good[tasks].astype(int)
    assert len(found.judges) == 4
    for row in found.judges:
        mine = crowd.annotators == row["worker"]
        labels = np.empty(400, dtype=int)
        labels[crowd.tasks[mine]] = crowd.labels[mine]
        said = labels[tasks]
        assert row["kappa"]["value"] == pytest.approx(cohen_kappa_score(truth, said))
        assert row["sensitivity"]["value"] == pytest.approx(recall_score(truth, said, pos_label=code))
        assert row["specificity"]["value"] == pytest.approx(recall_score(truth, said, pos_label=1 - code))
        assert row["sensitivity"]["n_gold"] == (truth == code).sum()
        assert row["specificity"]["low"] < row["specificity"]["value"] <= row["specificity"]["high"]


def test_intervals_hold() -> None:
    """95 % of them, of the inferred labels, the share of good tasks, and the difference to the vote."""
    held = []
    for seed in range(60):
        crowd, good = jury(seed)
        fitted = DawidSkene().fit(crowd, true_labels=known(good, 60, seed))
        found, labels = measure(fitted), DawidSkene().fit(crowd).codes_ == good
        vote = MajorityVote().fit(crowd)
        tied = np.isclose(vote.probas_.max(1), 0.5)
        right = np.where(tied, 0.5, vote.codes_ == good)
        difference = labels.mean() - right.mean()
        held += [
            found.inferred["low"] <= labels.mean() <= found.inferred["high"],
            found.shares[1]["low"] <= good.mean() <= found.shares[1]["high"],
            found.above_vote["low"] <= difference <= found.above_vote["high"],
        ]
    assert np.mean(held) >= 0.92


def test_one_judge_alone() -> None:
    crowd, good = jury(3, skills=(0.8,))
    found = measure(GoldPool().fit(crowd, true_labels=known(good)))
    (judge,) = found.judges
    assert judge["worker"] == 0
    assert judge["low"] <= 0.8 <= judge["high"]
    assert found.best_judge == judge


def test_planned_true_labels_have_no_kappa() -> None:
    crowd, good = jury(4)
    gold = known(good)
    table = {"task": list(gold), "label": list(gold.values()), "inclusion_probability": [0.15] * len(gold)}
    pl = pytest.importorskip("polars")
    found = measure(GoldPool().fit(crowd, true_labels=pl.DataFrame(table)))
    assert found.design == "planned"
    assert "kappa" not in found.inferred


def test_three_classes_have_no_sensitivity() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 200)
    labels = np.where(rng.random((200, 4)) < 0.8, truth[:, None], rng.integers(0, 3, (200, 4)))
    fitted = GoldPool().fit(Annotations.from_matrix(labels), true_labels=dict(enumerate(truth[:40].tolist())))
    found = measure(fitted)
    assert found.positive is None
    assert "sensitivity" not in found.inferred
    with pytest.raises(InputError, match="must be one of two classes"):
        measure(fitted, positive=1)


def test_too_few_true_labels() -> None:
    crowd, good = jury(0)
    with pytest.raises(InputError, match="only 9 tasks with labels have a true label; 10 are needed"):
        measure(GoldPool().fit(crowd, true_labels=known(good, 9)))


def test_without_change_drift_is_rare() -> None:
    found = [measured(seed, count=50, n_tasks=250) for seed in range(60)]
    drifted = [
        any(row["drifted"] for row in drift(now, before.to_dict()))
        for now, before in zip(found[::2], found[1::2], strict=True)
    ]
    assert np.mean(drifted) <= 0.1


def test_a_judge_who_got_worse_is_drift() -> None:
    before = json.loads(json.dumps(measured(5, count=200).to_dict()))
    now = measured(6, count=200, skills=(0.9, 0.4, 0.7, 0.6))
    rows = drift(now, before)
    assert [row["p"] for row in rows] == sorted(row["p"] for row in rows)
    assert (rows[0]["kind"], rows[0]["figure"], rows[0]["drifted"]) == ("judge", 1, True)
    assert {row["figure"] for row in rows if row["drifted"]} <= {1, "majority vote", "inferred labels"}


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        ({}, "is not a measurement"),
        ({"format": "conal-measure", "format_version": 2}, "newer version"),
        ({"format": "conal-measure", "format_version": 1}, "is damaged"),
        ({"format": "conal-measure", "format_version": 1, "judges": [1], "shares": []}, "is damaged"),
    ],
)
def test_baselines_that_are_none(baseline: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        drift(measured(), baseline)


def test_true_labels_of_chosen_tasks_are_warned_of() -> None:
    crowd, good = jury(7)
    some = {int(i): "bad" for i in np.flatnonzero(~good)[:40]}
    with pytest.warns(DataWarning, match=r"do not look random: bad wins the vote on \d+% of them"):
        measure(DawidSkene().fit(crowd, true_labels=some))


def test_random_true_labels_are_hardly_ever_warned_of() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        crowd = Annotations.from_matrix(rng.choice(5, size=(200, 1), p=[0.5, 0.3, 0.15, 0.04, 0.01]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn_of_selection(crowd, np.isin(np.arange(200), rng.choice(200, 30, replace=False)))
