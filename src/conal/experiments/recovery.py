"""Recovery: true against learned confusion matrices, on simulated crowds."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from conal.experiments.base import Experiment, register
from conal.experiments.learned_noise import COMMON, cells_of
from conal.experiments.real_tables import PAPERS
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.sweeps import PAPERS_GATE
from conal.experiments.tables import column, group_by, markdown, n_seeds, notes

__all__ = ["Recovered", "Recovery", "recovery_by_crowd"]

N_DRAWN = 3
"""Annotators in the charts."""


@register("recovery")
class Recovery(Experiment):
    """True against learned confusion matrices on simulated crowds, both kinds of common noise."""

    title = "Recovery of the confusion matrices"

    def points(self) -> list[tuple[str, str]]:
        """Dataset and kind of common noise."""
        datasets = ("synthetic",) if self.quick else ("synthetic", "cifar10")
        return [(dataset, kind) for dataset in datasets for kind in ("asymmetric", "symmetric")]

    def runs(self) -> list[Run]:
        """CoNAL at strength 0.7 and proportion 0.5, as in the paper's figure, on one crowd per seed."""
        return [self._run(*point, seed) for point in self.points() for seed in self.seeds]

    def _run(self, dataset: str, kind: str, seed: int) -> Run:
        data: dict[str, Any] = {"common_strength": 0.7, "proportion": 0.5, "common_type": kind}
        data |= {"gate": PAPERS_GATE, "seed": seed}
        if dataset == "cifar10":
            data |= {"inputs": "features", "n_train": 10_000, "n_valid": 1000}
        if self.quick:
            data |= {"n_train": 1000, "n_valid": 300, "n_test": 300}
        parameters = {"epochs": 20} if self.quick else {}
        return Run(dataset, "conal", seed, "last", data, PAPERS["conal"] | parameters, keep=("confusion",))

    def table(self, store: Store) -> pa.Table:
        """Columns dataset, common_type, seed, who, true, observed, learned, truth."""
        rows = []
        for (dataset, kind), seed in itertools.product(self.points(), self.seeds):
            kept = store.require(self._run(dataset, kind, seed))["confusion"]
            matrices = [(COMMON, kept["common"], kept["true_common"])]
            matrices += zip(kept["annotators"], kept["individual"], kept["true_individual"], strict=True)
            rows += [
                {"dataset": dataset, "common_type": kind, "seed": seed} | cell
                for who, learned, true in matrices
                for cell in cells_of(kept, who, learned, true)
            ]
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """Errors per entry and how many main mistakes are found, of the common matrix and of the annotators' own."""
        found = recovery_by_crowd(table)
        body = []
        for place in self.points():
            crowds = {who: [found[key] for key in found if key[:2] == place and key[3] == who] for who in (True, False)}
            errors = [f"{np.mean([crowd.error for crowd in crowds[who]]):.4f}" for who in crowds]
            hits = [f"{100 * np.mean([crowd.found for crowd in crowds[who]]):.0f} %" for who in crowds]
            body.append([*place, *errors, *hits])
        header = ["dataset", "common noise"]
        header += [f"{what}, {who}" for what in ("error", "main mistakes found") for who in ("common", "annotators'")]
        text = notes(
            f"Common strength 0.7, proportion 0.5, individual strength 0.3, the gate of Equation 3; {n_seeds(table)} "
            "crowds each, after the last epoch. The annotators are the five with most labels of each crowd.",
            "*Error*: mean absolute error per entry. *Main mistakes found*: share of the rows of a matrix whose most "
            "frequent mistake is the true one.",
            "Charts are of the first crowds.",
        )
        return self.document(text, markdown(header, body))

    def charts(self, table: pa.Table) -> dict[str, Any]:
        """The common matrix and those of three annotators, as in the paper's figure, true beside learned."""
        from conal.report.charts import heat_maps

        charts = {}
        cells = group_by([row for row in table.to_pylist() if row["seed"] == 0], "dataset", "common_type")
        for dataset, kind in self.points():
            matrices = group_by(cells[dataset, kind], "who")
            both = [
                {"which": f"{who}, {which}", "true": r["true"], "observed": r["observed"], "probability": r[which]}
                for who in [COMMON, *(who for who in matrices if who != COMMON)][: 1 + N_DRAWN]
                for which in ("truth", "learned")
                for r in matrices[who]
            ]
            title = f"True and learned confusion, {dataset}, {kind}"
            charts[f"{self.name}-{dataset}-{kind}"] = heat_maps(
                pa.Table.from_pylist(both), "probability", by="which", title=title, columns=4
            )
        return charts


class Recovered(NamedTuple):
    """How well matrices of a crowd were recovered: mean error per entry, and share of the main mistakes found."""

    error: float
    found: float


def recovery_by_crowd(table: pa.Table) -> dict[tuple[str, str, int, bool], Recovered]:
    """By dataset, kind of noise, crowd, and whether it is the common matrix or annotators' own."""
    found = {}
    rows = [row | {"common": row["who"] == COMMON} for row in table.to_pylist()]
    for key, some in group_by(rows, "dataset", "common_type", "seed", "common").items():
        hits = []
        for cells in group_by(some, "who", "true").values():
            mistakes = [row for row in cells if row["true"] != row["observed"]]
            most = max(column(mistakes, "truth"))
            if most > 0:
                hits.append(max(mistakes, key=lambda row: row["learned"])["truth"] == most)
        error = float(np.mean([abs(row["learned"] - row["truth"]) for row in some]))
        found[key] = Recovered(error, float(np.mean(hits)) if hits else 1.0)  # without mistakes, all are found
    return found
