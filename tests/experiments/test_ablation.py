"""The ablation: one part at a time, and only validation data are looked at."""

from __future__ import annotations

import numpy as np

from conal.experiments import Store
from conal.experiments.ablation import BASE, VARIANTS, Ablation
from conal.experiments.runner import run_missing


def test_the_page_has_differences_with_their_errors() -> None:
    experiment = Ablation(seeds=3)
    with Store(":memory:") as store:
        for run in experiment.runs():
            changed = run.parameters.get("vote_weight") == 1.0
            accuracy = 0.8 + 0.01 * run.seed - (0.02 + 0.01 * run.seed) * changed
            store.add(run, {"validation": accuracy, "label_accuracy": accuracy, "seconds": 4.0 if changed else 2.0})
        page = experiment.page(experiment.table(store))
    assert f"| {BASE} | 81.00 ± 1.00 |" in page
    # Differences of -2, -3 and -4 points: mean -3, and Student's quantile of 4.303 times 1 / sqrt(3) either way. Holm's
    # correction for the other variants leaves them level.
    assert "| votes count in full | 78.00 ± 0.00 (-3.0 (-5.5 to -0.5)) |" in page
    assert "| 2.0 |" in page
    assert np.all([f"| {row} |" in page for row in VARIANTS])


def test_a_variant_is_measured_on_validation_data() -> None:
    experiment = Ablation(quick=True, seeds=1)
    (run,) = [r for r in experiment.runs() if r.dataset == "synthetic" and r.method == "conal-em"]
    with Store(":memory:") as store:
        assert run_missing(store, [run], verbose=False) == 1
        found = store.require(run)
    assert found["selection"] == "last"
    assert 0.5 < found["validation"] <= 1
    assert found["validation"] != found["test_accuracy"]
