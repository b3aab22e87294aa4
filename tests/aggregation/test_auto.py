"""Auto: the mean of several aggregators, or the best of them by true labels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from conal import aggregation
from conal.aggregation import Auto
from conal.aggregation import auto as auto_module
from conal.aggregation.auto import MEMBERS, NEVER
from conal.errors import CollapseWarning
from helpers.crowds import graded_crowd
from helpers.real import CROWDS, labelled_crowd

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")


def test_without_true_labels_it_is_the_mean() -> None:
    crowd = graded_crowd(0, n_tasks=200)
    fitted = Auto().fit(crowd)
    assert fitted.chosen_ == "mean"
    assert not fitted.left_out_
    assert fitted.why_ == f"mean of {', '.join(MEMBERS)}: no true labels to choose by"
    each = [aggregation.make(name).fit(crowd).probas_ for name in MEMBERS]
    np.testing.assert_allclose(fitted.probas_, sum(each) / len(each), atol=1e-12)


def test_a_collapsed_member_is_left_out() -> None:
    labels, _ = labelled_crowd("raop")
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapseWarning)  # it is not used, so it is no reason to worry
        fitted = Auto().fit(labels)
    assert list(fitted.left_out_) == ["one-coin"]
    assert "one-coin is left out, because classes 'A', 'B', 'D' and 2 more win votes" in fitted.why_
    with pytest.warns(CollapseWarning):
        each = [aggregation.make(name).fit(labels).probas_ for name in MEMBERS if name != "one-coin"]
    np.testing.assert_allclose(fitted.probas_, sum(each) / len(each), atol=1e-12)


def test_true_labels_choose() -> None:
    """Truth by decree: the labels of one member, which the others contradict."""
    crowd = graded_crowd(2, n_tasks=400, worst=0.2, share=0.3)
    members = {name: aggregation.make(name).fit(crowd).codes_ for name in MEMBERS}
    odd = np.flatnonzero(members["one-coin"] != Auto().fit(crowd).codes_)
    agreed = np.flatnonzero(np.all([codes == members["one-coin"] for codes in members.values()], axis=0))
    judges = [i for i in [*odd.tolist(), *agreed.tolist()] if crowd.labels_per_task()[i]][:60]
    gold = {int(i): int(members["one-coin"][i]) for i in judges}
    fitted = Auto().fit(crowd, true_labels=gold)
    assert len(odd) >= 3
    assert fitted.chosen_ == "one-coin"
    assert fitted.why_.startswith(f"one-coin: right for {len(judges)} of {len(judges)} true labels")
    alone = aggregation.make("one-coin").fit(crowd, true_labels=gold)
    np.testing.assert_array_equal(fitted.probas_, alone.probas_)
    np.testing.assert_array_equal(fitted.confusion_, alone.confusion_)


def test_all_aggregators_can_be_chosen() -> None:
    crowd = graded_crowd(2, n_tasks=60)
    truth = aggregation.make("dawid-skene").fit(crowd).codes_
    fitted = Auto().fit(crowd, true_labels={i: int(truth[i]) for i in range(2, 50)})
    assert {*fitted.candidates_} | {*NEVER} == {*aggregation.names()}
    assert fitted.not_candidates_ == NEVER
    judged = [i for i in range(2, 50) if crowd.labels_per_task()[i]]
    for name in ("mace", "minimax-entropy", "kos", "ebcc"):
        right = int((aggregation.make(name).fit(crowd).codes_[judged] == truth[judged]).sum())
        assert fitted.candidates_[name] == right
    assert fitted.candidates_["dawid-skene"] == len(judged)


def test_a_single_one_must_be_clearly_better_than_the_mean() -> None:
    """Two true labels more among forty are luck where nineteen compete."""
    crowd = graded_crowd(2, n_tasks=400, worst=0.2, share=0.3)
    members = {name: aggregation.make(name).fit(crowd).codes_ for name in MEMBERS}
    mean = Auto().fit(crowd).codes_
    odd = [i for i in np.flatnonzero(members["one-coin"] != mean).tolist() if crowd.labels_per_task()[i]][:2]
    agreed = np.flatnonzero(np.all([codes == mean for codes in members.values()], axis=0)).tolist()
    gold = {i: int(members["one-coin"][i]) for i in [*odd, *[i for i in agreed if crowd.labels_per_task()[i]][:38]]}
    fitted = Auto().fit(crowd, true_labels=gold)
    assert fitted.candidates_["one-coin"] == 40
    assert fitted.chosen_ == "mean"
    assert "40 true labels do not clearly prefer a single one" in fitted.why_


def test_in_a_large_crowd_only_the_members_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_module, "MOST_LABELS", 50)
    crowd = graded_crowd(2, n_tasks=60)
    fitted = Auto().fit(crowd, true_labels=dict.fromkeys(range(40), 0))
    assert {*fitted.candidates_} == {*MEMBERS}
    assert "larger than 50 labels" in fitted.not_candidates_["mmsr"]
    assert fitted.not_candidates_["gold-majority-vote"] == NEVER["gold-majority-vote"]


def test_few_true_labels_do_not_choose() -> None:
    crowd = graded_crowd(2, n_tasks=100)
    fitted = Auto(min_true_labels=6).fit(crowd, true_labels={2: 0, 3: 1, 4: 2, 5: 0, 6: 1})
    assert fitted.chosen_ == "mean"
    assert "5 true labels are too few to choose by" in fitted.why_
    np.testing.assert_array_equal(fitted.probas_[2:7], np.eye(3)[[0, 1, 2, 0, 1]])


@pytest.mark.filterwarnings("ignore::conal.errors.CollapseWarning")
def test_thirteen_crowds() -> None:
    """In the mean at least as good as Dawid-Skene, and never far below it."""
    gains = []
    for name in CROWDS:
        labels, truth = labelled_crowd(name)
        right = []
        for model in (Auto(), aggregation.make("dawid-skene")):
            inferred = model.fit_predict(labels)
            right.append((truth == inferred.astype(str).reindex(truth.index)).mean())
        gains.append(right[0] - right[1])
    assert np.mean(gains) >= 0
    assert min(gains) > -0.02
