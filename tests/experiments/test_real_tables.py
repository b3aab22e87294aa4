"""Tables 1 to 3: what is run, which grid point is chosen, and what the page says."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conal import experiments, methods
from conal.experiments import Run, Store
from conal.experiments.base import PAPER_METHODS, every_method
from conal.experiments.real_tables import N_TEST, RealCrowds, Table1, Table2, Table3, gaps_to
from conal.experiments.right_answers import packed
from conal.experiments.tables import Row


def filled(experiment: RealCrowds, best: dict[str, float]) -> Store:
    """A store with figures for all runs: the better the validation score, the *lower* the test accuracy."""
    store = Store(":memory:")
    for run in experiment.runs():
        score = 0.5 + sum(0.01 for name, value in best.items() if run.parameters.get(name) == value)
        figures = {"test_accuracy": 1.2 - score + 0.002 * run.seed, "label_accuracy": 0.7, "best_score": score}
        right = np.arange(N_TEST[run.dataset]) % 10 < (9 if run.method == "max-mig" else 8)
        store.add(run, figures | {"seconds": 1.0, "right": packed(right)})
    return store


def test_the_grids_are_the_papers() -> None:
    runs = Table1().runs()
    conal = [run for run in runs if run.method == "conal" and run.dataset == "labelme"]
    points = {(run.parameters["lr"], run.parameters["embedding_dim"], run.parameters["lam"]) for run in conal}
    assert points == {
        (lr, dim, lam) for lr in (0.02, 0.01, 0.005) for dim in (20, 40, 60, 80) for lam in (1e-4, 1e-5, 1e-6)
    }
    assert len(conal) == 36 * 5
    assert {run.seed for run in runs} == {0, 1, 2, 3, 4}
    assert {run.protocol for run in runs if run.dataset == "labelme"} == {"gold"}
    assert {run.protocol for run in runs if run.dataset == "music"} == {"annotations", "test"}
    assert len({run.hash for run in runs}) == len(runs) == 3 * (36 + (len(every_method()) - 1) * 3) * 5


def test_validation_chooses_the_grid_point_not_the_test_set() -> None:
    experiment = Table1(seeds=2)
    with filled(experiment, {"lr": 0.005, "embedding_dim": 60, "lam": 1e-6}) as store:
        table = experiment.table(store)
        page = experiment.page(table)
    chosen = [row for row in table.to_pylist() if row["chosen"] and row["method"] == "conal"]
    assert {row["parameters"] for row in chosen} == {json.dumps({"lr": 0.005, "embedding_dim": 60, "lam": 1e-6})}
    assert len(chosen) == 2 * 3
    settings = "lr 0.005, embedding_dim 60, lam 1e-06"
    assert f"| `conal` | 67.10 ± 0.14 |  |  | 70.00 ± 0.00 | 1.0 | {settings} | 87.12 ± 0.55 |" in page
    # The others lack the embedding and λ of the best point: scores are 0.02 lower, and accuracies 2 points higher.
    (line,) = [
        line for line in page.splitlines() if line.startswith("| `max-mig` | 69.10 ± 0.14 | +2.0 (+2.0 to +2.0)")
    ]
    assert "| +9.9 (+8." in line
    (line,) = [line for line in page.splitlines() if line.startswith("| `dl-mv` | 69.10 ± 0.14 | +2.0 (+2.0 to +2.0)")]
    assert "| +0.0 (+0.0 to +0.0) |" in line
    assert page.count("| (given) |") == 2
    assert "87.12 ± 0.55" in page
    assert "84.06 ± 0.42" in page
    assert "no fair figure" in page
    assert "--quick" not in page


def test_quick_is_small_and_says_so() -> None:
    experiment = Table1(quick=True)
    assert len(experiment.runs()) == len(every_method()) * 3 * 2
    assert all(run.parameters["epochs"] == 30 for run in experiment.runs())
    with filled(experiment, {}) as store:
        assert "Reduced size" in experiment.page(experiment.table(store))


def test_lambda_has_a_row_each_and_the_papers_figures() -> None:
    experiment = Table2(seeds=1)
    assert {run.parameters["lam"] for run in experiment.runs()} == {0, 1e-4, 1e-5, 1e-6}
    with filled(experiment, {"lr": 0.01}) as store:
        page = experiment.page(experiment.table(store))
    for row, figure in (("0", "85.68"), ("0.0001", "86.61"), ("1e-05", "87.12"), ("1e-06", "86.26")):
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `{row}` |") and figure in line]
        assert "| lr 0.01, " in line


def test_runs_that_two_tables_share_are_run_once() -> None:
    shared = {run.hash for run in Table1().runs()} & {run.hash for run in Table3().runs()}
    assert len(shared) == 3 * (36 + 3 + 3) * 5


def test_differences_are_of_the_same_seeds_and_instances() -> None:
    def fits(accuracies: list[float], right: list[bool]) -> list[Row]:
        text = packed(right * 100)
        return [{"dataset": "music", "seed": k, "test_accuracy": a, "right": text} for k, a in enumerate(accuracies)]

    rows = {
        "conal": fits([0.80, 0.82, 0.84], [True, False, False]),
        "a": fits([0.81, 0.83, 0.85], [True, True, False]),
        "b": fits([0.70, 0.80, 0.90], [True, False, False]),
    }
    gaps = gaps_to("conal", rows)
    assert gaps["a"].seeds.value == pytest.approx(1)
    assert gaps["a"].seeds.verdict == "above"
    assert gaps["b"].seeds.verdict == "level"
    assert gaps["a"].instances is not None
    assert gaps["a"].instances.value == pytest.approx(100 / 3)
    rows["a"][0]["right"] = ""  # a table of earlier versions
    assert gaps_to("conal", rows)["a"].instances is None


@pytest.mark.parametrize("name", ["table-1", "table-2", "table-3"])
def test_every_run_can_be_made(name: str) -> None:
    """Parameters are those of the methods; a wrong one would show only after minutes otherwise."""
    from conal.estimator import make

    for run in experiments.get(name)(quick=True).runs():
        assert isinstance(run, Run)
        make(run.method, seed=run.seed, **run.parameters)


def test_every_registered_method_has_a_row_the_papers_first() -> None:
    rows = list(Table1().rows())
    assert rows[:10] == ["gold", *PAPER_METHODS]
    assert set(rows) == set(methods.names())
