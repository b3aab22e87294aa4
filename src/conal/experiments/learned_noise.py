"""The noise that CoNAL learns on the real crowds: confusion matrices, and omega by class."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from conal.experiments.base import Experiment, register
from conal.experiments.comparisons import RULE, Difference, corrected, paired_difference
from conal.experiments.real_tables import PAPERS, PRESETS, TITLES
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, n_seeds, notes

__all__ = ["Confusions", "Omega", "cells_of", "omega_gaps"]

COMMON = "common"


def cells_of(kept: dict[str, Any], who: str, learned: Any, true: Any = None) -> list[Row]:
    """A row per cell of a matrix."""
    names = kept["classes"]
    return [
        {"who": who, "true": names[c], "observed": names[k], "learned": learned[c][k]}
        | ({} if true is None else {"truth": true[c][k]})
        for c in range(len(names))
        for k in range(len(names))
    ]


class _RealCrowds(Experiment):
    """CoNAL on the real crowds, with the paper's omega, at the last epoch.

    The epoch that predicts best is often an early one, when little has been learned about the annotators.
    """

    keep: ClassVar[str]

    def runs(self) -> list[Run]:
        """All seeds on either crowd."""
        return [self._run(dataset, seed) for dataset in TITLES for seed in self.seeds]

    def _run(self, dataset: str, seed: int) -> Run:
        parameters = PRESETS[dataset] | PAPERS["conal"] | ({"epochs": 30} if self.quick else {})
        return Run(dataset, "conal", seed, "last", parameters=parameters, keep=(self.keep,))

    def _kept(self, store: Store, dataset: str, seed: int) -> dict[str, Any]:
        return dict(store.require(self._run(dataset, seed))[self.keep])


@register("confusions")
class Confusions(_RealCrowds):
    """The learned confusion matrices, common and of five annotators, on LabelMe and Music."""

    title = "Learned confusion matrices"
    keep = "confusion"

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=1, images=images)  # matrices to look at: one fit of each crowd

    def table(self, store: Store) -> pa.Table:
        """Columns dataset, who, true, observed, learned."""
        rows = []
        for dataset in TITLES:
            kept = self._kept(store, dataset, 0)
            matrices = [(COMMON, kept["common"]), *zip(kept["annotators"], kept["individual"], strict=True)]
            rows += [{"dataset": dataset} | cell for who, matrix in matrices for cell in cells_of(kept, who, matrix)]
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """The most frequent mistakes of the common confusion."""
        parts = [
            "The largest mistakes of the common confusion after the last epoch of one fit, as P(observed | true). If "
            "omega hardly varies, the data do not identify the split between common and individual confusion; it then "
            "depends on the initial values."
        ]
        cells = group_by(table.to_pylist(), "dataset", "who")
        for dataset, title in TITLES.items():
            mistakes = [r for r in cells[dataset, COMMON] if r["true"] != r["observed"]]
            mistakes = sorted(mistakes, key=lambda r: -r["learned"])[:8]
            body = [[r["true"], r["observed"], f"{100 * r['learned']:.1f} %"] for r in mistakes]
            parts += [f"## {title}", markdown(["true", "observed", "probability"], body)]
        return self.document(*parts)

    def charts(self, table: pa.Table) -> dict[str, Any]:
        """The common matrix and five annotators', a chart per crowd."""
        from conal.report.charts import heat_maps

        cells = group_by(table.to_pylist(), "dataset")
        return {
            f"{self.name}-{dataset}": heat_maps(
                pa.Table.from_pylist(cells[dataset]), "learned", by="who", title=f"{title}: {self.title}"
            )
            for dataset, title in TITLES.items()
        }


@register("omega")
class Omega(_RealCrowds):
    """True classes of the instances with the highest and with the lowest mean omega."""

    title = "True classes by mean omega"
    keep = "omega"

    def table(self, store: Store) -> pa.Table:
        """Columns dataset, seed, class, top_half, bottom_half: shares of each half's instances."""
        rows = []
        for dataset, seed in itertools.product(TITLES, self.seeds):
            kept = self._kept(store, dataset, seed)
            shares = zip(kept["classes"], kept["top"], kept["bottom"], strict=True)
            at = {"dataset": dataset, "seed": seed}
            rows += [at | {"class": c, "top_half": t, "bottom_half": b} for c, t, b in shares]
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """Both halves beside each other."""
        text = notes(
            "After the last epoch, instances are ranked by their mean omega over the annotators who labelled them: "
            f"shares of the true classes among the top and the bottom half, in percent, means of {n_seeds(table)} "
            "seeds.",
            f"*Difference*: in points, over seeds. {RULE} Here, the family is the whole table. \\* marks differences "
            "that are not level.",
            "In the paper, forest and mountain are at the top and open country and inside city at the bottom of "
            "LabelMe, hiphop and reggae at the top and jazz and rock at the bottom of Music.",
        )
        parts, gaps = [text], omega_gaps(table)
        cells = group_by(table.to_pylist(), "dataset", "class")
        for dataset, title in TITLES.items():
            here = {name: gap for (at, name), gap in gaps.items() if at == dataset}
            body = [
                [name, *(_mean(cells[dataset, name], half) for half in ("top_half", "bottom_half")), here[name].starred]
                for name in sorted(here, key=lambda name: -here[name].value)
            ]
            parts += [f"## {title}", markdown(["class", "top half", "bottom half", "difference"], body)]
        return self.document(*parts)


def omega_gaps(table: pa.Table) -> dict[tuple[str, str], Difference]:
    """Shares of the classes in the top half less those in the bottom half, by dataset and class, all corrected."""
    cells = group_by(sorted(table.to_pylist(), key=lambda row: row["seed"]), "dataset", "class")
    return corrected(
        {
            place: paired_difference((column(rows, "top_half"), column(rows, "bottom_half")))
            for place, rows in cells.items()
        }
    )


def _mean(rows: list[Row], name: str) -> str:
    return f"{100 * np.mean(column(rows, name)):.1f}"
