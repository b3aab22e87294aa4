"""What trained models say: kept by runs, laid out in tables, summed up on pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from conal.data.annotations import Annotations
from conal.datasets import CrowdDataset
from conal.errors import InputError
from conal.experiments import Experiment, Run, Store
from conal.experiments.curves import Curves
from conal.experiments.learned_noise import Confusions, Omega, omega_gaps
from conal.experiments.measurements import omega_halves
from conal.experiments.recovery import Recovery, recovery_by_crowd
from conal.experiments.runner import run_missing
from conal.experiments.runs import execute

DATA: dict[str, Any] = {"n_train": 80, "n_valid": 20, "n_test": 40, "n_classes": 3, "n_annotators": 7}


def test_halves_by_hand() -> None:
    """Mean omega 0.9, 0.2, 0.5 and 0.8 of classes 0, 1, 1 and 2; a fifth task has no labels and is in neither half."""
    crowd = Annotations.from_matrix([[0, -1], [1, 1], [1, 1], [-1, 1], [-1, -1]], classes=range(3))
    data = CrowdDataset("hand", np.zeros((5, 1), dtype=np.float32), crowd, np.array([0, 1, 1, 2, 0]))
    top, bottom = omega_halves(np.array([0.9, 0.1, 0.3, 0.4, 0.6, 0.8]), data)
    np.testing.assert_allclose(top, [0.5, 0, 0.5])
    np.testing.assert_allclose(bottom, [0, 1, 0])


def test_a_run_keeps_what_it_was_asked_for() -> None:
    run = Run("synthetic", "conal", 0, "last", DATA, {"epochs": 3}, keep=("confusion", "omega", "history"))
    figures = execute(run)
    kept = figures["confusion"]
    assert np.shape(kept["common"]) == np.shape(kept["true_common"]) == (3, 3)
    assert np.shape(kept["individual"]) == np.shape(kept["true_individual"]) == (5, 3, 3)
    error = np.abs(np.array(kept["common"]) - np.array(kept["true_common"])).mean()
    assert error == pytest.approx(figures["common_confusion_error"])
    assert np.sum(figures["omega"]["top"]) == pytest.approx(1)
    assert [row["epoch"] for row in figures["history"]] == [1, 2, 3]
    assert figures["history"][-1]["test_accuracy"] == pytest.approx(figures["test_accuracy"])
    assert run.hash != Run("synthetic", "conal", 0, "last", DATA, {"epochs": 3}).hash


def filled(experiment: Experiment, kept: dict[str, Any]) -> Store:
    store = Store(":memory:")
    for run in experiment.runs():
        store.add(run, kept | {"seconds": 1.0})
    return store


def test_confusions_name_the_largest_common_mistakes() -> None:
    matrix = [[0.7, 0.3], [0.1, 0.9]]
    kept = {"classes": ["a", "b"], "annotators": ["w"], "common": matrix, "individual": [np.eye(2).tolist()]}
    experiment = Confusions()
    with filled(experiment, {"confusion": kept}) as store:
        table = experiment.table(store)
    assert len(table) == 2 * 2 * 4
    page = experiment.page(table)
    assert page.index("| a | b | 30.0 % |") < page.index("| b | a | 10.0 % |")
    assert set(experiment.charts(table)) == {"confusions-labelme", "confusions-music"}


def test_omega_ranks_classes_by_the_difference_of_the_halves() -> None:
    experiment = Omega(quick=True)
    with Store(":memory:") as store:
        for run in experiment.runs():
            part = 0.2 + 0.02 * (run.seed - 0.5)  # means 0.2 of the top half and 0.7 of the bottom half
            kept = {"classes": ["a", "b"], "top": [part, 1 - part], "bottom": [0.7, 0.3]}
            store.add(run, {"omega": kept, "seconds": 1.0})
        table = experiment.table(store)
    gaps = omega_gaps(table)
    assert gaps["labelme", "a"].value == pytest.approx(-50)
    half = 0.01 * 100 * stats.t.ppf(0.975, 1)  # two seeds, 0.01 from their mean
    assert (gaps["music", "b"].low, gaps["music", "b"].high) == pytest.approx((50 - half, 50 + half))
    page = experiment.page(table)
    assert page.index("| b | 80.0 | 30.0 | +50.0 (") < page.index("| a | 20.0 | 70.0 | -50.0 (")
    assert "Reduced size" in page


def test_recovery_counts_rows_whose_main_mistake_is_found() -> None:
    """Of two rows with mistakes one is right, the third row has none; the annotator's matrix is exact."""
    true = [[0.6, 0.4, 0.0], [0.1, 0.6, 0.3], [0.0, 0.0, 1.0]]
    learned = [[0.6, 0.3, 0.1], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8]]
    kept = {"classes": ["a", "b", "c"], "annotators": ["w"], "common": learned, "individual": [true]}
    experiment = Recovery(quick=True)
    with filled(experiment, {"confusion": kept | {"true_common": true, "true_individual": [true]}}) as store:
        found = recovery_by_crowd(experiment.table(store))
    assert len(found) == 2 * 2 * 2  # kinds of noise, crowds, and whose matrix
    assert found["synthetic", "symmetric", 1, True] == pytest.approx((1.0 / 9, 0.5))
    assert found["synthetic", "symmetric", 1, False] == (0, 1)


def test_recovery_end_to_end() -> None:
    experiment = Recovery(quick=True)
    with Store(":memory:") as store:
        with pytest.raises(InputError, match="synthetic conal seed 0 has not run yet"):
            experiment.table(store)
        assert run_missing(store, experiment.runs()) == 4
        table = experiment.table(store)
        errors = [store.require(run)["common_confusion_error"] for run in experiment.runs()]
    page = experiment.page(table)
    for kind, two in zip(("asymmetric", "symmetric"), (errors[:2], errors[2:]), strict=True):
        assert f"| synthetic | {kind} | {np.mean(two):.4f} |" in page
    assert len(experiment.charts(table)) == 2


def test_curves_compare_the_last_epoch_with_the_best() -> None:
    history = [
        {"epoch": 1, "training_accuracy": 0.5, "test_accuracy": 0.6},
        {"epoch": 2, "training_accuracy": 0.9, "test_accuracy": 0.8},
        {"epoch": 3, "training_accuracy": 0.95, "test_accuracy": 0.7},
    ]
    experiment = Curves(seeds=2)
    with filled(experiment, {"history": history}) as store:
        table = experiment.table(store)
    assert "| `conal` | 95.0 | 70.0 | 80.0 |" in experiment.page(table)
    assert set(experiment.charts(table)) == {"curves-labelme", "curves-music"}
