"""The noise that CoNAL learns: confusion matrices, how well they are recovered, and omega."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from conal.experiments.base import Experiment, register
from conal.experiments.comparisons import RULE, Difference, corrected, paired_difference
from conal.experiments.real_tables import PAPERS, PRESETS, TITLES
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.sweeps import PAPERS_GATE
from conal.experiments.tables import Row, column, group_by, markdown, n_seeds, notes

__all__ = ["Confusions", "Omega", "Recovery", "omega_gaps", "recovery_by_crowd"]

COMMON = "common"
N_DRAWN = 3
"""Annotators in the charts of recovery."""


def _cells(kept: dict[str, Any], who: str, learned: Any, true: Any = None) -> list[Row]:
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
            rows += [{"dataset": dataset} | cell for who, matrix in matrices for cell in _cells(kept, who, matrix)]
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
                for cell in _cells(kept, who, learned, true)
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
            f"*Difference*: in points, over seeds. {RULE} \\* marks differences that are not level.",
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
