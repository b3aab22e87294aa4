"""What to do next: advice that follows from the crowd, and differs between crowds."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from conal.data.annotations import Annotations
from conal.report.charts import figures
from conal.report.evidence import AnnotatorPrivacy, Evidence
from conal.report.findings import Findings
from conal.report.page import headlines, render
from conal.report.sections.next_steps import _makers, information
from helpers.models import model_section

FloatArray = npt.NDArray[np.float64]
NAMES = ["cat", "dog", "elk", "fox"]


def matrix(right: float, C: int = 4, **mistakes: float) -> FloatArray:
    """Slips spread evenly; ``cat_dog=0.3`` makes cats dogs in addition."""
    pi = np.full((C, C), (1 - right) / (C - 1))
    np.fill_diagonal(pi, right)
    for pair, share in mistakes.items():
        true, observed = map(NAMES.index, pair.split("_"))
        pi[true] *= 1 - share
        pi[true, observed] += share
    return pi


def crowd_of(*people: FloatArray, n: int = 400, per_task: int = 5, seed: int = 0, hide: bool = False) -> Evidence:
    """A crowd of annotators with these matrices, and a posterior that is nearly certain of the truth."""
    rng = np.random.default_rng(seed)
    C = len(people[0])
    z = rng.integers(C, size=n)
    t = np.repeat(np.arange(n), per_task)
    a = np.concatenate([rng.choice(len(people), per_task, replace=False) for _ in range(n)])
    given = np.stack(people)[a, z[t]]
    labels = (given.cumsum(1) > rng.random((len(t), 1))).argmax(1)
    workers = [f"w{k}" for k in range(len(people))]
    crowd = Annotations(t, a, labels, task_ids=np.arange(n), annotator_ids=workers, classes=NAMES[:C])
    q = 0.97 * np.eye(C)[z] + 0.03 / C
    model = model_section() | {"separates_noise": False}
    return Evidence(
        crowd,
        q,
        q,
        np.stack(people).mean(0),
        np.stack(people),
        model=model,
        privacy=AnnotatorPrivacy(10 if hide else 0),
    )


def steps_of(evidence: Evidence, **sections: Any) -> tuple[Any, str]:
    """The section, and what the page says, without its markup, if the report has further sections."""
    report: Any = {**Findings(evidence).report, **sections}
    box = render(report).split('<section id="next">')[1].split("</section>")[0]
    return report["next_steps"], re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", box)).replace("\xa0", " ")


def test_a_confusion_of_all_is_a_matter_of_instructions() -> None:
    evidence = crowd_of(*[matrix(0.9, cat_dog=0.35) for _ in range(8)], seed=1)
    steps, text = steps_of(evidence)
    (pair,) = steps["rewrite"]
    assert (pair["true"], pair["observed"], pair["back_share"]) == ("cat", "dog", None)
    assert (pair["annotators_who_make_it"], pair["annotators_who_met_it"]) == (8, 8)
    assert steps["people"] == []
    share = f"{100 * pair['share']:.0f} %"
    assert f"Rewrite how cat and dog differ: by inferred labels, {share} of the labels of cat say dog." in text
    assert "8 of the 8 annotators who labelled such tasks made this mistake" in text
    assert "No annotator is reliably worse than the crowd." in text


def test_a_confusion_of_one_is_a_matter_of_one() -> None:
    evidence = crowd_of(*[matrix(0.95) for _ in range(7)], matrix(0.9, elk_fox=0.9, dog_cat=0.3))
    steps, text = steps_of(evidence)
    assert steps["rewrite"] == []
    (person,) = steps["people"]
    assert (person["worker"], person["guesses"], person["true"], person["observed"]) == ("w7", False, "elk", "fox")
    assert "No instruction stands out." in text
    figures = (
        r"The model believes that \d+ % of \d+ labels are right \(\d+ to \d+ %; crowd \d+ %\): about \d+ mistakes more "
        "than the crowd makes"
    )
    assert re.search(f"Look at the labels of w7. {figures} in as many labels; most often elk is labelled fox.", text)
    assert "Click the name for doubtful labels." in text
    assert "Rewrite" not in text


def test_the_own_mistake_is_said_to_be_apart_from_those_of_many() -> None:
    alike = [matrix(0.9, cat_dog=0.35) for _ in range(8)]
    steps, text = steps_of(crowd_of(*alike, matrix(0.6, cat_dog=0.35, elk_fox=0.5)))
    (person,) = steps["people"]
    assert (person["true"], person["observed"]) == ("elk", "fox")
    assert "; apart from the confusions above, most often elk is labelled fox." in text


def test_who_guesses_is_left_out() -> None:
    steps, text = steps_of(crowd_of(*[matrix(0.95) for _ in range(7)], np.tile([0.7, 0.1, 0.1, 0.1], (4, 1))))
    (person,) = steps["people"]
    assert (person["worker"], person["guesses"]) == ("w7", True)
    assert "Leave out the labels of w7 and fit again: the answers hardly depend on the task" in text


def test_slips_are_nobodys_instruction() -> None:
    steps, _ = steps_of(crowd_of(*[matrix(0.7) for _ in range(8)], n=300))
    assert steps["rewrite"] == []


def test_both_directions_are_one_instruction() -> None:
    steps, text = steps_of(crowd_of(*[matrix(0.9, cat_dog=0.3, dog_cat=0.2) for _ in range(8)]))
    (pair,) = steps["rewrite"]
    assert {pair["true"], pair["observed"]} == {"cat", "dog"}
    assert pair["back_share"] is not None
    assert "the other way round" in text


def test_two_classes_have_no_instruction_to_rewrite() -> None:
    steps, text = steps_of(crowd_of(*[matrix(0.75, 2) for _ in range(8)], n=300))
    assert steps["rewrite"] == []
    assert "every mistake confuses the same two" in text
    assert "Rewrite" not in text


def of_two_classes(seed: int) -> Evidence:
    """Three of eighteen people guess, and give most labels of all."""
    rng = np.random.default_rng(seed)
    n, right = 400, np.r_[np.full(3, 0.5), rng.uniform(0.68, 0.95, 15)]
    weights = np.r_[np.full(3, 6.0), np.ones(15)]
    a = np.concatenate([rng.choice(18, 5, replace=False, p=weights / weights.sum()) for _ in range(n)])
    z, t = rng.integers(2, size=n), np.repeat(np.arange(n), 5)
    labels = np.where(rng.random(len(t)) < right[a], z[t], 1 - z[t])
    crowd = Annotations(t, a, labels, task_ids=np.arange(n), annotator_ids=[f"w{k}" for k in range(18)], classes="ny")
    pi = np.stack([matrix(share, 2) for share in right])
    q = 0.9 * np.eye(2)[z] + 0.05
    return Evidence(crowd, q, q, pi.mean(0), pi, model=model_section() | {"separates_noise": False})


@pytest.mark.parametrize("seed", range(3))
def test_the_worst_of_two_classes_are_the_same_people_everywhere(seed: int) -> None:
    """They were chosen by rounding error: every mistake was one that many make, and about 1e-16 was left to sort by."""
    report: Any = Findings(of_two_classes(seed)).report
    overall, rows = report["crowd"]["expected_label_accuracy"], report["annotators"]["rows"]
    above = {row["worker"]: row["num_examples_labeled"] * (overall - row["annotator_quality"]) for row in rows}
    worse = [row["worker"] for row in rows if row["annotator_quality_high"] < overall]
    people = [person["worker"] for person in report["next_steps"]["people"]]
    assert {"w0", "w1", "w2"} == set(people[:3])
    assert people == worse[:5] == sorted(worse, key=lambda name: -above[name])[:5]
    assert [row["worker"] for row in rows[: len(worse)]] == worse
    (sentence,) = [line for line in headlines(report) if "reliably worse" in line]
    assert re.findall(r"<b>(w\d+)</b>", sentence) == people[:3]
    chart: Any = figures(report)["people"]
    assert chart["layer"][1]["encoding"]["y"]["scale"]["domain"] == [row["worker"] for row in rows]


def test_a_crowd_without_problems_is_left_in_peace() -> None:
    evidence = crowd_of(*[matrix(1.0) for _ in range(6)], n=100)
    certain = np.eye(4)[evidence.inferred]
    calm = Evidence(evidence.annotations, certain, certain, evidence.common, evidence.individual, model=evidence.model)
    steps, text = steps_of(calm)
    assert (steps["rewrite"], steps["people"], steps["relabel"]) == ([], [], None)
    assert steps["more_labels"] == {"tasks": 100, "wrong": 0.0, "wrong_after": 0.0, "basis": "belief"}
    for sentence in ("No instruction stands out.", "No annotator is reliably worse", "None: no further answer"):
        assert sentence in text
    assert "The model believes that hardly any of the inferred labels is wrong." in text


def test_what_more_labels_bring_follows_the_queue() -> None:
    evidence = crowd_of(*[matrix(0.8) for _ in range(6)], n=60, per_task=2)
    rng = np.random.default_rng(1)
    q = rng.dirichlet(np.ones(4), size=60)
    unsure = Evidence(evidence.annotations, q, q, evidence.common, evidence.individual, model=evidence.model)
    found = Findings(unsure)
    gains = [row["expected_gain"] for row in found.report["suggestions"]["rows"]]
    steps, text = steps_of(unsure)
    wrong = (1 - q.max(1)).sum()
    assert steps["more_labels"]["wrong"] == pytest.approx(wrong)
    assert steps["more_labels"]["wrong_after"] == pytest.approx(wrong - sum(gains))
    first = steps["relabel"]["tasks"]
    assert sum(gains[: first - 1]) < 0.8 * sum(gains) <= sum(gains[:first]) + 1e-9
    assert steps["relabel"]["corrects"] == pytest.approx(sum(gains[:first]))
    assert f"Have the first {first} tasks of the relabel queue labelled once more" in text
    assert f"The model believes that about {wrong:.0f} of the 60 inferred labels are wrong" in text
    known = np.where(np.arange(60) < 20, 0, -1)
    measured = replace(unsure, known=known, unseen=q)
    steps, text = steps_of(measured)
    rate = measured.inferred_rate
    assert rate is not None
    assert steps["more_labels"]["basis"] == "measured"
    assert steps["more_labels"]["wrong"] == pytest.approx(60 * (1 - rate.value))
    assert f"Measured by true labels, about {60 * (1 - rate.value):.0f} of the 60 inferred labels are wrong" in text


def test_a_confusion_has_the_same_number_of_annotators_on_the_whole_page() -> None:
    """Some make it often and some once: both places say how many made it."""
    evidence = crowd_of(*[matrix(0.95, cat_dog=0.5)] * 5, *[matrix(0.93, cat_dog=0.03)] * 4)
    report = Findings(evidence).report
    (advised,) = report["next_steps"]["rewrite"]
    listed = next(pair for pair in report["common_confusion"]["pairs"] if pair["true"] == advised["true"])
    assert advised["observed"] == listed["observed"]
    assert advised["annotators_who_make_it"] == listed["annotators_who_made_it"]


def test_makers_are_counted_label_by_label() -> None:
    evidence = crowd_of(*[matrix(0.9, cat_dog=0.1 * k) for k in range(8)])
    crowd, q, share, slips = evidence.annotations, evidence.posterior, 0.3, 0.03
    who = 0
    for r in range(8):
        n = made = 0.0
        for task, annotator, label in zip(crowd.tasks, crowd.annotators, crowd.labels, strict=True):
            if annotator == r:
                n += q[task, 0]
                made += q[task, 0] * (label == 1)
        who += made >= max(0.5, n * (share + slips) / 2)
    found = _makers(evidence, 0, 1, share, slips)
    assert found[0] == who
    assert 0 < who < 8
    assert 6 < found[1] <= 8  # if all were alike, nearly all would be seen to be


def test_information_is_that_of_guesses_and_of_knowledge() -> None:
    habit = np.tile([0.5, 0.2, 0.2, 0.1], (4, 1))
    evidence = crowd_of(habit, np.eye(4), 0.5 * habit + 0.5 * np.eye(4), *[matrix(0.9)] * 3)
    assert [information(evidence, r) for r in range(3)] == pytest.approx([0, 1, 0.5], abs=1e-9)


def test_doubtful_labels_are_the_least_probable_ones() -> None:
    evidence = crowd_of(*[matrix(0.95) for _ in range(7)], matrix(0.4))
    rng = np.random.default_rng(3)
    q = rng.dirichlet(np.full(4, 0.3), size=400)
    found = Findings(Evidence(evidence.annotations, q, q, evidence.common, evidence.individual))
    crowd = evidence.annotations
    for row in found.report["annotators"]["rows"]:
        r = int(row["worker"][1:])
        mine = np.flatnonzero(crowd.annotators == r)
        p = q[crowd.tasks[mine], crowd.labels[mine]]
        expected = sorted(p[p < 0.5])[:6]
        assert [label["given_probability"] for label in row["doubtful"]] == pytest.approx(expected)
        for label in row["doubtful"]:
            assert label["label"] == NAMES[q[label["task"]].argmax()]
            assert label["given_probability"] == q[label["task"], NAMES.index(label["given"])]


def test_hidden_annotators_are_not_given_away() -> None:
    people = [*[matrix(0.95) for _ in range(7)], matrix(0.9, elk_fox=0.9, dog_cat=0.3)]
    report: Any = Findings(crowd_of(*people, hide=True)).report
    assert all("doubtful" not in row for row in report["annotators"]["rows"])
    (person,) = report["next_steps"]["people"]
    assert "true" not in person
    assert person["num_examples_labeled"] % 10 == 0
    assert person["annotator_quality"] == round(person["annotator_quality"], 2)
    render(report)
