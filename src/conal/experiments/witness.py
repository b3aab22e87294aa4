"""The second witness of xconal: what it is worth on test data and for cleaned labels, and what it costs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from conal.datasets.label_sets import JUDGES
from conal.experiments.base import Experiment, register
from conal.experiments.comparisons import RULE, Difference, corrected, paired_difference
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, mean_and_spread, n_seeds

__all__ = ["SecondWitness"]

ALONE, BOTH, BALANCED = "networks alone", "with the second witness", "with it, balanced prior stated"
WAYS: dict[str, dict[str, Any]] = {ALONE: {"witness": "none"}, BOTH: {}, BALANCED: {"class_prior": "balanced"}}
MEASURES = {"test_accuracy": "Test accuracy", "label_accuracy": "Cleaned labels"}


class Crowd(NamedTuple):
    """A dataset and its settings; each seed draws another one of those that are simulated."""

    dataset: str
    settings: dict[str, Any]
    is_drawn: bool = True


def _synthetic(**settings: Any) -> Crowd:
    return Crowd("synthetic", {"n_train": 2000, "n_valid": 0, **settings})


CROWDS = {
    "LabelMe": Crowd("labelme", {}, is_drawn=False),
    "Music": Crowd("music", {}, is_drawn=False),
    "digits": Crowd("digits", {}),
    "CIFAR-10 features": Crowd("cifar10", {"inputs": "features", "n_train": 4000, "n_valid": 0}),
    "synthetic, common strength 0.4": _synthetic(common_strength=0.4),
    "synthetic, common strength 0.8": _synthetic(common_strength=0.8),
    "synthetic, symmetric, common strength 0.4": _synthetic(common_type="symmetric", common_strength=0.4),
    "synthetic, individual strength 0.7": _synthetic(common_strength=0.4, individual_strength=0.7),
    "synthetic, no common noise": _synthetic(proportion=0.0),
} | {f"jury: {name}": Crowd(name, {}, is_drawn=False) for name in JUDGES}
QUICK = ("LabelMe", "digits", f"jury: {JUDGES[0]}")
PRIOR_KNOWN = ("LabelMe",)
"""Crowds whose classes are equally frequent, so that the balanced prior is a fact."""


@register("witness")
class SecondWitness(Experiment):
    """`xconal` with and without its Gaussian witness, without any true label, on people, simulations and juries."""

    title = "The second witness"

    def points(self) -> list[tuple[str, str, int]]:
        """Crowd, way and seed."""
        return [
            (crowd, way, seed)
            for crowd in (QUICK if self.quick else CROWDS)
            for way in WAYS
            if way != BALANCED or crowd in PRIOR_KNOWN
            for seed in self.seeds
        ]

    def runs(self) -> list[Run]:
        """Both ways on every crowd."""
        return [self._run(*point) for point in self.points()]

    def _run(self, crowd: str, way: str, seed: int) -> Run:
        dataset, settings, is_drawn = CROWDS[crowd]
        data = settings | ({"seed": seed} if is_drawn else {})
        parameters = {"epochs": 20 if self.quick else "auto"} | WAYS[way]
        return Run(dataset, "xconal", seed, "own", data, parameters, gold={"n": 0, "design": "random"})

    def table(self, store: Store) -> pa.Table:
        """One row per run."""
        rows = []
        for crowd, way, seed in self.points():
            found = store.require(self._run(crowd, way, seed))
            kept = {name: found[name] for name in (*MEASURES, "claimed", "seconds")}
            rows.append({"row": crowd, "method": way, "seed": seed} | kept)
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """Accuracy both ways, the paired difference, and the time."""
        rows = table.to_pylist()
        text = (
            "The second witness is a Gaussian classifier of the features (linear discriminant analysis), which "
            f"`xconal` mixes with its networks. `xconal` with its defaults and no true label, {n_seeds(table)} seeds: "
            "accuracy in percent, mean ± sample standard deviation. The difference is in points; for *all juries*, of "
            f"the mean over the juries. {RULE} \\* marks single crowds that are not level. Each seed draws another "
            "simulated crowd. Juries have no test data. *Time* is CPU time with the witness as a multiple of that "
            "without."
        )
        parts = [text]
        for measure, title in MEASURES.items():
            measured = [row for row in rows if row[measure] is not None]
            parts += [f"## {title}", _comparison(measured, measure)]
        return self.document(*parts)


def _comparison(rows: list[Row], measure: str) -> str:
    cells = group_by(rows, "row", "method")
    crowds = list(group_by(rows, "row"))
    gaps = corrected(
        {crowd: paired_difference(_pair(cells[crowd, BOTH], cells[crowd, ALONE], measure)) for crowd in crowds}
    )
    body = [
        _line(crowd, {way: cells[crowd, way] for way in WAYS if (crowd, way) in cells}, measure, gaps[crowd])
        for crowd in crowds
    ]
    juries = [crowd for crowd in crowds if crowd.startswith("jury: ")]
    if juries:
        pairs = [_pair(cells[crowd, BOTH], cells[crowd, ALONE], measure) for crowd in juries]
        means = [[float(np.mean(seeds)) for seeds in zip(*(pair[k] for pair in pairs), strict=True)] for k in (1, 0)]
        body.append(["all juries", *map(mean_and_spread, means), str(paired_difference(*pairs)), "", ""])
    return markdown([" ", ALONE, BOTH, "difference", BALANCED, "time"], body)


def _line(crowd: str, ways: dict[str, list[Row]], measure: str, gap: Difference) -> list[str]:
    shown = {way: mean_and_spread(column(rows, measure)) for way, rows in ways.items()}
    cost = np.mean(column(ways[BOTH], "seconds")) / np.mean(column(ways[ALONE], "seconds"))
    return [crowd, shown[ALONE], shown[BOTH], gap.starred, shown.get(BALANCED, ""), f"{cost:.2f}"]


def _pair(ours: list[Row], theirs: list[Row], measure: str) -> tuple[list[float], list[float]]:
    return column(ours, measure), column(theirs, measure)
