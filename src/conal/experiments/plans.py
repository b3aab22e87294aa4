"""Plans of further labels, replayed: accuracy against labels spent, beside random labels and ActiveLab."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from conal.datasets import labelme, music, synthetic
from conal.datasets.base import CrowdDataset
from conal.experiments.base import Experiment, register
from conal.experiments.comparisons import Difference, corrected, paired_difference
from conal.experiments.replays import STRATEGIES, replay
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, mean_and_spread, n_seeds, notes

__all__ = ["Plans", "area", "pooled_gaps"]


@cache
def _labelme() -> CrowdDataset:
    return labelme()


@cache
def _music() -> CrowdDataset:
    return music()


ROUNDS = 6
SHARE = 0.1
"""Labels of a batch, as a share of the tasks."""
SIMULATED: dict[str, Any] = {"n_train": 500, "n_valid": 0, "n_test": 500, "labels_per_instance": 5.0}
CROWDS: dict[str, Callable[[int], CrowdDataset]] = {
    "LabelMe": lambda seed: _labelme(),
    "Music": lambda seed: _music(),
    "simulated": lambda seed: synthetic(**SIMULATED, seed=seed),
    "simulated, poor annotators": lambda seed: synthetic(**SIMULATED, individual_strength=0.6, seed=seed),
}
MEASURES = {"label_accuracy": "Labels of the tasks", "test_accuracy": "Classifier on test tasks"}
PLAN = "plan"


@register("plans")
class Plans(Experiment):
    """What planned labels bring, and whether plans keep what they promise."""

    title = "Plans of further labels"
    minutes = 10.0

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=seeds or (2 if quick else 20), images=images)

    def table(self, store: Store) -> pa.Table:
        """One row per crowd, strategy, replay and batch."""
        crowds = [*CROWDS][2:3] if self.quick else CROWDS
        strategies = [name for name in STRATEGIES if name != "ActiveLab" or find_spec("cleanlab") is not None]
        rows: list[Row] = []
        for crowd in crowds:
            for seed in self.seeds:
                data = CROWDS[crowd](seed)
                batch = round(SHARE * data.annotations.n_tasks)
                rounds = 2 if self.quick else ROUNDS
                for name in strategies:
                    found = replay(data, name, seed, rounds=rounds, batch=batch)
                    rows += [{"dataset": crowd} | row for row in found]
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """Areas under accuracy, their differences, and how often promises hold."""
        rows = table.to_pylist()
        without = "" if any(row["strategy"] == "ActiveLab" for row in rows) else _NO_CLEANLAB
        parts = [_EXPLAINED.format(seeds=n_seeds(table), rounds=max(column(rows, "round"))) + without]
        for measure, title in MEASURES.items():
            parts += [f"## {title}", _areas(rows, measure)]
        return self.document(*parts, "## Promises", _PROMISED, _promises(rows))

    def charts(self, table: pa.Table) -> dict[str, Any]:
        """Accuracy of the labels against their number, a panel per crowd."""
        from conal.report.charts import lines

        return {
            self.stem: lines(
                _curves(table.to_pylist()),
                x="labels",
                x_title="labels per 100 tasks",
                y_title="right labels (%)",
                by="dataset",
                title=self.title,
            )
        }


def area(rows: list[Row], measure: str) -> float:
    """The mean accuracy over equal steps of labels, after the first batch and later.

    >>> area([{"round": 0, "a": 0.5}, {"round": 1, "a": 0.7}, {"round": 2, "a": 0.9}], "a")
    0.8
    """
    return float(np.mean([row[measure] for row in rows if row["round"] > 0]))


def _areas(rows: list[Row], measure: str) -> str:
    """A line per crowd: the mean area of every strategy, and the plan's differences from the others."""
    areas = _by_crowd(rows, measure)
    strategies = list(group_by(rows, "strategy"))
    others = [name for name in strategies if name != PLAN]
    body = [
        [
            crowd,
            *(mean_and_spread(here[name]) for name in strategies),
            *(str(paired_difference((here[PLAN], here[name]))) for name in others),
        ]
        for crowd, here in areas.items()
    ]
    body.append(["all", *("" for _ in strategies), *(str(_pooled(areas, name)) for name in others)])
    return markdown(["crowd", *strategies, *(f"plan - {name}" for name in others)], body)


