"""Sentences of the documentation with figures that are written by hand: tables, data or constants say the same."""

from __future__ import annotations

import inspect
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pv
import pytest
from scipy.stats import binomtest, norm

import conal
from conal.aggregation import MajorityVote
from conal.aggregation.drift import REFIT_SHARE
from conal.cli.demo import METHODS, N_TAUGHT, RULES, TITLES, demo
from conal.datasets.digits import LOOK_ALIKES
from conal.datasets.label_sets import LABEL_SETS
from conal.datasets.synthetic import synthetic
from conal.estimator.refits import MOST_TASKS, USUAL
from conal.experiments.attacks import CROWD, FEW, REAL, SHARES
from conal.findings.suspicion import MANY as MANY_OF_A_GROUP
from conal.metrics.suspicion import find_suspects
from conal.parameters.plan import MANY, USUAL_EPOCHS, USUAL_TASKS
from conal.parameters.simulation import ADVERSARIES
from conal.text.features import TextFeatures
from helpers.real import load_or_skip

ROOT = Path(__file__).parents[1]
TOLERANCE = 1.5
"""Points by which two runs of the same comparison differ, with other seeds and splits."""


def page(name: str) -> str:
    """A page on one line."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def guide(name: str) -> str:
    return page(f"docs/{name}.md")


def table(name: str) -> list[dict[str, Any]]:
    """The rows of a committed table."""
    rows: list[dict[str, Any]] = pv.read_csv(ROOT / "docs" / "results" / f"{name}.csv").to_pylist()
    return rows


def benchmark(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "performance" / f"{name}.json").read_text(encoding="utf-8"))
    return found


# ---------------------------------------------------------------- the demo of the README


def shown() -> list[str]:
    """What the README says that `make demo` prints."""
    return (ROOT / "README.md").read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0].splitlines()


def test_the_demo_begins_as_the_readme_shows() -> None:
    from conal.cli.demo import _story

    data = conal.datasets.digits()
    assert data.valid is not None
    assert _story(data).splitlines() == shown()[:2]
    assert f"over {inspect.signature(demo).parameters['seeds'].default} seeds (%)" in shown()[3]
    assert all(title in shown()[4] for title in RULES.values())
    assert f"{len(data.valid)} gold labels" in RULES["gold"]
    votes = MajorityVote().fit(data.annotations)
    assert f"{100 * (votes.codes_ == data.y_true).mean():.1f} % of the majority votes" in shown()[1]


def test_accuracies_of_the_demo_are_near_those_of_the_table() -> None:
    """The table has the same methods on the same digits, with other seeds."""
    rows = [row for row in table("gold-free") if row["dataset"] == "digits" and row["prior"] == "estimate"]
    for method, title in METHODS.items():
        (line,) = (line for line in shown() if re.match(rf"{re.escape(title)}  ", line))
        said = [float(cell) for cell in re.findall(r"([\d.]+) ±", line)]
        for rule, mean in zip(RULES, said, strict=True):
            found = [row["test_accuracy"] for row in rows if (row["row"], row["protocol"]) == (method, rule)]
            assert mean == pytest.approx(100 * np.mean(found), abs=TOLERANCE), (method, rule)
    (line,) = (line for line in shown() if line.startswith(TITLES["xconal-with-gold"]))
    assert f"with {N_TAUGHT} gold labels" in line
    (taught,) = re.findall(r"([\d.]+) ±", line)
    xconal = [row["test_accuracy"] for row in rows if (row["row"], row["protocol"]) == ("xconal", "own")]
    assert float(taught) > 100 * np.mean(xconal) - TOLERANCE


def test_confusions_of_the_demo_are_those_of_its_crowd() -> None:
    data = conal.datasets.digits()
    crowd = data.annotations
    true = data.y_true[crowd.tasks]
    (line,) = (line for line in shown() if line.startswith("Learned common confusions: "))
    pairs = re.findall(r"(\d) as (\d) \((\d+) %\)", line)
    assert len(pairs) == 5
    for a, b, percent in pairs:
        assert LOOK_ALIKES[int(a)] == int(b)
        assert float(percent) == pytest.approx(100 * (crowd.labels[true == int(a)] == int(b)).mean(), abs=5)


# ---------------------------------------------------------------- what things cost


def test_a_million_labels_take_a_few_seconds() -> None:
    assert "A million labels take a few seconds." in page("README.md")
    assert 2 <= benchmark("aggregation")["command_line_seconds"] < 7


def test_an_epoch_takes_so_many_times_as_long() -> None:
    said = re.findall(
        r"An epoch of CoNAL takes ([\d.]+) times as long as one of the plain classifier with (\d+) annotators, and "
        r"([\d.]+) times with ([\d,]+)\.",
        page("README.md"),
    )
    ((less, few, more, many),) = said
    rows = benchmark("training")["rows"]
    for ratio, size in ((less, few), (more, many.replace(",", ""))):
        assert ratio == f"{rows[f'conal {size}']['cpu'] / rows['plain classifier, PyTorch']['cpu']:.1f}"


def test_twenty_iterations_take_less_than_a_second() -> None:
    assert "Twenty Dawid-Skene iterations on a million labels take less than a second." in page("README.md")
    (row,) = (row for row in benchmark("aggregation")["rows"] if row["title"] == "Dawid-Skene, 20 iterations")
    assert row["labels"] == 10**6
    assert row["ours"]["cpu"] < 1


def test_updates_that_were_measured_are_those_of_the_page() -> None:
    source = (ROOT / "benchmarks" / "update.py").read_text(encoding="utf-8")
    (new,) = re.findall(r"^NEW, TIMES = ([\d_]+), ", source, flags=re.MULTILINE)
    (classes,) = re.findall(r'^SIZE: .*"n_classes": (\d+)', source, flags=re.MULTILINE)
    assert int(classes) == 4
    assert f"Labels of four classes are fitted once, and then {int(new):,} new ones come at a time" in guide("living")


# ---------------------------------------------------------------- constants of the code


def test_from_so_many_tasks_on_the_last_epoch_is_kept() -> None:
    assert f"with {MANY:,} labelled tasks or more, those that model annotators keep the last epoch" in page("README.md")
    assert f"if there are {MANY:,} labelled tasks or more" in guide("reading-the-report")
    assert conal.CoNAL().holdout == 0.1
    assert "Other methods hold out a tenth of the tasks" in page("README.md")
    assert f"{USUAL_EPOCHS} for up to {USUAL_TASKS:,} tasks" in guide("tutorial")


def test_when_a_refit_is_due() -> None:
    assert f"more than {100 * REFIT_SHARE:g} %: then a refit is due" in guide("living")
    assert f"Above {100 * REFIT_SHARE:g} % a warning says that a refit is due" in guide("architecture")


def test_terms_of_texts() -> None:
    most = inspect.signature(TextFeatures).parameters["max_terms"].default
    assert f"each kind keeps the {most:,} terms" in guide("text")


def test_refits_of_true_labels() -> None:
    text = guide("fifty-gold-labels")
    assert USUAL == 5
    assert (
        "trained five more times, each time without a fifth of the true labels, which makes the fit six times" in text
    )
    assert f"with more than {MOST_TASKS:,} tasks it is left out" in text


# ---------------------------------------------------------------- people who mean harm


def test_what_the_guide_says_of_groups_and_of_false_alarms() -> None:
    assert f"gave {100 * MANY_OF_A_GROUP:.0f} % of the labels or more" in guide("harm")
    level = inspect.signature(find_suspects).parameters["level"].default
    assert f"false alarms of at most {100 * level:g} %:" in guide("harm")
    said = f"The aim is that at most {100 * level:g} % of those who are named are false alarms"
    assert said in guide("reading-the-report")


def test_what_is_measured_of_harm() -> None:
    assert (len(ADVERSARIES), len((*LABEL_SETS, *REAL))) == (5, 15)
    ends = f"{100 * SHARES[0]:g} to {100 * SHARES[-1]:g} %"
    assert f"five kinds of harm at {ends} of the annotators, and who is named in fifteen real crowds" in guide("harm")
    assert {row["kind"] for row in table("attacks") if row["row"] == "detection"} == set(ADVERSARIES)
    assert len({row["kind"] for row in table("attacks") if row["row"] == "real"}) == 15


def test_hardly_anybody_has_less_than_thirty_labels() -> None:
    assert "With the fewer labels, hardly anybody has less than 30." in guide("harm")
    settings = CROWD | FEW
    mean = settings["n_train"] * settings["labels_per_instance"] / settings["n_annotators"]
    assert FEW["turn_after"] == mean / 2  # sleepers turn after half of the mean number of labels
    given = [synthetic(**settings, seed=seed).annotations.labels_per_annotator() for seed in range(5)]
    assert (np.concatenate(given) < 30).mean() < 0.02


# ---------------------------------------------------------------- arithmetic


def test_what_fifty_labels_say_of_a_judge() -> None:
    assert "right on 36 of 50 items" in guide("juries")
    low, high = binomtest(36, 50).proportion_ci(method="exact")
    assert f"on {100 * low:.0f} to {100 * high:.0f} % of all" in guide("juries")


def test_what_fifty_labels_say_of_a_correlation() -> None:
    """By Fisher's transformation, for a correlation near 0."""
    assert f"uncertain by about {math.tanh(norm.ppf(0.975) / math.sqrt(50 - 3)):.1f}." in guide("juries")


