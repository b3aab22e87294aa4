"""Grades on a scale: rows of the table, and what the page says about them."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest

from conal.aggregation import DawidSkene, Ordinal
from conal.datasets import ordinal_crowd
from conal.experiments import Store
from conal.experiments.ordinal import OTHERS, OrdinalScales


def test_rows_are_the_errors_of_each_way_to_aggregate(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["conal.experiments.ordinal"]
    size = {"n_tasks": 60, "labels_per_task": 3}
    for name, value in (("LEVELS", (4,)), ("FEW", (12,)), ("SIZE", size), ("GENERATORS", {"rounded": "x"})):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "_real", lambda _: iter(()))
    with Store(":memory:") as store:
        rows = OrdinalScales(quick=True, seeds=1).table(store).to_pylist()
    found = {row["method"]: row["error"] for row in rows}
    assert list(found) == ["ordinal", *OTHERS]
    crowd, truth = ordinal_crowd(n_levels=4, labels_per_annotator=12, fall_off="rounded", seed=0, **size)
    z = truth.z + 1
    grades = np.where(crowd.to_matrix() >= 0, crowd.to_matrix() + 1.0, np.nan)
    fitted = DawidSkene().fit(crowd)
    wanted = {
        "ordinal": np.array(Ordinal().fit(crowd).scores_["median"]),
        "dawid-skene": fitted.labels_,
        "dawid-skene, median": np.array(fitted.scores_["median"]),
        "mean, rounded": np.round(np.nanmean(grades, axis=1)),
        "mean": np.nanmean(grades, axis=1),
        "median": np.nanmedian(grades, axis=1),
    }
    matrices = {row["method"]: row["matrix_error"] for row in rows}
    for name, estimate in (("ordinal", Ordinal().fit(crowd).fall_off_), ("dawid-skene", fitted.confusion_)):
        apart = [abs(estimate[r, c] - truth.confusion[r, c]).sum() / 2 for r in range(len(estimate)) for c in range(4)]
        assert matrices[name] == pytest.approx(np.mean(apart))
    assert matrices["median"] is None
    assert found == {name: pytest.approx(np.abs(guess - z).mean()) for name, guess in wanted.items()}


def test_the_page_says_by_how_much_others_are_worse() -> None:
    recovery = dict.fromkeys(("matrix_error", "bias_correlation", "spread_correlation"), 0.25)
    at = {"row": "discrete", "levels": 5, "labels": 20, "held_out": None} | recovery
    rows = [
        at | {"method": method, "seed": seed, "error": 0.2 + (0.1 if method != "ordinal" else 0.0) * (seed + 1)}
        for method in ("ordinal", *OTHERS)
        for seed in range(2)
    ]
    real = {"row": "cebab_stars", "levels": 5, "labels": None, "error": None} | dict.fromkeys(recovery)
    rows += [real | {"method": "ordinal", "seed": seed, "held_out": -1.0} for seed in range(2)]
    rows += [real | {"method": "dawid-skene", "seed": seed, "held_out": -1.1 - 0.2 * seed} for seed in range(2)]
    page = OrdinalScales().page(pa.Table.from_pylist(rows))
    assert (
        "| discrete | 5 | 20 | **0.200** | 0.350; +0.150 (-0.485 to +0.785) |" in page
    )  # 12.706 times 0.05 either way
    assert "| discrete | 5 | 20 | 0.25 | 0.25 | 0.25 | 0.25 |" in page
    assert "| `dawid-skene` | -1.200 | -0.200 (-1.471 to +1.071) |" in page
