"""A model that contradicts both the votes and Dawid-Skene says so: in a warning, the report and the page."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow.csv as pv
import pytest

import conal
from conal.aggregation import DawidSkene
from conal.data.annotations import Annotations
from conal.datasets.base import data_folder
from conal.errors import ContradictionWarning, InputError
from conal.findings import Evidence, Findings
from conal.findings.contradiction import contradiction
from conal.report import render
from helpers.crowds import colluding_crowd
from helpers.real import load_or_skip

FAST = {"epochs": 20, "verbose": False}


def test_colluders_who_win_the_model_over(tmp_path: Path) -> None:
    x, z, crowd = colluding_crowd(1)
    with pytest.warns(ContradictionWarning, match=r"contradict the votes on 36.%.* and Dawid-Skene on (>99|99)"):
        clf = conal.make("xconal", **FAST).fit(x, crowd)
    assert (clf.labels_ == z).mean() < 0.02  # what the warning is about
    other = DawidSkene(verbose=False).fit(crowd).labels_
    assert (other == z).mean() > 0.95
    found = clf.results_.report["contradiction"]  # type: ignore[typeddict-item]
    votes = crowd.votes()
    codes = clf.probas_.argmax(1)
    assert found["against_votes"] == np.mean([votes[i, k] < votes[i].max() for i, k in enumerate(codes)])
    assert found["against_dawid_skene"] == np.mean(other != clf.labels_)
    clf.save(tmp_path / "m")
    stored = json.loads((tmp_path / "m" / "report.json").read_text(encoding="utf-8"))
    assert stored["contradiction"] == found
    page = render(stored)
    headlines = page[page.index('<ul class="headlines">') :]
    assert headlines[: headlines.index("</li>")].count("Warning:</b> the inferred labels contradict the votes") == 1
    assert "<h2>The labels contradict the crowd</h2>" in page


def test_colluders_who_do_not_win_the_model_over() -> None:
    x, z, crowd = colluding_crowd(0)
    clf = conal.make("xconal", **FAST).fit(x, crowd)  # a warning would be an error
    assert (clf.labels_ == z).mean() > 0.98
    assert "contradiction" not in clf.results_.report


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
    said = np.where(np.arange(n) < wrong, (truth + 1) % 3, truth)
    found = contradiction(posterior_of(said, 3))
    assert (found is not None) == fires
    if found is not None:
        assert (found["against_votes"], found["against_dawid_skene"]) == (wrong / n, wrong / n)
    assert ("contradiction" in Findings(posterior_of(said, 3)).report) == fires


@pytest.mark.parametrize("method", ["xconal", "conal"])
def test_silent_on_the_digits(method: str) -> None:
    data = conal.datasets.digits()
    conal.make(method, **FAST).fit(data.x, data.annotations)  # a warning would be an error


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labelme", "music"])
@pytest.mark.parametrize("method", ["xconal", "conal"])
def test_silent_on_real_crowds(method: str, name: str) -> None:
    data = load_or_skip(name)
    fits_without_contradiction(method, data.x, data.annotations)


@pytest.mark.slow
@pytest.mark.parametrize("jury", ["flute", "raop"])
def test_silent_on_juries_of_language_models(jury: str) -> None:
    try:
        folder = data_folder(("llm-judges",)) / jury
    except InputError as absent:
        pytest.skip(str(absent))
    crowd = Annotations.read(folder / "label.csv")
    texts = dict(zip(*(pv.read_csv(folder / "texts.csv")[name].to_pylist() for name in ("task", "text")), strict=True))
    shown = [texts[task] for task in crowd.task_ids.tolist()]
    for method in ("xconal", "conal"):
        fits_without_contradiction(method, shown, crowd[np.arange(crowd.n_tasks)])


def fits_without_contradiction(method: str, x: object, crowd: Annotations) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        conal.make(method, **FAST).fit(x, crowd)
    assert not [entry for entry in caught if issubclass(entry.category, ContradictionWarning)]
