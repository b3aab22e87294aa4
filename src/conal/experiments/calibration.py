"""Whether what methods say about cleaned labels and annotators is true, on three crowds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from conal.experiments.base import Experiment, every_method, register
from conal.experiments.comparisons import RULE, Difference, Pair, corrected, paired_difference
from conal.experiments.gold_free import preset_of
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, n_seeds, notes

__all__ = ["Calibration", "claimed_and_true"]

TITLES = {"labelme": "LabelMe", "music": "Music", "cifar10": "CIFAR-10 features, simulated crowd"}
MEASURED = ("claimed", "label_accuracy", "calibration_error")
JUDGED = ("annotators", "held", "width")


@register("calibration")
class Calibration(Experiment):
    """Claimed and true shares of right labels, calibration error, and coverage of annotators' intervals."""

    title = "Calibration of cleaned labels"

    def methods(self) -> list[str]:
        """All but the ceiling, which cleans nothing."""
        return [name for name in every_method() if name != "gold"]

    def points(self) -> list[tuple[str, str, int]]:
        """Dataset, method and seed."""
        names = ("labelme",) if self.quick else TITLES
        return [(name, method, seed) for name in names for method in self.methods() for seed in self.seeds]

    def runs(self) -> list[Run]:
        """Every method without gold labels on every crowd."""
        return [self._run(*point) for point in self.points()]

    def _run(self, dataset: str, method: str, seed: int) -> Run:
        data: dict[str, Any] = {}
        if dataset == "cifar10":
            data = {"inputs": "features", "n_train": 10_000, "n_valid": 1000, "seed": seed}
        parameters = preset_of(dataset, method, quick=self.quick)
        return Run(dataset, method, seed, "own", data, parameters, keep=("cleaned_labels", "annotator_intervals"))

    def table(self, store: Store) -> pa.Table:
        """One row per run."""
        rows = []
        for dataset, method, seed in self.points():
            found = store.require(self._run(dataset, method, seed))
            labels, people = found["cleaned_labels"], found["annotator_intervals"]
            rows.append(
                {"dataset": dataset, "method": method, "seed": seed}
                | {name: labels[name] for name in MEASURED}
                | {f"annotators_{name}": people[name] for name in JUDGED}
            )
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """A table per crowd."""
        text = notes(
            f"What methods say about the labels that they cleaned, without gold labels; means over {n_seeds(table)} "
            "seeds, in percent.",
            "*Claimed*: the mean probability of the labels. *True*: the share of them that is right. *Claimed minus "
            f"true*: in points, starred where the method is over- or underconfident. {RULE}",
            "*Calibration error*: the mean distance of the two in 15 bins of equal width.",
            "*Intervals that hold*: share of the 95 % intervals of annotators' quality that contain the share of their "
            "labels that is right, for annotators with ten labels or more, with the mean width in points.",
        )
        parts, rows = [text], table.to_pylist()
        header = ["method", "claimed", "true", "claimed minus true", "calibration error", "intervals that hold (width)"]
        gaps = _over_claims(table)
        for dataset, some in group_by(rows, "dataset").items():
            by_method = group_by(some, "method")
            body = [
                [
                    f"`{name}`",
                    _percent(each, "claimed"),
                    _percent(each, "label_accuracy"),
                    gaps[dataset, name].starred,
                    _percent(each, "calibration_error"),
                    _held(each),
                ]
                for name, each in by_method.items()
            ]
            parts += [f"## {TITLES[dataset]}", markdown(header, body)]
        return self.document(*parts)


def claimed_and_true(rows: list[Row]) -> Pair:
    """The share of right labels that fits claim, and the true one, fit by fit."""
    return column(rows, "claimed"), column(rows, "label_accuracy")


def _over_claims(table: pa.Table) -> dict[tuple[str, str], Difference]:
    """What methods claim minus what is true, by dataset and method, corrected for the methods of a dataset."""
    found: dict[tuple[str, str], Difference] = {}
    for dataset, rows in group_by(table.to_pylist(), "dataset").items():
        gaps = {name: paired_difference(claimed_and_true(some)) for name, some in group_by(rows, "method").items()}
        found |= {(dataset, name): gap for name, gap in corrected(gaps).items()}
    return found


def _percent(rows: list[Row], name: str) -> str:
    return f"{100 * np.mean(column(rows, name)):.1f}"


def _held(rows: list[Row]) -> str:
    held, of = (sum(column(rows, f"annotators_{name}")) for name in ("held", "annotators"))
    return f"{100 * held / of:.1f} ({_percent(rows, 'annotators_width')})"
