"""Findings against slow references that follow the formulas word for word."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from conal.data.annotations import Annotations
from conal.planning import gains
from conal.report.evidence import Evidence
from conal.report.findings import Findings
from conal.report.intervals import intervals_of
from conal.report.sections import annotators, common_confusion, tasks
from conal.report.sections import plan as suggestions
from conal.report.sections.annotators import annotators_table, mistakes_above
from conal.report.sections.common_confusion import shown_classes
from conal.report.sections.plan import LEAST_SUGGESTED_GAIN

FloatArray = npt.NDArray[np.float64]


def random_evidence(seed: int, n: int = 40, r: int = 6, c: int = 3, *, omega: bool = True) -> Evidence:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, c, size=(n, r))
    matrix[rng.random((n, r)) < 0.4] = -1
    matrix[0] = -1
    matrix[:, -1] = -1
    t, a = np.nonzero(matrix >= 0)
    names = [f"c{k}" for k in range(c)]
    crowd = Annotations(
        t, a, matrix[t, a], task_ids=np.arange(n), annotator_ids=[f"w{k}" for k in range(r)], classes=names
    )
    q, f = rng.dirichlet(np.full(c, 0.4), size=n), rng.dirichlet(np.full(c, 0.4), size=n)
    pi = 0.5 * np.eye(c) + 0.5 * rng.dirichlet(np.ones(c), size=(r, c))
    share = rng.random(crowd.n_annotations) if omega else None
    return Evidence(crowd, q, f, pi.mean(0), pi, share)


def test_figures_agree_with_each_other_and_with_their_intervals() -> None:
    """A crowd of known truth whose model is less sure than its labels allow: one estimator gives all figures."""
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=400)
    labels = np.where(rng.random((400, 8)) < 0.8, z[:, None], rng.integers(3, size=(400, 8)))
    q = 0.5 * np.eye(3)[z] + 0.5 / 3
    pi = np.stack([0.6 * np.eye(3) + 0.4 / 3] * 8)
    found = Findings(Evidence(Annotations.from_matrix(labels), q, q, pi.mean(0), pi))
    people = found.table("annotators.csv").to_pydict()
    quality, given = np.array(people["annotator_quality"]), np.array(people["num_examples_labeled"])
    low, high = (np.array(people[f"annotator_quality_{end}"]) for end in ("low", "high"))
    assert ((low + high) / 2 - quality == pytest.approx(0, abs=0.02)) is True
    assert found.report["crowd"]["expected_label_accuracy"] == pytest.approx(quality @ given / given.sum())
    pairs = found.report["common_confusion"]["pairs"]
    assert pairs
    wrong = sum(pair["expected_count"] for pair in pairs)
    assert wrong == pytest.approx(sum(people["expected_mistakes"]))
    for pair in pairs:
        assert pair["share"] == pytest.approx((pair["low"] + pair["high"]) / 2, abs=0.02)


def test_an_annotator_who_errs_as_all_do_shares_mistakes_and_a_strange_one_does_not() -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=900)
    usual = np.array([[0.7, 0.3, 0.0], [0.0, 0.7, 0.3], [0.3, 0.0, 0.7]])
    strange = np.array([[0.7, 0.0, 0.3], [0.3, 0.7, 0.0], [0.0, 0.3, 0.7]])
    pi = np.stack([usual] * 19 + [strange])
    labels = (pi[:, z].cumsum(-1) > rng.random((20, 900, 1))).argmax(-1).T
    q = np.eye(3)[z]
    found = Findings(Evidence(Annotations.from_matrix(labels), q, q, usual, pi))
    shared = np.array(found.columns("annotators")["co_direction"].to_pylist())
    np.testing.assert_allclose(shared[:19], 17 / 19, atol=0.01)  # 18 of 19 others err the same way, one the other way
    assert shared[19] == pytest.approx(-1, abs=0.01)


def test_an_annotator_with_few_mistakes_has_no_co_direction() -> None:
    found = random_evidence(1)
    column = Findings(found).columns("annotators")["co_direction"].to_pylist()
    assert column[-1] is None  # without labels


def gain_by_enumeration(q: FloatArray, matrix: FloatArray) -> float:
    """Chance of a right label after the answer, averaged over the answers, minus that before."""
    after = 0.0
    for answer in range(len(q)):
        chance = sum(q[c] * matrix[c, answer] for c in range(len(q)))
        posterior = [q[c] * matrix[c, answer] / chance for c in range(len(q))]
        after += chance * max(posterior)
    return float(after - max(q))


def test_the_gain_of_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gains, "CHUNK", 50)
    found = random_evidence(4)
    q, best = found.posterior, found.posterior.max(1)

    def gain(confusion: FloatArray, r: int) -> FloatArray:
        return np.asarray(gains.value_of_answers(q, confusion, np.full((40, 1), r))[:, 0] - best)

    for r in range(6):
        by_enumeration = [max(gain_by_enumeration(each, found.individual[r]), 0) for each in q]
        np.testing.assert_allclose(gain(found.individual, r), by_enumeration, atol=1e-12)
    np.testing.assert_allclose(gain(np.eye(3)[None], 0), 1 - best, atol=1e-12)
    np.testing.assert_allclose(gain(np.full((1, 3, 3), 1 / 3), 0), 0, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_suggestions_are_the_best_that_nobody_gave_yet(seed: int) -> None:
    found = random_evidence(seed)
    crowd = found.annotations
    rows = suggestions.suggestions(found)
    matrix, by_task = crowd.to_matrix(), {row["task"]: row for row in rows}
    for task in range(40):
        gained = {}
        for r in range(5):  # the last one never labelled anything
            if matrix[task, r] >= 0:
                continue
            mine = crowd.annotators == r
            given = crowd.labels_per_task()[crowd.tasks[mine]]
            met = (found.posterior[crowd.tasks[mine]] * ((given - 1) / given)[:, None]).sum(0)  # judged by others
            omega = found.omega[mine].mean()  # type: ignore[index]
            mixed = omega * found.common + (1 - omega) * found.individual[r]
            cautious = (met[:, None] * mixed + gains.CAUTION * found.common) / (met[:, None] + gains.CAUTION)
            gained[f"w{r}"] = gain_by_enumeration(found.posterior[task], cautious)
        best = max(gained, key=lambda name: gained[name]) if gained else None
        if best is None or gained[best] < LEAST_SUGGESTED_GAIN:
            assert task not in by_task
            continue
        assert by_task[task]["worker"] == best
        assert by_task[task]["expected_gain"] == pytest.approx(gained[best], abs=1e-12)
        assert by_task[task]["probability"] == found.posterior[task].max()
    assert [row["expected_gain"] for row in rows] == sorted((row["expected_gain"] for row in rows), reverse=True)


def test_lists_of_tasks() -> None:
    found = random_evidence(1)
    crowd = found.annotations
    lists: Any = Findings(found).section("tasks")
    votes = crowd.votes()
    wrong = [i for i in range(40) if votes[i].max() and votes[i, found.posterior[i].argmax()] < votes[i].max()]
    assert sorted(row["task"] for row in lists["likely_wrong"]["rows"]) == wrong
    assert lists["likely_wrong"]["total"] == len(wrong)
    shown = [row["majority_vote_probability"] for row in lists["likely_wrong"]["rows"]]
    assert shown == sorted(shown)
    bits = [row["entropy"] for row in lists["ambiguous"]["rows"]]
    assert bits == sorted(bits, reverse=True)
    first = lists["ambiguous"]["rows"][0]
    q = found.posterior[first["task"]]
    assert first["entropy"] == pytest.approx(-sum(p * math.log2(p) for p in q))
    assert (first["probability"], first["second_probability"]) == tuple(sorted(q, reverse=True)[:2])
    apart = lists["disagreements"]
    assert found.classifier is not None
    said, inferred, majority = found.classifier.argmax(1), found.inferred, found.majority
    against = np.flatnonzero((majority >= 0) & (said != majority))
    assert sum(apart["sides"].values()) == len(against)
    kept = against[inferred[against] == majority[against]]
    assert apart["total"] == apart["sides"]["crowd"] == len(kept)
    assert sorted(row["task"] for row in apart["rows"]) == kept.tolist()  # the others are likely wrong
    certain = [row["classifier_probability"] for row in apart["rows"]]
    assert certain == sorted(certain, reverse=True)
    for row in apart["rows"]:
        assert row["classifier_label"] == f"c{found.classifier[row['task']].argmax()}"
        assert dict(row["votes"]) == {f"c{k}": n for k, n in enumerate(votes[row["task"]]) if n}
        assert row["classifier_label"] != row["majority_vote"]


def test_votes_that_true_labels_overrule_are_known_to_be_wrong() -> None:
    """The list of likely ones began with them, which the user knew already."""
    q = np.array([[0.0, 1.0], [0.3, 0.7], [0.9, 0.1]])
    crowd = Annotations.from_matrix([[0, 0, 0]] * 3, classes=range(2))
    pi = np.stack([np.eye(2)] * 3)
    evidence = Evidence(crowd, q, None, np.eye(2), pi, known=np.array([1, -1, -1]))
    found = Findings(evidence).section("tasks")["likely_wrong"]
    assert found["total"] == 1
    assert [row["task"] for row in found["rows"]] == [1]


def test_lists_are_sorted_by_what_rounding_hides() -> None:
    """One minus 1e-18 is one, but a majority vote with a probability of 1e-20 is the less probable one."""
    small = np.array([1e-18, 1e-20, 1e-4, 1e-19])
    q = np.column_stack([small, 1 - small])
    crowd = Annotations.from_matrix(np.zeros((4, 3), dtype=int), classes=range(2))
    pi = np.stack([np.eye(2)] * 3)
    wrong = Findings(Evidence(crowd, q, q, np.eye(2), pi)).section("tasks")["likely_wrong"]["rows"]
    assert [row["task"] for row in wrong] == [1, 3, 0, 2]
    apart = Findings(Evidence(crowd, q[:, ::-1], q, np.eye(2), pi)).section("tasks")["disagreements"]["rows"]
    assert [row["task"] for row in apart] == [1, 3, 0, 2]


def test_lists_show_the_worst_and_count_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = random_evidence(1)
    everything = Findings(found).section("tasks")["ambiguous"]
    monkeypatch.setattr(tasks, "MAX_SHOWN", 3)
    some = Findings(found).section("tasks")["ambiguous"]
    assert some == {"total": everything["total"], "rows": everything["rows"][:3]}


def test_pairs_have_their_shares_counts_and_annotators() -> None:
    found = random_evidence(2)
    drawn, crowd = intervals_of(found, 0), found.annotations
    for pair in Findings(found).section("common_confusion")["pairs"]:
        c, label = int(pair["true"][1:]), int(pair["observed"][1:])
        assert c != label
        assert pair["share"] == drawn.confusion.value[c, label]
        assert pair["share"] == pytest.approx(pair["expected_count"] / drawn.counts[c].sum())
        assert pair["low"] <= pair["share"] <= pair["high"]
        assert pair["learned"] == found.common[c, label]
        made = np.zeros(6)
        for k in np.flatnonzero(crowd.labels == label):
            made[crowd.annotators[k]] += found.posterior[crowd.tasks[k], c]
        assert pair["annotators_who_made_it"] == (made >= 0.5).sum()


def test_annotators_have_their_worst_class_and_expected_mistakes() -> None:
    found = random_evidence(3, omega=False)
    table = annotators_table(found, intervals_of(found, 0).quality).to_pydict()
    assert "common_noise_rate" not in table
    assert [table[name][-1] for name in ("annotator_quality", "annotator_quality_low", "worst_class")] == [None] * 3
    for r in range(5):
        worst = min(
            (c for c in range(3) if found.classes_met[r, c] >= 1),
            key=lambda c, r=r: found.individual[r, c, c],  # type: ignore[misc]
        )
        assert table["worst_class"][r] == f"c{worst}"
        assert table["annotator_quality_low"][r] <= table["annotator_quality"][r] <= table["annotator_quality_high"][r]
        wrong = table["num_examples_labeled"][r] * (1 - table["annotator_quality"][r])
        assert table["expected_mistakes"][r] == pytest.approx(wrong)


def test_matrices_are_those_of_the_annotators_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annotators, "MAX_CELLS", 9 * 2)
    found = random_evidence(5)
    report = Findings(found).report
    rows: Any = report["annotators"]["rows"]
    assert ["matrix" in row for row in rows] == [True, True, False, False, False, False]
    for row in rows[:2]:
        assert row["matrix"] == found.individual[int(row["worker"][1:])].tolist()
    above: Any = [mistakes_above(row, report["crowd"]) for row in rows[:-1]]
    assert above == sorted(above, key=lambda each: (each.low <= 0, -each.value))
    assert rows[-1]["expected_mistakes"] is None


def test_of_many_classes_those_with_the_most_mistakes_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common_confusion, "MAX_CLASSES", 2)
    labels = [[0]] * 5 + [[2]] * 3 + [[1]] * 4 + [[2]]
    truth = [0] * 8 + [1] * 4 + [2]
    q = np.eye(3)[truth]
    found = Evidence(Annotations.from_matrix(labels), q, q, np.eye(3), np.eye(3)[None])
    assert shown_classes(found).tolist() == [0, 2]
    assert Findings(found).section("common_confusion")["matrix"] == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("r", [0, 1])
def test_none_or_one_annotator(r: int) -> None:
    crowd = Annotations(
        [0, 1][: 2 * r],
        [0, 0][: 2 * r],
        [0, 1][: 2 * r],
        task_ids=["a", "b"],
        annotator_ids=["w"][:r],
        classes=["x", "y"],
    )
    q = np.array([[0.6, 0.4], [0.7, 0.3]])
    found = Findings(Evidence(crowd, q, q, np.eye(2), np.stack([np.eye(2)] * r) if r else np.empty((0, 2, 2))))
    assert found.report["suggestions"]["rows"] == []
    assert found.tables["suggestions.csv"].column_names == ["task", "worker", "expected_gain", "label", "probability"]
    assert found.report["annotators"]["total"] == r
    assert found.report["crowd"]["krippendorff_alpha"] is None
    json.dumps(found.report, allow_nan=False)
