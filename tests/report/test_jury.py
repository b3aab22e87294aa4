"""The jury's part of the report: what it counts is what happens, nobody is named who must not be, names stay text."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from conal import aggregation
from conal.data.annotations import Annotations
from conal.data.encoding import as_names
from conal.errors import InputError
from conal.metrics import replacement_test
from conal.report.evidence import Discretion, Evidence
from conal.report.exhibits import Exhibits, exhibited
from conal.report.findings import Findings, checked_report
from conal.report.page import render
from conal.report.section import findings_registry
from conal.report.sections.jury import SMALLEST, PartialLabels, is_jury, order_of_removal, sub_juries, without_each
from helpers.juries import NOISE, jury
from helpers.models import model_section

FloatArray = npt.NDArray[np.float64]
GROUPS = ["human", "human", "human", "llm", "llm"]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def fitted() -> Any:
    return aggregation.DawidSkene(verbose=False).fit(jury()[0])


def bayes(crowd: Annotations, prior: FloatArray, pi: FloatArray) -> FloatArray:
    """P(true class | labels), by a loop."""
    joint = np.array(prior)
    for i, r, label in zip(crowd.tasks, crowd.annotators, crowd.labels, strict=True):
        joint[i] *= pi[r, :, label]
    return np.asarray(joint / joint.sum(1, keepdims=True))


def matrices(seed: int, n: int) -> FloatArray:
    return np.random.default_rng(seed).dirichlet(np.ones(3), size=(n, 3)) * 0.5 + 0.5 * np.eye(3)


@pytest.mark.parametrize(
    ("shape", "share", "expected"),
    [
        pytest.param((60, 5), 1.0, True, id="a jury"),
        pytest.param((60, 2), 1.0, False, id="two annotators"),
        pytest.param((80, 61), 1.0, False, id="too many"),
        pytest.param((60, 5), 0.3, False, id="different tasks"),
        pytest.param((15, 5), 1.0, False, id="few tasks"),
        pytest.param((400, 5), 0.7, True, id="most of many tasks"),
        pytest.param((400, 5), 0.3, False, id="many common tasks, and more others"),
    ],
)
def test_a_jury_is_a_few_annotators_of_the_same_tasks(shape: tuple[int, int], share: float, expected: bool) -> None:
    rng = np.random.default_rng(0)
    matrix = np.where(rng.random(shape) < share, rng.integers(2, size=shape), -1)
    crowd = Annotations.from_matrix(matrix, classes=range(2))
    q = np.full((shape[0], 2), 0.5)
    evidence = Evidence(crowd, q, None, np.eye(2), np.stack([np.eye(2)] * shape[1]))
    assert is_jury(evidence) is expected


# ---------------------------------------------------------------- labels by parts of the jury


@pytest.mark.parametrize("power", [1.0, 0.6], ids=["bayes", "held back"])
@pytest.mark.parametrize("features", [False, True], ids=["labels", "classifier"])
def test_votes_are_taken_out_as_if_they_had_never_been_there(power: float, features: bool) -> None:
    crowd, _ = jury(n_tasks=120, answered=0.7)
    pi = matrices(0, crowd.n_annotators)
    f = np.random.default_rng(1).dirichlet(np.full(3, 2.0), size=120)
    prior = f if features else np.tile([0.5, 0.3, 0.2], (120, 1))

    def posterior(some: Annotations) -> FloatArray:
        q = bayes(some, prior, pi) ** power
        return np.asarray(q / q.sum(1, keepdims=True))

    labels = PartialLabels(Evidence(crowd, posterior(crowd), f if features else None, pi.mean(0), pi))
    assert labels.how == "votes"
    assert labels.weight == pytest.approx(power, abs=1e-6)
    members = np.array([True, False, True, True, False, True, True])
    np.testing.assert_allclose(labels.by(members), posterior(crowd.select(members[crowd.annotators])), atol=1e-6)


def test_labels_are_aggregated_again(fitted: Any) -> None:
    labels = PartialLabels(fitted.results_.evidence)
    crowd = fitted.annotations_
    assert labels.how == "refit"
    assert labels.unseen is None
    without = crowd.select(crowd.annotators != 2)
    expected = aggregation.DawidSkene(verbose=False).fit(without)
    np.testing.assert_array_equal(labels.by(np.arange(7) != 2), expected.probas_)
    row = next(row for row in fitted.results_.section("jury")["judges"] if row["worker"] == "oak-l")
    assert row["changed"] == (expected.codes_ != fitted.codes_).sum()
    assert row["changed_share"] == pytest.approx(row["changed"] / 300, abs=5e-4)


def test_true_labels_judge_labels_that_have_not_seen_them() -> None:
    crowd, z = jury()
    known = {task: "xyz"[z[task]] for task in range(40)}
    taught = aggregation.DawidSkene(verbose=False).fit(crowd, true_labels=known)
    labels = PartialLabels(taught.results_.evidence)
    np.testing.assert_array_equal(labels.before, taught.probas_)
    assert labels.unseen is not None
    np.testing.assert_array_equal(labels.unseen, aggregation.DawidSkene(verbose=False).fit(crowd).probas_)
    assert (labels.unseen[:40].argmax(1) != z[:40]).any()  # or this test would say nothing
    assert labels.judged is not None
    np.testing.assert_array_equal(labels.judged[:40], z[:40])
    assert (labels.judged[40:] == -1).all()
    members = np.arange(7) != 5
    part = crowd.select(members[crowd.annotators])
    with_truth = aggregation.DawidSkene(verbose=False).fit(part, true_labels=known).probas_
    np.testing.assert_array_equal(labels.by(members), with_truth)
    np.testing.assert_array_equal(labels.unseen_by(members), aggregation.DawidSkene(verbose=False).fit(part).probas_)
    assert taught.results_.section("jury")["true_labels"] == 40
    few = aggregation.DawidSkene(verbose=False).fit(crowd, true_labels=dict(itertools.islice(known.items(), 20)))
    assert few.results_.section("jury")["true_labels"] == 0


def test_votes_taken_out_leave_known_tasks_as_they_are() -> None:
    crowd, z = jury(n_tasks=120)
    pi = matrices(0, crowd.n_annotators)
    unseen = bayes(crowd, np.full((120, 3), 1 / 3), pi)
    known = np.where(np.arange(120) < 40, z, -1)
    q = np.where(known[:, None] >= 0, np.eye(3)[z], unseen)
    labels = PartialLabels(Evidence(crowd, q, None, pi.mean(0), pi, known=known, unseen=unseen))
    nobody = np.full(7, False)
    np.testing.assert_array_equal(labels.by(nobody)[:40], np.eye(3)[z[:40]])
    np.testing.assert_allclose(labels.unseen_by(nobody), 1 / 3, atol=1e-4)
    (change, *_) = without_each(labels, np.arange(7))
    assert labels.judged is not None
    old, new = unseen.argmax(1), labels.unseen_by(np.arange(7) != 0).argmax(1)
    assert change.n_changed == (old != new)[40:].sum()


def test_with_all_true_labels_labels_do_not_change() -> None:
    crowd, z = jury()
    taught = aggregation.DawidSkene(verbose=False).fit(crowd, true_labels=dict(enumerate(np.array(list("xyz"))[z])))
    alone = aggregation.DawidSkene(verbose=False)
    right = (alone.fit(crowd).codes_ == z).mean()
    for r, change in enumerate(without_each(PartialLabels(taught.results_.evidence), np.arange(7))):
        exact = (alone.fit(crowd.select(crowd.annotators != r)).codes_ == z).mean() - right
        assert change.n_changed == 0
        # some draws are the change without true labels, which is a fact here, and the others are no change
        assert sorted(set(np.round(change.draws, 9))) == pytest.approx(sorted({0.0, round(exact, 9)}))


def test_who_leaves_is_who_costs_least_accuracy_for_the_money(fitted: Any) -> None:
    labels = PartialLabels(fitted.results_.evidence)
    judges, q = np.arange(7), fitted.probas_
    costs = np.array([1.0, 1.0, 3.0, 1.0, 1.0, 3.0, 1.0])
    pi = np.maximum(fitted.confusion_, 1e-12)
    crowd, left = fitted.annotations_, list(range(7))
    expected: list[int] = []

    def accuracy(gone: list[int]) -> float:
        logs = np.log(np.maximum(q, 1e-12))
        for i, r, label in zip(crowd.tasks, crowd.annotators, crowd.labels, strict=True):
            if r in gone:
                logs[i] -= labels.weight * np.log(pi[r, :, label])
        return float(q[np.arange(len(q)), logs.argmax(1)].mean())

    while len(left) > SMALLEST:
        now = accuracy(expected)
        gains = [(accuracy([*expected, k]) - now) / costs[k] for k in left]
        expected.append(left.pop(int(np.argmax(gains))))
    assert order_of_removal(labels, judges, costs) == expected
    assert crowd.annotator_ids[expected[0]] == NOISE
    steps = sub_juries(labels, judges, costs)
    assert [step.removed for step in steps] == expected
    assert [int(step.members.sum()) for step in steps] == [6, 5, 4, 3]
    np.testing.assert_allclose([step.cost_share for step in steps], 1 - np.cumsum(costs[expected]) / costs.sum())
    last = aggregation.DawidSkene(verbose=False).fit(crowd.select(steps[-1].members[crowd.annotators]))
    assert steps[-1].change.n_changed == (last.codes_ != fitted.codes_).sum()


def test_an_expensive_judge_leaves_earlier(fitted: Any) -> None:
    labels, judges = PartialLabels(fitted.results_.evidence), np.arange(7)
    alike = order_of_removal(labels, judges, np.ones(7))
    last = alike[-1]
    dear = order_of_removal(labels, judges, np.where(judges == last, 1e6, 1.0))
    assert dear.index(last) < alike.index(last)
    free = order_of_removal(labels, judges, np.where(judges == alike[1], 0.0, 1.0))
    assert alike[1] not in free


# ---------------------------------------------------------------- the section


def test_who_only_guesses_adds_nothing(fitted: Any) -> None:
    report = fitted.results_.report
    found = report["jury"]
    rows = {row["worker"]: row for row in found["judges"]}
    assert found["n_judges"] == len(rows) == 7
    assert rows[NOISE]["verdict"] == "nothing"
    assert rows[NOISE]["nothing"] >= 2 / 3
    assert rows["oak-l"]["verdict"] != "nothing"
    assert rows["oak-l"]["low"] <= rows["oak-l"]["change"] <= rows["oak-l"]["high"]
    assert NOISE not in found["smaller"]["members"]
    assert found["smaller"]["chosen"] == max(k for k, row in enumerate(found["smaller"]["rows"]) if row["as_good"])
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    idle, fewer = findings_registry.get("jury").headlines(found, report)
    assert "probably add nothing" in idle
    assert "would probably do" in fewer


def test_the_map_is_that_of_the_errors_and_shows_families(fitted: Any) -> None:
    found = fitted.results_.report["jury"]["map"]
    errors = fitted.results_.evidence.errors_by_posterior
    place = {name: k for k, name in enumerate(errors.annotators.tolist())}
    for r, row in zip(found["workers"], found["correlation"], strict=True):
        for s, value in zip(found["workers"], row, strict=True):
            expected = None if r == s else round(float(errors.correlation[place[r], place[s]]), 2)
            assert value == expected
    families = [name.split("-")[0] for name in found["workers"] if name != NOISE]
    assert len(list(itertools.groupby(families))) == 2  # each in one piece
    assert sorted(errors.order.tolist()) == list(range(7))


def test_nobody_is_told_who_must_not_be() -> None:
    crowd, _ = jury()
    few = crowd.select((crowd.annotators != 3) | (crowd.tasks < 40))
    full = aggregation.DawidSkene(verbose=False).fit(few).results_.evidence
    hidden = few.annotator_ids[3]
    evidence = Evidence(few, full.posterior, None, full.common, full.individual, discretion=Discretion(50))
    found = Findings(evidence).section("jury")
    assert found["n_judges"] == 7
    assert hidden not in json.dumps(found)
    assert len(found["judges"]) == len(found["map"]["workers"]) == 6
    for row in found["judges"]:
        assert row["labels"] % 50 == row["changed"] % 50 == 0
        for key in ("changed_share", "change", "low", "high"):
            assert round(row[key], 2) == row[key]
    if any(row["worker"] is None for row in found["smaller"]["rows"]):
        report = Findings(evidence).report | {"model": model_section()}
        assert "last to leave" in render(report)


def test_groups_costs_and_names_are_shown_as_text() -> None:
    crowd, _ = jury(names=HOSTILE)
    full = aggregation.DawidSkene(verbose=False).fit(crowd).results_.evidence
    groups = as_names(["<b>oak"] * 3 + ["elm"] * 3 + [None])
    costs = np.arange(1.0, 8.0)
    evidence = Evidence(crowd, full.posterior, None, full.common, full.individual, groups=groups, costs=costs)
    report: Any = Findings(evidence).report | {"model": model_section()}
    assert report["jury"]["how"] == "votes"
    assert next(row["cost"] for row in report["jury"]["judges"] if row["worker"].endswith("elm-l")) == 6.0
    assert report["jury"]["smaller"]["costs_known"]
    shown = exhibited(report, Exhibits(names={f"{HOSTILE}{NOISE}": "<i>Ann"}))
    page = render(shown)
    body = page.split('<section id="jury">')[1].split("</section>")[0]
    assert HOSTILE not in body
    assert "&lt;img src=x onerror=alert(1)&gt;oak-l" in body
    assert "&lt;b&gt;oak" in body
    assert "&lt;i&gt;Ann" in body
    assert "cost per label" in body


def test_the_page_of_labels_alone_has_the_jury(fitted: Any) -> None:
    page = render(fitted.results_.report)
    body = page.split('<section id="jury">')[1].split("</section>")[0]
    assert 'data-chart="errors"' in body
    assert "aggregated again without each judge" in body
    assert "worth those of at most" in body
    for name in fitted.annotator_ids_.tolist():
        assert f"<td>{name}</td>" in body
    assert '<a href="#jury">The jury</a>' in page


def test_damage_is_told(fitted: Any) -> None:
    report: Any = json.loads(json.dumps(fitted.results_.report))
    report["jury"]["smaller"]["chosen"] = 99
    with pytest.raises(Exception, match=r"jury\.smaller\.chosen"):
        checked_report(report)


def test_a_slow_aggregator_is_not_fitted_again_and_auto_fits_what_it_chose() -> None:
    crowd, z = jury(n_tasks=120)
    slow = aggregation.make("minimax-entropy", verbose=False)
    assert not slow.quick
    assert aggregation.DawidSkene.quick
    auto = aggregation.Auto(verbose=False).fit(crowd, true_labels=dict(enumerate(np.array(list("xyz"))[z])))
    expected = aggregation.Auto if auto.chosen_ == "mean" else type(auto.members_[auto.chosen_])
    assert type(auto.again()) is expected
    assert aggregation.DawidSkene(prior=0.3, seed=4).again().get_params() == {
        **aggregation.DawidSkene(prior=0.3, seed=4).get_params(),
        "verbose": False,
    }


# ---------------------------------------------------------------- people and models


def mixed(groups: list[str | None]) -> Evidence:
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=200)
    rows = [np.where(rng.random(200) < p, z, rng.integers(2, size=200)) for p in (0.8, 0.8, 0.8, 0.9, 0.0)]
    crowd = Annotations.from_matrix(np.column_stack(rows), classes=range(2))
    q = np.eye(2)[z]
    return Evidence(crowd, q, q, np.eye(2), np.stack([np.eye(2)] * 5), groups=as_names(groups))


def test_models_that_may_replace_people_are_named() -> None:
    found = Findings(mixed(["Human", "human", "human", "llm", "<b>llm"]))
    section = found.section("replacement")
    assert [(row["model"], row["replaces"]) for row in section["rows"]] == [(3, True), (4, False)]
    assert section["rows"][0]["people"] == 3
    finding = findings_registry.get("replacement")
    (sentence,) = finding.headlines(section, found.report)
    assert sentence.startswith("<b>1</b> of 2 models may replace people")
    assert "with a handicap of 0.2 for people" in sentence
    page = render(found.report | {"model": model_section()})
    assert "May models replace people?" in page
    assert "People have a handicap of 0.2 (--handicap)" in page


def test_the_handicap_of_people_can_be_set() -> None:
    evidence = mixed(["human", "human", "human", "llm", "llm"])
    crowd, (model, *_) = evidence.annotations, replacement_test(evidence.annotations, [3, 4], epsilon=0.0)
    section = Findings(evidence).with_handicap(0.0).section("replacement")
    assert section["epsilon"] == 0.0
    rows = {row["model"]: row for row in section["rows"]}
    assert (rows[3]["winning_share"], rows[3]["replaces"]) == (model.winning_rate, model.replaces)
    expected = [sum(found.replaces for found in replacement_test(crowd, [3, 4], epsilon=e)) for e in (0.2, 0.15, 0.1)]
    assert [count["models"] for count in section["counts"]] == expected
    fitted = aggregation.MajorityVote().fit(crowd, annotator_info=pa.table({"worker": range(5), "group": GROUPS}))
    assert fitted.report().document["replacement"]["epsilon"] == 0.2  # type: ignore[typeddict-item]
    assert fitted.report(handicap=0.1).document["replacement"]["epsilon"] == 0.1  # type: ignore[typeddict-item]
    with pytest.raises(InputError, match="handicap must be a number from 0 to below 1, not 1"):
        fitted.report(handicap=1)


def test_classes_that_are_a_scale_are_compared_by_distance() -> None:
    """The report ignored it."""
    rng = np.random.default_rng(2)
    z = rng.integers(5, size=300)
    near = [np.clip(z + rng.integers(-1, 2, size=300), 0, 4) for _ in range(3)]
    far = np.where(rng.random(300) < 0.3, z, rng.integers(5, size=300))  # right as often, and else anywhere
    grades = np.array([f"grade {k}" for k in range(5)])
    crowd = Annotations.from_matrix(grades[np.column_stack([*near, near[0], far])])
    shares = {}
    for scale in (False, True):
        told = crowd.as_ordinal(crowd.classes.tolist()) if scale else crowd
        info = pa.table({"worker": range(5), "group": GROUPS})
        section: Any = aggregation.MajorityVote().fit(told, annotator_info=info).report().document["replacement"]  # type: ignore[typeddict-item]
        assert section["scale"] == scale
        shares[scale] = {row["model"]: row["advantage_share"] for row in section["rows"]}
        by_hand = replacement_test(told, [3, 4], scale=scale)
        assert shares[scale] == {found.model: found.advantage_probability for found in by_hand}
    assert shares[True][4] < shares[False][4] - 0.05


def test_groups_are_compared_by_the_labels_of_people() -> None:
    """By inferred labels, models judged themselves; without people there is nothing to compare with."""
    evidence = mixed(["human", "human", "human", "llm", "llm"])
    rows = {row["group"]: row for row in Findings(evidence).section("groups")["rows"]}
    assert all("right" not in row for row in rows.values())
    labels = np.full((200, 5), -1)
    labels[evidence.annotations.tasks, evidence.annotations.annotators] = evidence.annotations.labels
    pairs = {"human": [(0, 1), (0, 2), (1, 2)], "llm": [(m, h) for m in (3, 4) for h in range(3)]}
    for group, some in pairs.items():
        expected = np.mean([(labels[:, a] == labels[:, b]).mean() for a, b in some])
        assert rows[group]["agreement_with_people"] == pytest.approx(expected, abs=1e-4)
    page = render(Findings(evidence).report | {"model": model_section()})
    assert "agrees with people" in page
    alone = Findings(mixed(["a", "a", "a", "b", "b"]))
    assert all("agreement_with_people" not in row for row in alone.section("groups")["rows"])
    assert "agrees with people" not in render(alone.report | {"model": model_section()})


@pytest.mark.parametrize("groups", [[None] * 5, ["llm"] * 5, ["human"] * 5], ids=["unknown", "models", "people"])
def test_without_people_and_models_there_is_nothing_to_test(groups: list[str | None]) -> None:
    assert "replacement" not in Findings(mixed(groups)).report


def test_too_few_common_items_are_a_reason_not_an_error() -> None:
    evidence = mixed(["human", "llm", "llm", "llm", "llm"])
    section = Findings(evidence).section("replacement")
    assert section["rows"] == []
    assert "no person labelled 30 items" in section["reason"]
    assert list(findings_registry.get("replacement").headlines(section, Findings(evidence).report)) == []