def pooled_gaps(table: pa.Table, measure: str) -> dict[str, Difference]:
    """The plan's area minus that of every other strategy, in the mean over the crowds."""
    rows = table.to_pylist()
    areas = _by_crowd(rows, measure)
    return corrected({name: _pooled(areas, name) for name in group_by(rows, "strategy") if name != PLAN})


def _pooled(areas: dict[str, dict[str, list[float]]], name: str) -> Difference:
    return paired_difference(*((here[PLAN], here[name]) for here in areas.values()))


def _by_crowd(rows: list[Row], measure: str) -> dict[str, dict[str, list[float]]]:
    """Areas of all replays, in the order of their seeds, by crowd and strategy."""
    found = group_by(sorted(rows, key=lambda row: row["seed"]), "dataset", "strategy", "seed")
    return {
        crowd: {
            name: [area(some, measure) for (at, by, _), some in found.items() if (at, by) == (crowd, name)]
            for name in group_by(rows, "strategy")
        }
        for crowd in group_by(rows, "dataset")
    }


def _promises(rows: list[Row]) -> str:
    """How often the accuracy after a batch is in the interval that was promised for it."""
    made = [row for row in rows if row["promised_accuracy"] is not None]
    groups = {**group_by(made, "dataset"), "all": made}
    body = []
    for crowd, some in groups.items():
        held = [row["promised_low"] <= row["label_accuracy"] <= row["promised_high"] for row in some]
        last = max(column(some, "round"))
        ends = [each for each, row in zip(held, some, strict=True) if row["round"] == last]
        error = np.mean([row["promised_accuracy"] - row["label_accuracy"] for row in some])
        width = np.mean([row["promised_high"] - row["promised_low"] for row in some])
        cells = f"{100 * np.mean(held):.0f} % of {len(held)}", f"{100 * np.mean(ends):.0f} % of {len(ends)}"
        body.append([crowd, *cells, f"{100 * error:+.1f}", f"{100 * width:.0f}"])
    return markdown(["crowd", "all batches", "last batches", "promised - true (points)", "mean width (points)"], body)


def _curves(rows: list[Row]) -> pa.Table:
    found = []
    for (crowd, name, _), some in group_by(rows, "dataset", "strategy", "round").items():
        values = 100 * np.array(column(some, "label_accuracy"))
        share = 100 * (0.5 + SHARE * some[0]["round"])
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        found.append(
            {"dataset": crowd, "series": name, "labels": share, "mean": float(values.mean()), "spread": spread}
        )
    return pa.Table.from_pylist(found)


_EXPLAINED = notes(
    "Crowds are replayed, {seeds} times each. Half of the tasks begin with one label; all others are hidden. {rounds} "
    "batches are then revealed, each of as many labels as a tenth of the tasks, and only labels that somebody gave can "
    "be chosen.",
    "*random* takes any of them. *ActiveLab* takes the tasks with the lowest scores of cleanlab "
    "(`get_active_learning_scores`), one more label each, of anybody who labelled the task. *plan* takes the tasks and "
    "annotators of `conal plan --budget`.",
    "After every batch, labels are inferred by the same model for all three: Dawid-Skene and a cross-fitted logistic "
    "regression on the features, in turns.",
    "The area under the curve is the mean accuracy after the batches, in percent, ± the standard deviation over "
    "replays; differences are in points, with 95 % intervals over replays.",
)
_NO_CLEANLAB = " cleanlab is not installed, so ActiveLab is left out (`pip install conal[compare]`)."
_PROMISED = (
    "Before every batch, the plan promises how many labels of all tasks will be right after it, with a 95 % interval. "
    "How often the true accuracy is inside:"
)
