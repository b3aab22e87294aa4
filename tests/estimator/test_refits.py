"""True labels are judged by fits that did not use them."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import conal
from conal.data.true_labels import parts_of_labels
from conal.datasets import CrowdDataset
from conal.errors import DataWarning, InputError
from conal.estimator import fitting
from conal.training import loop

N_TRUE = 20


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return conal.datasets.synthetic(n_train=200, n_classes=3, n_annotators=8, seed=4)


def truth_of(data: CrowdDataset, rows: Any) -> dict[Any, Any]:
    return {int(k): data.classes[data.y_true[k]] for k in rows}


def fitted(data: CrowdDataset, true_labels: Any, name: str = "xconal", **options: Any) -> Any:
    clf = conal.make(name, epochs=6, verbose=False, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return clf.fit(data.x, data.annotations, true_labels=true_labels)


@pytest.mark.parametrize(("name", "ensemble"), [("xconal", 1), ("xconal", 2), ("dl-cl", 1)])
def test_each_part_is_judged_by_a_fit_without_it(name: str, ensemble: int, data: CrowdDataset) -> None:
    rows = np.arange(0, 200, 10)
    clf = fitted(data, truth_of(data, rows), name, refits=2, ensemble=ensemble)
    part = parts_of_labels(data.y_true[rows], 2)
    for k in range(2):
        other = fitted(data, truth_of(data, rows[part != k]), name, refits=0, ensemble=ensemble)
        np.testing.assert_array_equal(
            clf.results_.findings.evidence.unseen_posterior[rows[part == k]], other.probas_[rows[part == k]]
        )
    others = np.setdiff1d(np.arange(200), rows)
    np.testing.assert_array_equal(clf.results_.findings.evidence.unseen_posterior[others], clf.probas_[others])
    assert "gold_rates" in clf.results_.report


def test_refits_change_nothing_else(data: CrowdDataset) -> None:
    truth = truth_of(data, range(N_TRUE))
    clf, alone = fitted(data, truth), fitted(data, truth, refits=0)
    np.testing.assert_array_equal(clf.probas_, alone.probas_)
    np.testing.assert_array_equal(clf.predict_proba(data.x), alone.predict_proba(data.x))
    assert not np.array_equal(
        clf.results_.findings.evidence.unseen_posterior[:N_TRUE],
        alone.results_.findings.evidence.unseen_posterior[:N_TRUE],
    )


def test_a_true_label_does_not_reach_its_own_judgement(data: CrowdDataset) -> None:
    truth = truth_of(data, range(N_TRUE))
    one = fitted(data, truth, refits=1).results_.findings.evidence.unseen_posterior[:N_TRUE]
    none = fitted(data, None).probas_[:N_TRUE]
    np.testing.assert_array_equal(one, none)


def test_tasks_without_labels_are_not_judged(data: CrowdDataset) -> None:
    rows = np.arange(5, 200)
    crowd = data.annotations.select(np.isin(data.annotations.tasks, rows))
    assert (crowd.labels_per_task()[:5] == 0).all()
    clf = fitted(replace(data, annotations=crowd), truth_of(data, range(N_TRUE)), refits=3)
    assert clf.results_.findings.evidence.judged.sum() == N_TRUE - 5
    np.testing.assert_allclose(clf.results_.findings.evidence.unseen_posterior.sum(1), 1, atol=1e-6)


def test_few_true_labels_and_other_methods_cost_no_refit(data: CrowdDataset) -> None:
    few = fitted(data, truth_of(data, range(5)))
    np.testing.assert_array_equal(
        few.results_.findings.evidence.unseen_posterior,
        fitted(data, truth_of(data, range(5)), refits=0).results_.findings.evidence.unseen_posterior,
    )
    assert fitted(data, truth_of(data, range(N_TRUE)), "dl-cl").results_.findings.evidence.unseen_posterior is None
    with pytest.raises(InputError, match="refits"):
        fitted(data, None, refits=-1)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of all trainings."""
    seeds, train = [], loop.train

    def counted(*args: Any, **options: Any) -> Any:
        seeds.append(args[3].seed)
        return train(*args, **options)

    monkeypatch.setattr(fitting, "train", counted)
    return seeds


def test_refits_are_made_when_somebody_asks(data: CrowdDataset, trainings: list[int]) -> None:
    clf = fitted(data, truth_of(data, range(N_TRUE)), seed=7)
    clf.predict(data.x)
    assert "classifier_label" in clf.tables_["labels.csv"].column_names
    assert trainings == [7]
    assert clf.results_.refits_due == 5
    same = copy.deepcopy(clf)
    clf.set_params(seed=8, epochs=1)  # of the next fit
    assert "gold_rates" in clf.results_.report
    assert trainings == [7] * 6
    assert clf.results_.refits_due == 0
    assert same.results_.report["gold_rates"] == clf.results_.report["gold_rates"]
    assert len(trainings) == 6


def test_a_pickle_contains_what_refits_say(data: CrowdDataset, trainings: list[int]) -> None:
    clf = fitted(data, truth_of(data, range(N_TRUE)), refits=2)
    again = pickle.loads(pickle.dumps(clf))  # noqa: S301 - its own
    assert len(trainings) == 3
    assert again.results_.report["gold_rates"] == clf.results_.report["gold_rates"]
    assert len(trainings) == 3
