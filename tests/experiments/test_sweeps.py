"""The sweeps over common noise: the paper's axes, both readings, and honest words about who is ahead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.compute as pc
import pytest

from conal import experiments
from conal.datasets import CrowdDataset, CrowdSettings, Split, load, simulate_crowd
from conal.datasets.cifar10_files import CLASSES
from conal.errors import InputError
from conal.experiments import Run, Store, runs, sweeps
from conal.experiments.base import every_method
from conal.experiments.runner import run_missing
from conal.experiments.sweeps import MORE, Cifar10, Synthetic


def test_the_axes_are_the_papers() -> None:
    runs = Synthetic().runs()
    settings = {(r.data["common_strength"], r.data["proportion"]) for r in runs}
    assert settings == {(s, 0.5) for s in (0.4, 0.5, 0.6, 0.7, 0.8)} | {(0.4, p) for p in (0, 0.3, 0.4, 0.5, 0.6, 0.7)}
    assert {r.data["common_type"] for r in runs} == {"asymmetric", "symmetric"}
    assert {r.data["individual_strength"] for r in runs} == {0.3, 0.7}
    assert {r.method for r in runs} == set(every_method())
    assert all(r.data["seed"] == r.seed for r in runs)
    papers = {"conal": {"omega_scale": 1.0}}
    assert all(r.parameters == {"epochs": 150, **papers.get(r.method, {})} for r in runs)  # all alike, and no patience


def test_the_ceiling_runs_once_for_all_crowds_of_a_seed() -> None:
    """It sees instances and true labels alone, and a seed draws the same ones whatever the crowd is."""
    for experiment in (Synthetic(), Cifar10()):
        ceiling = {run.hash: run for run in experiment.runs() if run.method == "gold"}
        assert len(ceiling) == len({run.seed for run in experiment.runs()})
    small = {"n_train": 60, "n_valid": 20, "n_test": 20, "seed": 3}
    one = load("synthetic", **small, gate="effects", common_strength=0.4, common_type="asymmetric", proportion=0.5)
    other = load("synthetic", **small, gate="interaction", common_strength=0.8, common_type="symmetric", proportion=0.0)
    for ours, theirs in ((one, other), (one.valid, other.valid), (one.test, other.test)):
        assert ours is not None
        assert theirs is not None
        np.testing.assert_array_equal(ours.x, theirs.x)
    np.testing.assert_array_equal(one.y_true, other.y_true)
    assert one.annotations.labels.tolist() != other.annotations.labels.tolist()


def test_every_place_has_its_crowds() -> None:
    crowds: dict[tuple[str, float, float, float], set[int]] = {}
    for r in Synthetic().runs():
        if r.data["common_type"] == "symmetric" and r.method == "conal":
            place = r.data["gate"], r.data["individual_strength"], r.data["common_strength"], r.data["proportion"]
            crowds.setdefault(place, set()).add(r.seed)
    numbers = {place: len(seeds) for place, seeds in crowds.items()}
    papers = {("effects", 0.3, s, 0.5): 5 * MORE if s in (0.4, 0.8) else 5 for s in (0.4, 0.5, 0.6, 0.7, 0.8)}
    proportions = {("effects", 0.3, 0.4, p): 5 for p in (0.0, 0.3, 0.4, 0.6, 0.7)}  # 0.5 is strength 0.4, run once
    earlier = {("interaction", 0.3, s, 0.5): 5 for s in (0.4, 0.6, 0.8)}
    assert numbers == papers | proportions | earlier | {("effects", 0.7, s, 0.5): 5 for s in (0.4, 0.8)}


def figures(run: Run) -> dict[str, float]:
    """CoNAL one point behind AggNet, ahead of all others."""
    accuracy = {"gold": 0.95, "conal": 0.90, "aggnet": 0.91}.get(run.method, 0.80)
    if run.data["common_strength"] == 0.8:
        accuracy += 0.03 * (run.method == "conal") - 0.0001 * run.seed * (run.method == "aggnet")
    return {
        "test_accuracy": accuracy,
        "label_accuracy": 0.85 if run.method == "aggnet" else 0.88,
        "bayes_label_accuracy": 0.87,
        "common_confusion_error": 0.05,
        "omega_correlation": 0.4,
        "best_epoch": 140 if run.method == "dl-cl" else 30,
        "seconds": 1.0,
    }


def test_the_page_says_where_conal_is_behind_and_shows_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "MORE", 4)
    experiment = Synthetic(seeds=1)  # four crowds at the ends
    with Store(":memory:") as store:
        for run in experiment.runs():
            store.add(run, figures(run))
        table = experiment.table(store)
    page = experiment.page(table)
    # At 0.8, on four crowds: 93 minus 91, 90.99, 90.98 and 90.97.
    assert "CoNAL is above every baseline at 0.8: +2.0 (+2.0 to +2.0) against `aggnet`." in page
    assert "CoNAL is behind the best baseline at 0.4: -1.0 (-1.0 to -1.0) against `aggnet`." in page
    assert "CoNAL is not judged, on a single crowd, at 0.5: -1.0 against `aggnet`; 0.6: -1.0" in page
    assert "| `aggnet` | 91.00 ± 0.00 ▲ | 91.00 | 91.00 | 91.00 | 90.9" in page
    assert " ± 0.01 ▼ |" in page
    assert "| ceiling minus CoNAL, test accuracy | 5.0 | 5.0 | 5.0 | 5.0 | 2.0 |" in page
    assert "| ceiling minus best baseline | 4.0 | 4.0 | 4.0 | 4.0 | 4.0 |" in page
    assert "in 7 % of the runs the chosen epoch is among the last tenth" in page  # one method of fifteen
    assert "| training labels right: Bayes-optimal, no features | 87.0 |" in page
    assert "| the same, omega known on average only | 8" in page
    assert "| training labels right: CoNAL | 88.0 |" in page
    assert "| training labels right: best baseline | 85.0 |" in page
    assert "| error per entry of the learned common confusion | 0.050 |" in page
    assert "| correlation of learned and true omega | 0.400 |" in page
    assert "over 1 or 4 crowds" in page
    assert page.count("\n## ") == 8
    assert set(experiment.charts(table)) == {
        "synthetic-strength-individual-0.3",
        "synthetic-proportion-individual-0.3",
        "synthetic-strength-individual-0.7",
        "synthetic-strength-individual-0.3-interaction",
    }


def test_a_table_of_earlier_versions_is_of_the_earlier_gate() -> None:
    experiment = Synthetic(seeds=1)
    with Store(":memory:") as store:
        for run in experiment.runs():
            store.add(run, figures(run))
        table = experiment.table(store)
    strengths = table.filter((pc.field("gate") == "interaction") & (pc.field("varies") == "strength"))
    page = experiment.page(strengths.drop(["gate", "best_epoch"]))
    assert page.count(", the earlier gate, against strength") == 2
    assert "50 epochs with a patience of 15" in page


def test_quick_runs_end_to_end() -> None:
    experiment = Synthetic(quick=True, seeds=1)
    with Store(":memory:") as store:
        runs = [run for run in experiment.runs() if run.method in ("dl-mv", "conal")]
        assert run_missing(store, runs) == 4
        for run in experiment.runs():
            store.add(run, figures(run))  # which leaves what was run as it is
        table = experiment.table(store)
    measured = [row for row in table.to_pylist() if row["method"] in ("dl-mv", "conal")]
    assert all(row["test_accuracy"] > 0.5 for row in measured)


def test_settings_are_those_of_the_datasets() -> None:
    (run,) = [r for r in experiments.get("synthetic")(quick=True, seeds=1).runs() if r.method == "conal"][:1]
    data = load("synthetic", **run.data)
    assert data.truth is not None
    assert data.truth.settings.common_strength == 0.6
    assert len(data.x) == 1000


def test_cifar10_runs_on_features_or_on_images_with_vgg16() -> None:
    features, images = Cifar10(seeds=1), Cifar10(seeds=1, images=True)
    assert {run.data["inputs"] for run in features.runs()} == {"features"}
    assert {run.data["inputs"] for run in images.runs()} == {"images"}
    assert {run.parameters["backbone"] for run in images.runs()} == {"vgg16"}
    assert all("backbone" not in run.parameters for run in features.runs())
    assert (features.stem, images.stem) == ("cifar10", "cifar10-images")
    with pytest.raises(InputError, match="synthetic: has no images; use cifar10"):
        Synthetic(images=True)


def test_images_train_vgg16_for_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 10
    x = rng.integers(0, 256, size=(40, 3, 32, 32), dtype=np.uint8)
    crowd, truth = simulate_crowd(y[:24], x[:24], CLASSES, CrowdSettings(n_annotators=4))
    data = CrowdDataset("cifar10", x[:24], crowd, y[:24], Split(x[24:32], y[24:32]), Split(x[32:], y[32:]), truth)
    monkeypatch.setattr(runs, "_load", lambda name, settings: data)
    run = next(run for run in Cifar10(quick=True, images=True).runs() if run.method == "conal")
    steps = replace(run, parameters={**run.parameters, "epochs": 2, "batch_size": 8}, keep=("history",))
    found = runs.execute(steps)
    assert len(found["history"]) == 2
    assert 0 <= found["test_accuracy"] <= 1
    assert np.isfinite(found["common_confusion_error"])
