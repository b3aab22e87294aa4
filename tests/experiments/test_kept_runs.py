"""The runs that the repository keeps: some are repeated, and the tables are what they make.

Two people can so check the committed figures: on another machine or with other versions, single fits move a little.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from conal.datasets import load
from conal.errors import InputError
from conal.experiments import Store, attacks, get, sweeps
from conal.experiments.attacks import Attacks
from conal.experiments.classes import Classes
from conal.experiments.comparisons import Published
from conal.experiments.costs import estimated_seconds
from conal.experiments.outputs import read_outputs
from conal.experiments.real_tables import PAPER_FIGURES, PROTOCOLS_OF, Table1, chosen_rows
from conal.experiments.run_files import FOLDER, made_here, present_code, read_runs, take_runs
from conal.experiments.runs import execute, load_data
from conal.experiments.store import Finished, rounded
from conal.experiments.sweeps import Sweep
from conal.experiments.tables import column

RESULTS = Path(__file__).parents[2] / "docs" / "results"
CELLS = 3
BESIDE = "bayes_without_gate"
TOLERANCE = 0.05
"""Test accuracy of one fit, where processor or versions differ; where they are the same, so are all figures.

Another processor rounds differently, which moves a fit on a small crowd by up to three points."""


def cheapest() -> list[Finished]:
    """The cheapest kept runs that the present code made, of different methods, whose data are here."""
    found: dict[str, Finished] = {}
    for each in sorted(read_runs(RESULTS / FOLDER), key=lambda each: each.figures["seconds"]):
        if each.run.method not in found and not each.run.gold and each.code == present_code(each.run):
            try:
                load_data(each.run)
            except InputError:
                continue
            found[each.run.method] = each
        if len(found) == CELLS:
            break
    return list(found.values())


@pytest.mark.parametrize("number", range(CELLS))
def test_a_cheap_run_gives_what_is_kept(number: int) -> None:
    kept = cheapest()
    if len(kept) <= number:
        pytest.skip("the repository keeps no further runs by the present code: `make results` makes them")
    run, figures, *_ = kept[number]
    again = rounded(execute(run))
    if made_here(kept[number]):
        same = {name for name in figures if name != "seconds"}
        assert {name: again[name] for name in same} == {name: figures[name] for name in same}
    assert again["test_accuracy"] == pytest.approx(figures["test_accuracy"], abs=TOLERANCE)


@pytest.fixture(scope="module")
def kept() -> Iterator[Store]:
    """A store of all kept runs, in memory: thousands of transactions on a disk take long."""
    with Store(":memory:") as store:
        take_runs(store, read_runs(RESULTS / FOLDER))
        yield store


@pytest.mark.parametrize("name", ["table-1", "cifar10", "gold-free", "little-gold", "ablation"])
def test_estimated_costs_are_near_those_of_the_kept_runs(name: str, kept: Store) -> None:
    """Of experiments that take long; estimates are for one core, and are rather too high than too low."""
    runs = {run.hash: run for run in get(name)().runs()}.values()
    if kept.missing(list(runs)):
        pytest.skip("the repository does not keep its runs: `make results` makes them")
    taken = sum(kept.require(run)["seconds"] for run in runs)
    assert 0.7 < sum(map(estimated_seconds, runs)) / taken < 3


def test_the_papers_music_figure_is_above_what_true_labels_reach() -> None:
    """The README and the page say so, also where the test set selects the epoch."""
    table = read_outputs(Table1(), RESULTS)
    best = max(np.mean(column(chosen_rows(table, "music", p)["gold"], "test_accuracy")) for p in PROTOCOLS_OF["music"])
    assert "test" in PROTOCOLS_OF["music"]
    assert 100 * best < Published.read(PAPER_FIGURES["conal"][1]).mean


def skip_without(dataset: str) -> None:
    try:
        load(dataset)
    except InputError:
        pytest.skip(f"{dataset} is not here (CONAL_DATA or ../shared/data)")


@pytest.mark.parametrize("name", sorted(path.stem for path in RESULTS.glob("*.csv")))
def test_a_table_is_what_the_kept_runs_make(name: str, kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = get(name)()
    if not experiment.runs():
        pytest.skip("this table has no runs")
    if kept.missing(experiment.runs()):
        pytest.skip("the repository does not keep its runs: `make results` makes them")
    table = read_outputs(experiment, RESULTS)
    assert set(table["code"].to_pylist()) == {experiment.code(kept)}
    from_runs = table.drop(["code"]).to_pylist()
    if isinstance(experiment, Attacks):  # aggregators and real crowds, which have no runs, take minutes
        for beside in ("_labels_alone", "_few_labels", "_real"):
            monkeypatch.setattr(attacks, beside, lambda *_: {})
        from_runs = [row | {"who": None} for row in from_runs[: len(experiment.runs())]]  # CSV has "" there
    if isinstance(experiment, Sweep):  # the crowds themselves, whose best possible labels stand beside, take minutes
        monkeypatch.setattr(sweeps, "load_data", lambda run: None)
        monkeypatch.setattr(sweeps, "bayes_label_accuracy", lambda crowd, gate: None)
        from_runs = [row | {BESIDE: None} for row in from_runs]
    if isinstance(experiment, Classes):  # which counts the labels of the crowd
        skip_without("labelme")
    made = experiment.table(kept).to_pylist()
    assert from_runs == [row for row in made if any(value is not None for value in row.values())]
