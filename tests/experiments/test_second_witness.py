"""The second witness: what is run, and what table and page say of it."""

from __future__ import annotations

from typing import Any

from conal.datasets.label_sets import JUDGES
from conal.experiments import Run, Store
from conal.experiments.witness import CROWDS, SecondWitness


def figures(run: Run) -> dict[str, Any]:
    """Three points more with the witness, four in the second seed; half as much for cleaned labels."""
    gain = (0.03 + 0.01 * run.seed) * (run.parameters.get("witness") != "none")
    test = None if run.dataset in JUDGES else 0.8 + gain + 0.02 * ("class_prior" in run.parameters)
    return {"test_accuracy": test, "label_accuracy": 0.7 + gain / 2, "claimed": 0.9, "seconds": 1.0 + 10 * gain}


def test_every_crowd_both_ways_without_any_true_label() -> None:
    runs = SecondWitness().runs()
    assert len({run.hash for run in runs}) == len(runs) == (2 * len(CROWDS) + 1) * 5
    assert {run.gold["n"] for run in runs} == {0}
    assert {run.protocol for run in runs} == {"own"}
    assert {run.dataset for run in runs} == {"labelme", "music", "digits", "cifar10", "synthetic", *JUDGES}
    assert all(run.data["seed"] == run.seed for run in runs if run.dataset in ("digits", "cifar10", "synthetic"))
    assert [run.dataset for run in runs if "class_prior" in run.parameters] == ["labelme"] * 5


def test_the_page() -> None:
    experiment = SecondWitness(seeds=2)
    with Store(":memory:") as store:
        for run in experiment.runs():
            store.add(run, figures(run))
        test, cleaned = experiment.page(experiment.table(store)).split("## ")[1:]
    # Student's interval with one degree of freedom: 12.706 times 0.5.
    line = "| LabelMe | 80.00 ± 0.00 | 83.50 ± 0.71 | +3.5 (-2.9 to +9.9) | 85.50 ± 0.71 | 1.35 |"
    assert line in test
    assert "jury" not in test
    assert "| Music | 70.00 ± 0.00 | 71.75 ± 0.35 | +1.8 (-1.4 to +4.9) |  | 1.35 |" in cleaned
    # Eight juries with the same differences: eight degrees of freedom, and an error smaller by the root of eight.
    assert "| all juries | 70.00 ± 0.00 | 71.75 ± 0.35 | +1.8 (+1.5 to +2.0) |  |  |" in cleaned
