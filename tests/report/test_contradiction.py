"""A model that contradicts both the votes and Dawid-Skene says so: in a warning, the report and the page."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.csv as pv
import pytest

import conal
from conal.aggregation import DawidSkene
from conal.data.annotations import Annotations
from conal.datasets.base import data_folder
from conal.errors import ContradictionWarning, InputError
from conal.report.evidence import Evidence
from conal.report.findings import Findings
from conal.report.page import render
from conal.report.sections.suspicion import contradiction
from helpers.crowds import colluding_crowd

FAST = {"epochs": 20, "verbose": False}


def upside_down(clf: Any, z: np.ndarray) -> Findings:
    """The findings of a model whose classes a group of colluders has named."""
    evidence = clf.results_.evidence
    order = np.argsort(np.roll(np.arange(5), 1))  # class c is called as the next one
    found = replace(evidence, posterior=evidence.posterior[:, order], classifier=evidence.classifier[:, order])
    assert (found.posterior.argmax(1) == z).mean() < 0.02
    return Findings(found)


def test_the_report_of_a_model_upside_down() -> None:
    x, z, crowd = colluding_crowd(1)
    clf = conal.make("xconal", **FAST).fit(x, crowd)
    results = upside_down(clf, z)
    other = DawidSkene(verbose=False).fit(crowd).labels_
    found = results.section("contradiction")
    votes, codes = crowd.votes(), results.evidence.posterior.argmax(1)
    assert found["against_votes"] == np.mean([votes[i, k] < votes[i].max() for i, k in enumerate(codes)])
    assert found["against_dawid_skene"] == np.mean(other != codes)
    assert "suspicion" not in results.report  # nobody is accused by a model that is upside down
    page = render(json.loads(json.dumps(results.report)))
    headlines = page[page.index('<ul class="headlines">') :]
    assert headlines[: headlines.index("</li>")].count("Warning:</b> the inferred labels contradict the votes") == 1
    assert "<h2>The labels contradict the crowd</h2>" in page


@pytest.mark.parametrize("seed", [0, 1])
def test_colluders_do_not_win_the_model_over(seed: int) -> None:
    """With seed 1, colluders who never slip have more votes on every class than those who are right."""
    x, z, crowd = colluding_crowd(seed)
    clf = conal.make("xconal", **FAST).fit(x, crowd)  # a warning would be an error
    assert (clf.labels_ == z).mean() > 0.98
    assert "contradiction" not in clf.results_.report
    named = {row["annotator"] for row in clf.results_.report["suspicion"]["rows"]}
    assert named == set(range(12))


def test_colluders_who_win_dawid_skene_over() -> None:
    """Fewer votes are right than follow the colluders; then the labels are told not to be trusted."""
    _, z, crowd = colluding_crowd(0, accuracy=0.4)
    model = DawidSkene(verbose=False).fit(crowd)
    assert (model.labels_ == z).mean() < 0.02
    found = model.results_.report["contradiction"]
    assert 0.55 < found["exchanged_share"] < 0.65  # the honest 60 %
    assert "pass them as true labels" in found["text"]
    assert "suspicion" not in model.results_.report


def posterior_of(labels: np.ndarray, n_classes: int) -> Evidence:
    crowd = Annotations(
        np.repeat(np.arange(len(labels)), 3),
        np.tile(np.arange(3), len(labels)),
        np.repeat(np.arange(len(labels)) % n_classes, 3),
        task_ids=range(len(labels)),
        annotator_ids=range(3),
        classes=range(n_classes),
    )
    sure = 0.01 / n_classes + 0.99 * np.eye(n_classes)[labels]
    return Evidence(crowd, sure, sure, np.eye(n_classes), np.stack([np.eye(n_classes)] * 3))


@pytest.mark.parametrize(("n", "wrong", "fires"), [(120, 85, True), (120, 83, False), (99, 99, False)])
def test_thresholds(n: int, wrong: int, fires: bool) -> None:
    """Three annotators of one mind, whom Dawid-Skene follows; the model says otherwise on some of n tasks."""
    truth = np.arange(n) % 3
    other = (truth + 1 + np.arange(n) // 3 % 2) % 3  # not one exchange of classes
    said = np.where(np.arange(n) < wrong, other, truth)
    found = contradiction(posterior_of(said, 3))
    assert (found is not None) == fires
    if found is not None:
        assert (found["against_votes"], found["against_dawid_skene"]) == (wrong / n, wrong / n)
    assert ("contradiction" in Findings(posterior_of(said, 3)).report) == fires


@pytest.mark.slow
@pytest.mark.parametrize(("jury", "method"), [("flute", "conal"), ("raop", "xconal")])
def test_silent_on_juries_of_language_models(jury: str, method: str) -> None:
    """Those of people and the digits are fitted by the guard of accuracy, to which every warning is an error."""
    try:
        folder = data_folder(("llm-judges",)) / jury
    except InputError as absent:
        pytest.skip(str(absent))
    crowd = Annotations.read(folder / "label.csv")
    texts = dict(zip(*(pv.read_csv(folder / "texts.csv")[name].to_pylist() for name in ("task", "text")), strict=True))
    shown = [texts[task] for task in crowd.task_ids.tolist()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        conal.make(method, **FAST).fit(shown, crowd[np.arange(crowd.n_tasks)])
    assert not [entry for entry in caught if issubclass(entry.category, ContradictionWarning)]
