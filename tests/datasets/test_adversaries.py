"""People who mean harm do in simulated crowds what the truth says that they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conal.data.annotations import Annotations
from conal.datasets import CrowdSettings, simulate_crowd
from conal.datasets.adversaries import Adversaries
from conal.datasets.crowd import CrowdTruth
from conal.errors import InputError


def crowd(kinds: str, *, n: int = 1200, C: int = 4, **options: Any) -> tuple[Annotations, CrowdTruth]:
    settings: dict[str, Any] = {"n_annotators": 20, "labels_per_instance": 4, "adversaries": kinds, "turn_after": 100}
    z = np.arange(n) % C
    return simulate_crowd(z, np.ones((n, 1)), range(C), CrowdSettings(**(settings | options)))


def harmful(truth: CrowdTruth, kind: str) -> tuple[Adversaries, np.ndarray]:
    assert truth.adversaries is not None
    people = np.flatnonzero(truth.adversaries.kind == kind)
    assert len(people) == 4  # 20 % of 20
    return truth.adversaries, people


def test_spammers_say_one_class_each() -> None:
    ann, truth = crowd("spammers")
    _, people = harmful(truth, "spammers")
    for r in people:
        (said,) = np.unique(ann.labels[ann.annotators == r])
        assert (truth.pi_r[r][:, said] == 1).all()
    assert not truth.omega[np.isin(ann.annotators, people)].any()


def test_clickers_say_anything() -> None:
    ann, truth = crowd("clickers")
    _, people = harmful(truth, "clickers")
    counts = np.zeros((4, 4))
    mine = np.isin(ann.annotators, people)
    np.add.at(counts, (truth.z[ann.tasks[mine]], ann.labels[mine]), 1)
    assert np.abs(counts / counts.sum(1, keepdims=True) - 0.25).max() < 0.09


def test_a_ring_exchanges_all_classes_in_one_way() -> None:
    ann, truth = crowd("ring")
    _, people = harmful(truth, "ring")
    exchange = truth.pi_r[people[0]].argmax(1)
    assert sorted(exchange) == [0, 1, 2, 3]
    assert (exchange != np.arange(4)).all()
    mine = np.isin(ann.annotators, people)
    np.testing.assert_array_equal(ann.labels[mine], exchange[truth.z[ann.tasks[mine]]])


@pytest.mark.parametrize("options", [{}, {"families": 2, "families_share": "common"}, {"pairs": {0: 1}}])
def test_followers_make_the_common_mistake_and_no_other(options: dict[str, Any]) -> None:
    ann, truth = crowd("followers", seed=3, **options)
    _, people = harmful(truth, "followers")
    for r in people:
        common = truth.pi_g if truth.pi_f is None or truth.groups is None else truth.pi_f[truth.groups[r]]
        mine = ann.annotators == r
        given, true = ann.labels[mine], truth.z[ann.tasks[mine]]
        wrong = given != true
        np.testing.assert_array_equal(wrong, np.diagonal(common)[true] < 1)
        assert (common[true[wrong], given[wrong]] == 0.4).all()
    assert not truth.omega[np.isin(ann.annotators, people)].any()


def test_copyists_copy_later_and_leave_no_task_without_a_label() -> None:
    ann, truth = crowd("copyists")
    found, people = harmful(truth, "copyists")
    assert (found.kind[found.source[people]] == "honest").all()
    assert (ann.labels_per_task() > 0).all()
    label = {(i, r): (y, t) for i, r, y, t in zip(ann.tasks, ann.annotators, ann.labels, found.time, strict=True)}
    copies = shared = 0
    for k in np.flatnonzero(np.isin(ann.annotators, people)):
        source = label.get((ann.tasks[k], found.source[ann.annotators[k]]))
        shared += source is not None
        if found.copied[k]:
            assert source is not None
            assert ann.labels[k] == source[0]
            assert found.time[k] > source[1]
            copies += 1
    assert 0.85 < copies / shared < 0.95  # copied_share
    assert shared > 0.9 * np.isin(ann.annotators, people).sum()
    assert not found.copied[~np.isin(ann.annotators, people)].any()


def test_sleepers_turn_after_their_labels() -> None:
    ann, truth = crowd("sleepers", common_strength=0.0, individual_strength=0.0)
    found, people = harmful(truth, "sleepers")
    right = ann.labels == truth.z[ann.tasks]
    for r in people:
        mine = np.flatnonzero(ann.annotators == r)
        by_time = right[mine[np.argsort(found.time[mine])]]
        assert found.turns_after[r] == 100
        assert by_time[:100].all()
        assert by_time[100:].mean() < 0.45
    assert right[~np.isin(ann.annotators, people)].all()


def test_others_label_as_they_would_have() -> None:
    honest, _ = crowd("")
    for kind in ("spammers", "ring", "sleepers"):
        ann, truth = crowd(kind)
        others = ~np.isin(ann.annotators, harmful(truth, kind)[1])
        np.testing.assert_array_equal(ann.labels[others], honest.labels[others])
    assert crowd("")[1].adversaries is None


def test_kinds_share_equally() -> None:
    _, truth = crowd("spammers, ring", adversary_share=0.4)
    assert truth.adversaries is not None
    assert dict(zip(*np.unique(truth.adversaries.kind, return_counts=True), strict=True)) == {
        "honest": 12,
        "ring": 4,
        "spammers": 4,
    }


def test_refusals() -> None:
    with pytest.raises(InputError, match="adversaries must be empty, or one or several of spammers, clickers"):
        CrowdSettings(adversaries="thieves")
    with pytest.raises(InputError, match="leave at least one honest annotator"):
        crowd("ring", n_annotators=2, labels_per_instance=1, adversary_share=0.9)