def test_luck_of_fifty_labels() -> None:
    """One standard deviation, where nine labels in ten are right."""
    assert "among 50 random tasks is a matter of luck by four points or more" in guide("reading-the-report")
    assert round(100 * math.sqrt(0.9 * 0.1 / 50)) == 4


def test_juries_whose_claims_are_judged() -> None:
    rows = table("jury-claims")
    by_jury = {row["row"]: {each["judge"] or "" for each in rows if each["row"] == row["row"]} for row in rows}
    assert len(by_jury) == 8
    assert {len(judges - {""}) for judges in by_jury.values()} == {12, 13}  # a row without a judge is a smaller jury
    times = len({row["seed"] for row in rows})
    assert f"on eight juries of 12 or 13 models, with 50 random gold labels, {times} times each" in guide("juries")


def test_noise_if_inferred_labels_were_the_reference() -> None:
    """With at most m labels of a person, k per task and some iterations, and LabelMe's size."""
    text = guide("privacy")
    m, k, iterations, classes = 10, 3, 10, 8
    assert f"at most {k} labels per task, as on LabelMe, and {iterations} iterations" in text
    times = iterations * (m + 2 * m * (k - 1)) / m
    deviation = math.sqrt(2) * m * times  # of Laplace noise with this scale, for epsilon 1
    labels = max(row["labels"] for row in table("updates") if row["row"] == "parts")
    assert f"noise must be {times:.0f} times as large" in text
    assert f"a standard deviation of {deviation:.0f} labels in each of the {classes**2} cells" in text
    assert f"where there are {labels:,} labels in all (ε = 1, m = {m})" in text


def test_size_of_labelme() -> None:
    crowd = load_or_skip("labelme").annotations
    assert np.bincount(crowd.tasks).max() == 3
    assert f"where there are {crowd.n_annotations:,} labels in all" in guide("privacy")
    people = (crowd.labels_per_annotator() > 0).sum()
    assert f"hiding one of {people} people in {crowd.n_classes**2} cells" in guide("privacy")
