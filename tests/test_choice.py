"""The table of docs/choosing.md, and the stored results of the benchmark that it is made from."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.aggregators import FOR_KINDS

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import choice

RESULTS: dict[str, Any] = json.loads(choice.RESULTS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FOR_KINDS)
def test_every_aggregator_was_measured_on_every_crowd(name: str) -> None:
    """`make bench-aggregation` measures those that are there; a new one needs a new run."""
    crowds = {*RESULTS["crowds"], *(crowd for kind in choice.KINDS for crowd in kind.crowds)}
    assert {*RESULTS["models"][name]} >= crowds
    assert all(0 < RESULTS["models"][name][crowd]["accuracy"] <= 100 for crowd in crowds)


def test_no_aggregator_is_slower_than_its_peer() -> None:
    assert RESULTS["peers"]
    for name, crowds in RESULTS["peers"].items():
        ours, theirs = (sum(row[side] for row in crowds.values()) for side in ("ours", "theirs"))
        assert ours < theirs, name


def test_cost_grows_with_the_labels() -> None:
    """Ten times as many labels take at most 25 times as long: a hundred thousand fit into the cache."""
    assert RESULTS["million"]
    assert all(row["exponent"] < 1.4 for row in RESULTS["million"].values())


def test_one_number_per_annotator_is_not_enough() -> None:
    """What docs/choosing.md says of aggregators with one number per annotator."""
    page = " ".join((choice.RESULTS.parents[1] / "choosing.md").read_text(encoding="utf-8").split())
    listed = page.partition("Aggregators with one number per annotator (")[2].partition(")")[0]
    names = [name.strip("`") for name in listed.split(", ")]
    assert len(names) == 6

    def mean(name: str) -> float:
        found = RESULTS["models"][name]
        return float(sum(found[crowd]["accuracy"] for crowd in RESULTS["crowds"]) / len(RESULTS["crowds"]))

    behind = [mean("dawid-skene") - mean(name) for name in names]
    assert f"are {min(behind):.0f} to {max(behind):.0f} points behind `dawid-skene` on average" in page


def test_notes_have_the_figures_of_the_benchmark() -> None:
    notes = choice.choice_notes()
    crowds, models = RESULTS["crowds"], RESULTS["models"]
    sizes = sorted(crowds[name]["tasks"] for kind in choice.KINDS for name in kind.crowds if "jury" in kind.looks)
    assert crowds["bluebird"]["tasks"] == min(facts["tasks"] for facts in crowds.values()) == 108
    assert f"1 task on bluebird (108 tasks) and 4 to 5 tasks on a jury ({sizes[0]} to {sizes[-1]} tasks)" in notes
    assert [round(size / 100) for size in (sizes[0], sizes[-1])] == [4, 5]
    assert f"On {len(crowds)} crowds some aggregator is the best by luck." in notes
    assert f"On product, {100 * crowds['product']['largest_class']:.0f} % of the tasks are of one class." in notes
    for name in ("minimax-entropy", "mace", "multidimensional", "majority-vote", "dawid-skene"):
        assert f"`{name}` {models[name]['product']['accuracy']:.1f}" in notes
    assert max(crowds, key=lambda name: crowds[name]["largest_class"]) == "product"


CLASSES = {"two classes": {2}, "three or four classes": {3, 4}, "four classes": {4}, "six or seven classes": {6, 7}}
LABELS = {"about ten labels": (8.5, 11.5), "few labels per task": (1, 5), "twenty labels": (19, 21)}


def test_kinds_look_as_they_are_said_to() -> None:
    for kind in choice.KINDS:
        if kind.crowds[0] in RESULTS["crowds"]:
            facts = [RESULTS["crowds"][name] for name in kind.crowds]
            said = [classes for words, classes in CLASSES.items() if kind.looks.endswith(f", {words}")]
            assert all({each["classes"] for each in facts} <= classes for classes in said), kind
            for words, (low, high) in LABELS.items():
                if words in kind.looks:
                    assert all(low <= each["labels_per_task"] <= high for each in facts), kind


def made_up(**accuracy: tuple[float, float]) -> dict[str, Any]:
    models = {
        name.replace("_", "-"): {crowd: {"accuracy": value} for crowd, value in zip("ab", values, strict=True)}
        for name, values in accuracy.items()
    }
    return {"models": models}


def test_the_most_accurate_ones_are_recommended() -> None:
    found = made_up(one=(80, 60), two=(70, 71.0), three=(69.8, 69.9), four=(70, 69.5), auto=(99, 99), five=(0, 0))
    assert choice.recommended(found, ["a"]) == ["one"]
    assert choice.recommended(found, ["b"]) == ["two"]
    assert choice.recommended(found, ["a", "b"]) == ["two", "one", "three"]


def test_rows_show_what_was_measured() -> None:
    table = choice.choice_table().splitlines()
    best = max(
        (name for name in RESULTS["models"] if "," not in name and name not in ("auto", "gold-majority-vote")),
        key=lambda name: RESULTS["models"][name]["bluebird"]["accuracy"],
    )
    row = next(line for line in table if "bluebird (39; 2)" in line)
    assert row.split("|")[2].split(",")[0].strip() == f"`{best}`"
    assert f" {RESULTS['models'][best]['bluebird']['accuracy']:.1f}" in row.split("|")[3]
    assert f"`dawid-skene` {RESULTS['models']['dawid-skene']['bluebird']['accuracy']:.1f}" in row.split("|")[3]
