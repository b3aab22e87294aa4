"""Rates by 50 true labels: do their intervals hold the truth, and how wide are they?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from conal.experiments.base import Experiment, register
from conal.experiments.gold_measurements import KINDS, N_REPLAYED, REPLAYS
from conal.experiments.little_gold import BASE, PLANNED, RATES, TITLES, USES, gold_run
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, n_seeds, notes

__all__ = ["GoldRatesCoverage"]

REPLAYED, WHOLE = "stored predictions", "whole pipeline"
NAMES = {
    "classes": "share of a class",
    "cleaned": "cleaned labels that are right",
    "crowd": "labels of the crowd that are right",
    "annotators": "right labels of an annotator",
}
DESIGNS = {"random": BASE, "planned": PLANNED}
PLANNED_SEEDS = 5
"""Whole fits with planned tasks per crowd: those that ``little-gold`` makes. The replays show more of them."""


@register("gold-rates")
class GoldRatesCoverage(Experiment):
    """Coverage and width of the intervals of rates that 50 true labels give, random and planned."""

    title = "Rates by 50 true labels"

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=seeds or (2 if quick else 20), images=images)

    def crowds(self) -> tuple[str, ...]:
        """Two crowds of people and two juries, or one of each if quick."""
        return RATES[::2] if self.quick else RATES

    def runs(self) -> list[Run]:
        """One fit without true labels per crowd, for the replays; and one with them per crowd, design and seed."""
        whole = [
            self._run(crowd, design, seed)
            for crowd in self.crowds()
            for design in DESIGNS
            for seed in self._seeds_of(design)
        ]
        return [self._replayed(crowd) for crowd in self.crowds()] + whole

    def _seeds_of(self, design: str) -> range:
        return self.seeds if design == "random" else self.seeds[:PLANNED_SEEDS]

    def _parameters(self) -> dict[str, Any]:
        return {"epochs": 20 if self.quick else "auto"}

    def _replayed(self, crowd: str) -> Run:
        run = gold_run(crowd, USES[BASE], 0, 0, self._parameters(), {})
        return replace(run, keep=("replayed_rates",))

    def _run(self, crowd: str, design: str, seed: int) -> Run:
        return gold_run(crowd, USES[DESIGNS[design]], N_REPLAYED, seed, self._parameters(), {})

    def table(self, store: Store) -> pa.Table:
        """One row per crowd, design, kind of rate and way to replay: numbers, and sums of widths."""
        return pa.Table.from_pylist(list(self._rows(store)))

    def _rows(self, store: Store) -> Iterator[Row]:
        for crowd in self.crowds():
            replayed = store.require(self._replayed(crowd))["replayed_rates"]
            for design in DESIGNS:
                at = {"dataset": crowd, "design": design}
                yield from (at | {"way": REPLAYED, "kind": kind, "seed": 0} | replayed[design][kind] for kind in KINDS)
                for seed in self._seeds_of(design):
                    found = store.require(self._run(crowd, design, seed))["pipeline_rates"]
                    yield from (at | {"way": WHOLE, "kind": kind, "seed": seed} | found[kind] for kind in KINDS)

    def page(self, table: pa.Table) -> str:
        """Coverage in percent, by kind of rate and by crowd, and the widths."""
        rows = [row for row in table.to_pylist() if row["n"]]
        text = notes(
            f"Share of 95 % intervals of rates by {N_REPLAYED} true labels (`conal.metrics.gold_rates`) that hold the "
            "truth, in percent, and their mean width in points, with that of the intervals by the same true labels "
            "alone. Rates of one draw are not independent.",
            f"*{REPLAYED.capitalize()}*: {REPLAYS} draws of the tasks, for the predictions of one `xconal` that knows "
            "no true label.",
            f"*{WHOLE.capitalize()}*: `xconal` is trained with the true labels, {n_seeds(table)} times per crowd "
            f"({min(PLANNED_SEEDS, n_seeds(table))} times with planned tasks), each with another draw and seed. Each "
            "of these tasks is judged by predictions that do not know its true label, as in the report.",
            "*Planned*: as `conal plan --experts` draws them, weighted by the inclusion probabilities; *alone* then "
            "are the weighted labels.",
            "Annotators are those with five labels or more on these tasks. In brackets: the number of intervals.",
        )
        parts = [text]
        for (way, design), some in group_by(rows, "way", "design").items():
            crowds = list(group_by(some, "dataset"))
            cells = group_by(some, "kind", "dataset")
            body = [
                [NAMES[kind], *(_held(cells.get((kind, crowd), [])) for crowd in crowds), *_summary(each)]
                for kind, each in group_by(some, "kind").items()
            ]
            whole = [_held(found) for found in group_by(some, "dataset").values()]
            body.append(["all", *whole, *_summary(some)])
            header = [" ", *(TITLES[crowd] for crowd in crowds), "all crowds", "width", "width, labels alone"]
            parts += [f"## {way.capitalize()}, {design} tasks", markdown(header, body)]
        return self.document(*parts)


def _held(rows: list[Row]) -> str:
    if not rows:
        return "\u2013"
    held, of = (sum(column(rows, name)) for name in ("held", "n"))
    return f"{100 * held / of:.1f} ({of:,.0f})"


def _summary(rows: list[Row]) -> list[str]:
    total = sum(column(rows, "n"))
    return [_held(rows), *(f"{100 * sum(column(rows, name)) / total:.1f}" for name in ("width", "alone"))]
