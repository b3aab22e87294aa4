"""The jury's part of the report: what it counts is what happens, nobody is named who must not be, names stay text."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conal import aggregation
from conal.data.annotations import Annotations
from conal.data.encoding import as_names
from conal.metrics import replacement_test
from conal.report.evidence import AnnotatorPrivacy, Evidence
from conal.report.exhibits import Exhibits, exhibited
from conal.report.findings import Findings, findings_registry
from conal.report.page import render
from conal.report.sections.jury import is_jury, leave_one_out
from helpers.juries import NOISE, jury
from helpers.models import model_section

GROUPS = ["human", "human", "human", "llm", "llm"]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def fitted() -> Any:
    return aggregation.DawidSkene(verbose=False).fit(jury()[0])


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


# ---------------------------------------------------------------- labels without one annotator


def test_labels_are_aggregated_again(fitted: Any) -> None:
    crowd = fitted.annotations_
    expected = aggregation.DawidSkene(verbose=False).fit(crowd.select(crowd.annotators != 2))
    section = fitted.results_.section("jury")
    row = next(row for row in section["judges"] if row["worker"] == "oak-l")
    assert section["how"] == "refit"
    assert row["changed"] == (expected.codes_ != fitted.codes_).sum()
    assert row["changed_share"] == pytest.approx(row["changed"] / 300, abs=5e-4)
    assert "change" not in row  # nothing measures it


def test_true_labels_measure_labels_that_have_not_seen_them() -> None:
    crowd, z = jury()
    known = {task: "xyz"[z[task]] for task in range(40)}
    ds = aggregation.DawidSkene(verbose=False)
    taught = aggregation.DawidSkene(verbose=False).fit(crowd, true_labels=known)
    effects = leave_one_out(taught.results_.evidence, np.arange(7))
    before = ds.fit(crowd).codes_
    assert (before[:40] != z[:40]).any()  # or this test would say nothing
    for r, effect in enumerate(effects):
        part = crowd.select(crowd.annotators != r)
        assert effect.changed == (ds.fit(part, true_labels=known).codes_ != taught.codes_).sum()
        after = ds.fit(part).codes_
        limit = (after != before).mean()
        change = (after == z)[:40].mean() - (before == z)[:40].mean()
        assert effect.right is not None
        assert effect.right.value == pytest.approx(np.clip(change, -limit, limit))
        assert -limit <= effect.right.low <= effect.right.value <= effect.right.high <= limit
    assert taught.results_.section("jury")["true_labels"] == 40
    few = aggregation.DawidSkene(verbose=False).fit(crowd, true_labels=dict(itertools.islice(known.items(), 20)))
    assert few.results_.section("jury")["true_labels"] == 0


def test_with_all_true_labels_labels_do_not_change_and_the_measure_is_exact() -> None:
    crowd, z = jury()
    taught = aggregation.DawidSkene(verbose=False).fit(crowd, true_labels=dict(enumerate(np.array(list("xyz"))[z])))
    alone = aggregation.DawidSkene(verbose=False)
    right = (alone.fit(crowd).codes_ == z).mean()
    for r, effect in enumerate(leave_one_out(taught.results_.evidence, np.arange(7))):
        exact = (alone.fit(crowd.select(crowd.annotators != r)).codes_ == z).mean() - right
        assert effect.changed == 0
        assert effect.right is not None
        assert effect.right[:3] == pytest.approx((exact, exact, exact), abs=1e-4)


def test_votes_taken_out_leave_known_tasks_as_they_are(fitted: Any) -> None:
    full, known = fitted.results_.evidence, np.full(300, -1)
    evidence = Evidence(full.annotations, full.posterior, None, full.common, full.individual)
    changed = np.array([effect.changed for effect in leave_one_out(evidence, np.arange(7))])
    np.testing.assert_array_equal(changed, evidence.left_out.changes())
    assert changed[:6].min() > 0
    known[:150] = fitted.codes_[:150]
    some = Evidence(full.annotations, full.posterior, None, full.common, full.individual, known=known)
    fewer = leave_one_out(some, np.arange(7))
    assert all(effect.right is None for effect in fewer)
    assert 0 < sum(effect.changed for effect in fewer) < changed.sum()


# ---------------------------------------------------------------- the section


def test_who_only_guesses_adds_nothing(fitted: Any) -> None:
    report = fitted.results_.report
    found = report["jury"]
    rows = {row["worker"]: row for row in found["judges"]}
    assert found["n_judges"] == len(rows) == 7
    assert rows[NOISE]["verdict"] == "nothing"
    assert rows["oak-l"]["verdict"] != "nothing"
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    (idle,) = findings_registry.get("jury").headlines(found, report)
    assert f"judges add nothing: without any one of them ({NOISE})" in idle


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
    evidence = Evidence(few, full.posterior, None, full.common, full.individual, privacy=AnnotatorPrivacy(50))
    found = Findings(evidence).section("jury")
    assert found["n_judges"] == 7
    assert hidden not in json.dumps(found)
    assert len(found["judges"]) == len(found["map"]["workers"]) == 6
    for row in found["judges"]:
        assert row["labels"] % 50 == row["changed"] % 50 == 0
        assert round(row["changed_share"], 2) == row["changed_share"]


def test_groups_costs_and_names_are_shown_as_text() -> None:
    crowd, _ = jury(names=HOSTILE)
    full = aggregation.DawidSkene(verbose=False).fit(crowd).results_.evidence
    groups = as_names(["<b>oak"] * 3 + ["elm"] * 3 + [None])
    costs = np.arange(1.0, 8.0)
    evidence = Evidence(crowd, full.posterior, None, full.common, full.individual, groups=groups, costs=costs)
    report: Any = Findings(evidence).report | {"model": model_section()}
    assert report["jury"]["how"] == "votes"
    assert next(row["cost"] for row in report["jury"]["judges"] if row["worker"].endswith("elm-l")) == 6.0
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
    assert '<section id="jury"><details>\n<summary><h2>The jury</h2>' in page


def test_a_slow_aggregator_is_not_fitted_again() -> None:
    slow = aggregation.make("minimax-entropy", verbose=False)
    assert not slow.quick
    assert aggregation.DawidSkene.quick
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
    assert "People have a handicap of 0.2, because" in page


def test_the_verdict_is_by_the_handicap_for_experts_and_others_are_counted() -> None:
    evidence = mixed(["human", "human", "human", "llm", "llm"])
    crowd, (model, *_) = evidence.annotations, replacement_test(evidence.annotations, [3, 4], epsilon=0.2)
    section = Findings(evidence).section("replacement")
    assert section["epsilon"] == 0.2
    rows = {row["model"]: row for row in section["rows"]}
    assert (rows[3]["winning_share"], rows[3]["replaces"]) == (model.winning_rate, model.replaces)
    expected = [sum(found.replaces for found in replacement_test(crowd, [3, 4], epsilon=e)) for e in (0.2, 0.15, 0.1)]
    assert [count["models"] for count in section["counts"]] == expected


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
        section: Any = aggregation.MajorityVote().fit(told, annotator_info=info).report().document["replacement"]
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
