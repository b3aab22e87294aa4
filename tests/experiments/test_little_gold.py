"""A little gold: what is run, and what table and page say of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from conal.datasets.label_sets import JUDGES
from conal.experiments import Run, Store
from conal.experiments.gold_measurements import KINDS
from conal.experiments.gold_rates import GoldRatesCoverage
from conal.experiments.little_gold import COUNTS, LittleGold
from conal.experiments.outputs import read_outputs, write_outputs
from conal.io.tables import write_table


def figures(run: Run) -> dict[str, Any]:
    """A point per true label up to five, the second seed a point above the first; twice as much if planned."""
    gain = 0.01 * min(run.gold["n"], 5) * (2 if run.gold["design"] == "planned" else 1)
    base = 0.8 + 0.01 * run.seed
    noise = 0.002 * (-1) ** run.seed * bool(run.gold["n"])
    found = {"label_accuracy": base + gain, "label_accuracy_before": base - 0.1, "claimed": base + gain + 0.03}
    found |= {"test_accuracy": None if run.dataset in JUDGES else base + gain + noise, "seconds": 1.0}
    if run.method == "stacked-votes":
        found["label_accuracy"] -= 0.005
    if "annotator_intervals" in run.keep:
        found |= {"annotator_intervals": {"annotators": 40, "held": 38, "width": 0.25}}
    if "pipeline_rates" in run.keep:
        found |= {"pipeline_rates": rates(10)}
    if "replayed_rates" in run.keep:
        found |= {"replayed_rates": {design: rates(200) for design in ("random", "planned")}}
    return found


def rates(n: int) -> dict[str, dict[str, float]]:
    held = {"classes": 0.9, "cleaned": 1.0, "crowd": 0.95, "annotators": 0.95}
    return {kind: {"n": n, "held": held[kind] * n, "width": 0.1 * n, "alone": 0.2 * n} for kind in KINDS}


def test_all_numbers_of_labels_on_all_crowds_by_five_draws() -> None:
    runs = LittleGold().runs()
    trained = [run for run in runs if run.method == "xconal" and run.protocol == "own"]
    crowds = {"labelme", "music", "cifar10", "synthetic", *JUDGES}
    assert {run.dataset for run in runs} == crowds
    for crowd in crowds:
        for seed in range(5):
            counts = [run.gold["n"] for run in trained if (run.dataset, run.seed) == (crowd, seed)]
            more = [30, 30] if crowd == "synthetic" else []
            planned = (10, 50, 200) if crowd in JUDGES else COUNTS[1:]
            assert sorted(counts) == sorted([*COUNTS, *planned, *more])
    assert all(run.data["seed"] == run.seed for run in runs if run.dataset in ("cifar10", "synthetic"))
    assert {run.parameters["epochs"] for run in trained} == {"auto"}
    assert len({run.hash for run in runs}) == len(runs)
    assert len(LittleGold(quick=True, seeds=1).runs()) < 50


def test_the_page() -> None:
    experiment = LittleGold(seeds=2)
    with Store(":memory:") as store:
        for run in experiment.runs():
            store.add(run, figures(run))
        page = experiment.page(experiment.table(store))
    assert "| xconal, random tasks | 80.50 ± 0.71 | 85.50 ± 0.42 |" in page
    assert "| xconal, planned tasks |  | 90.50 ± 0.42 |" in page
    assert "## Juries of language models with texts" in page
    # Test accuracy: 5.2 and 4.8 points more; the interval is Student's with one degree of freedom.
    assert "| LabelMe, random | +5.0 (+2.5 to +7.5) |" in page
    assert "| all, planned | +10.0 (+9.7 to +10.3) |" in page
    # Cleaned labels: on the same tasks, without noise.
    assert "| Jury: flute, random | +15.0 (+15.0 to +15.0) \\* |" in page
    assert "| all, planned | +20.0 (+20.0 to +20.0) | +20.0 (+20.0 to +20.0) |" in page
    assert "| Jury: flute, planned |  | +20.0 (+20.0 to +20.0) \\* |  |" in page
    assert "| stacked votes | -0.5 (-0.5 to -0.5) | -0.5 |" in page
    assert "| auto | +0.0 (+0.0 to +0.0) | +0.0 |" in page
    assert "| LabelMe and Music | +3.0 | +3.0 | +3.0 | 95.0 % of 160, width 25 |" in page


def test_the_page_is_made_from_the_table_alone(tmp_path: Path) -> None:
    experiment = LittleGold(seeds=2)
    with Store(":memory:") as store:
        for run in experiment.runs():
            store.add(run, figures(run))
        table = experiment.table(store)
    write_table(table, tmp_path / "little-gold.csv")
    assert experiment.page(read_outputs(experiment, tmp_path)) == experiment.page(table)
    assert {"little-gold-labelme", "little-gold-juries"} <= experiment.charts(table).keys()


def test_rates_share_the_runs_of_the_first_seeds(tmp_path: Path) -> None:
    experiment = GoldRatesCoverage()
    runs = experiment.runs()
    assert len(runs) == 4 + 4 * (20 + 5)
    shared = {run.hash for run in LittleGold().runs()} & {run.hash for run in runs}
    assert len(shared) == 4 * 2 * 5
    with Store(":memory:") as store:
        for run in runs:
            store.add(run, figures(run))
        page = experiment.page(experiment.table(store))
        write_outputs(experiment, store, tmp_path)
    assert re.search(r"\| share of a class( \| 90\.0 \(\d+\)){5} \| 10\.0 \| 20\.0 \|", page)
    assert f"| all |{' 95.0 (200) |' * 4} 95.0 (800) | 10.0 | 20.0 |" in page
    assert page.count("\n## ") == 4
    assert "20 times per crowd (5 times with planned tasks)" in page
    assert experiment.page(read_outputs(experiment, tmp_path)) == page
