"""Shares of right labels: the model's belief without true labels, and measured by ten of them or more."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from conal import aggregation
from conal.data.annotations import Annotations
from conal.report.evidence import AnnotatorPrivacy
from conal.report.labels_alone import findings_of_labels
from conal.report.page import headlines, lead, render

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")

N = 300
TRUTH = np.random.default_rng(7).integers(3, size=N)


def jury(*, loner: float = 0.0, thin: bool = False) -> Annotations:
    """Eight judges who mostly say what one model says, which is right on 60 %; and perhaps a loner, who is better.

    The last judge has few labels if ``thin``.
    """
    rng = np.random.default_rng(1)
    said = np.where(rng.random(N) < 0.6, TRUTH, (TRUTH + 1) % 3)
    votes = [np.where(rng.random(N) < 0.9, said, rng.integers(3, size=N)) for _ in range(8)]
    if loner:
        votes.append(np.where(rng.random(N) < loner, TRUTH, rng.integers(3, size=N)))
    matrix = np.stack(votes, axis=1)
    if thin:
        matrix[20:, -1] = -1
    return Annotations.from_matrix(matrix, classes=range(3))


def gold(n: int, seed: int = 0) -> dict[Any, Any]:
    rows = np.random.default_rng(seed).choice(N, n, replace=False)
    return {int(k): int(TRUTH[k]) for k in rows}


def fitted(crowd: Annotations, n: int = 0, seed: int = 0) -> Any:
    return aggregation.DawidSkene(verbose=False).fit(crowd, true_labels=gold(n, seed) if n else None)


def visible(page: str) -> str:
    body = page.split("<body>")[1].split('<script type="application/json"')[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", body)).replace("\xa0", " ")


def test_without_true_labels_the_page_begins_with_what_is_believed() -> None:
    """The model believes that nearly all labels are right; three fifths are."""
    found = fitted(jury())
    report = found.results_.report
    text = visible(render(report))
    crowd = report["crowd"]
    assert crowd["expected_inferred_accuracy"] > 0.9
    assert set(crowd["basis"].values()) == {"belief"}
    parts = ["The model believes that", "Nothing was measured.", "too high where annotators err alike"]
    parts += ["What to do next", "Label fifty random tasks yourself.", "Common confusions"]
    places = [text.index(words) for words in parts]
    assert places == sorted(places)
    assert "conal aggregate --true-labels FILE" in text
    assert "believed quality" in text
    assert "if annotators err independently" in text
    assert found.table("annotators")["quality_basis"].to_pylist() == ["belief"] * 8
    assert report["plan"]["basis"] == report["next_steps"]["more_labels"]["basis"] == "belief"


def test_true_labels_replace_beliefs_wherever_there_are_ten() -> None:
    found = fitted(jury(thin=True), 60)
    report, people = found.results_.report, found.table("annotators").to_pydict()
    assert people["quality_basis"] == ["measured"] * 7 + ["belief"]
    rates = {row["worker"]: row for row in report["gold_rates"]["annotators"]}
    for name, quality, low, high in zip(
        *(people[key] for key in ("worker", "annotator_quality", "annotator_quality_low", "annotator_quality_high")),
        strict=True,
    ):
        if name in rates:
            assert (quality, low, high) == tuple(rates[name][key] for key in ("value", "low", "high"))
    crowd, measured = report["crowd"], report["gold_rates"]
    assert set(crowd["basis"].values()) == {"measured"}
    assert crowd["expected_inferred_accuracy"] == measured["cleaned"]["value"]
    assert crowd["expected_majority_accuracy"] == measured["majority"]["value"]
    assert crowd["expected_label_accuracy"] == measured["crowd"]["value"] < 0.75 < crowd["believed_label_accuracy"]
    assert report["plan"]["curve"][0]["accuracy"] == pytest.approx(measured["cleaned"]["value"])
    assert report["plan"]["labels_for_goal"] != 0
    text = visible(render(report))
    assert text.index("Measured by 60 true labels") < text.index("What to do next")
    assert "The model believes that" not in text
    assert text.count(" belief ") >= 1  # the mark of the last judge
    assert "7 (belief)" in str(render(report))


def test_an_annotator_is_compared_with_the_crowd_on_the_same_basis() -> None:
    """Nobody is worse than the others; the believed quality of the last is far above what is measured of all."""
    report = fitted(jury(thin=True), 60).results_.report
    assert report["next_steps"]["people"] == []
    assert any(line.startswith("No annotator is reliably worse") for line in headlines(report))


def test_a_believed_annotator_is_worse_than_what_is_believed_of_the_crowd() -> None:
    matrix = jury().to_matrix()
    matrix[:, -1] = np.where(np.arange(N) < 20, (matrix[:, 0] + 1) % 3, -1)
    report = fitted(Annotations.from_matrix(matrix, classes=range(3)), 60).results_.report
    (person,) = report["next_steps"]["people"]
    assert (person["worker"], person["quality_basis"]) == (7, "belief")
    (line,) = [line for line in headlines(report) if "reliably worse" in line]
    believed = f"{report['crowd']['believed_label_accuracy']:.0%}".replace("%", "\xa0%")
    assert f"than the crowd average of {believed}, as the model believes and if annotators err independently" in line


def with_a_guesser(n: int = 0) -> tuple[Any, str]:
    """The report of the jury with somebody who guesses, and the text of its page."""
    matrix = jury().to_matrix()
    matrix[:, -1] = np.random.default_rng(5).integers(3, size=N)
    report = fitted(Annotations.from_matrix(matrix, classes=range(3)), n).results_.report
    return report, visible(render(report))


def test_figures_about_people_and_confusions_say_what_they_rest_on() -> None:
    """A note below the list, or at the head of another section, is not where readers take a figure from."""
    report, text = with_a_guesser()
    (person,) = report["next_steps"]["people"]
    assert f"The model believes that {person['annotator_quality']:.0%}".replace("%", " % of 300 labels") in text
    assert "Most frequent confusion, by inferred labels:" in text or "differ: by inferred labels," in text
    assert "mistakes of the crowd, by inferred labels, with 95 % intervals if annotators err independently" in text
    report, text = with_a_guesser(60)
    (person,) = report["next_steps"]["people"]
    assert f"{person['annotator_quality']:.0%} of 300 labels are right, as measured".replace("%", " %") in text
    assert "The model believes that" not in text


def test_measured_intervals_hold_where_believed_ones_do_not() -> None:
    crowd = jury()
    truth = (crowd.to_matrix() == TRUTH[:, None]).mean(0)
    held = {"belief": 0, "measured": 0}
    for seed in range(12):
        for n, basis in ((0, "belief"), (50, "measured")):
            people = fitted(crowd, n, seed).table("annotators").to_pydict()
            assert set(people["quality_basis"]) == {basis}
            low, high = (np.array(people[f"annotator_quality_{end}"]) for end in ("low", "high"))
            held[basis] += int(((low <= truth) & (truth <= high)).sum())
    assert held["belief"] == 0
    assert held["measured"] >= 0.85 * 12 * 8


def test_the_first_lines_say_when_one_annotator_is_better_than_the_jury() -> None:
    report = fitted(jury(loner=0.95), 80).results_.report
    sentence = str(lead(report))
    assert "<b>8 alone</b> is better than the inferred labels: right on" in sentence
    assert "of the same tasks (by 80 true labels; difference" in sentence
    assert "with allowance for picking the best of 10" in sentence
    (row,) = [row for row in report["gold_rates"]["annotators"] if row["worker"] == 8]
    assert row["above"]["high"] < 0
    assert report["gold_rates"]["annotators"][0] is row
    assert report["gold_rates"]["comparison"]["compared"] == 10


def test_the_first_lines_say_when_the_vote_or_an_annotator_is_as_good() -> None:
    """All say nearly the same, so that the vote is as good as anything."""
    report = fitted(jury(), 50).results_.report
    assert report["gold_rates"]["comparison"]["as_good"] >= 1
    assert "as good as the inferred labels or better" in str(lead(report))


def test_the_first_lines_say_when_the_labels_are_better_than_everybody() -> None:
    rng = np.random.default_rng(3)
    matrix = np.stack([np.where(rng.random(N) < 0.6, TRUTH, rng.integers(3, size=N)) for _ in range(9)], axis=1)
    report = fitted(Annotations.from_matrix(matrix, classes=range(3)), 100).results_.report
    found = report["gold_rates"]["comparison"]
    assert found["worse"] >= 9
    if not found["as_good"]:
        sentence = str(lead(report)).replace("\xa0", " ")
        assert "The inferred labels and the majority vote cannot be told apart (difference " in sentence
        assert "All of the 9 annotators with 10 true labels or more are reliably worse." in sentence


@pytest.mark.parametrize(
    ("low", "worse", "compared", "said"),
    [
        (
            -0.25,
            0,
            1,
            "The inferred labels and the majority vote cannot be told apart (difference \u221225 to +37 points).",
        ),
        (0.02, 1, 1, "The inferred labels are better than the majority vote (difference +2 to +37 points)."),
        (0.02, 2, 4, "1 of the 3 annotators with 10 true labels or more is reliably worse."),
        (-0.25, 0, 4, "None of the 3 annotators with 10 true labels or more is reliably worse."),
    ],
)
def test_the_comparison_with_the_vote_reads_like_english(low: float, worse: int, compared: int, said: str) -> None:
    report = fitted(jury(), 50).results_.report
    vote = {"value": 0.06, "low": low, "high": 0.37, "share": 0.8}
    comparison = {"compared": compared, "as_good": 0, "worse": worse}
    report["gold_rates"] |= {"above_majority": vote, "comparison": comparison}
    sentence = str(lead(report))
    assert sentence.endswith(said) if compared > 1 else said in sentence
    assert ("annotators with" in sentence) == (compared > 1)


def test_nobody_is_measured_where_names_are_hidden() -> None:
    findings = findings_of_labels(fitted(jury(), 60), AnnotatorPrivacy(10))
    assert set(findings.table("annotators.csv")["quality_basis"].to_pylist()) == {"belief"}
    section: Any = findings.report["gold_rates"]
    assert section["annotators"] == []
    assert section["comparison"]["compared"] == 1
    assert "Measured by 60 true labels" in visible(render(findings.report))
