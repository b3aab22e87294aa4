"""The noise that CoNAL learns: confusion matrices, how well they are recovered, and omega."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from conal.experiments.base import Experiment, register
from conal.experiments.real_tables import PRESETS, TITLES
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, group_by, markdown

__all__ = ["Confusions", "Omega", "Recovery"]

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
    """One CoNAL per real crowd, with the paper's settings, at the last epoch.

    The epoch that predicts best is often an early one, when little has been learned about the annotators.
    """

    keep: ClassVar[str]

    def runs(self) -> list[Run]:
        """The first seed on either crowd."""
        return [self._run(dataset) for dataset in TITLES]

    def _run(self, dataset: str) -> Run:
        parameters = PRESETS[dataset] | ({"epochs": 30} if self.quick else {})
        return Run(dataset, "conal", 0, "last", parameters=parameters, keep=(self.keep,))

    def _kept(self, store: Store, dataset: str) -> dict[str, Any]:
        return dict(store.require(self._run(dataset))[self.keep])


@register("confusions")
class Confusions(_RealCrowds):
    """The learned confusion matrices, common and of five annotators, on LabelMe and Music."""

    title = "Learned confusion matrices"
    keep = "confusion"

    def table(self, store: Store) -> pa.Table:
        """Columns dataset, who, true, observed, learned."""
        rows = []
        for dataset in TITLES:
            kept = self._kept(store, dataset)
            matrices = [(COMMON, kept["common"]), *zip(kept["annotators"], kept["individual"], strict=True)]
            rows += [{"dataset": dataset} | cell for who, matrix in matrices for cell in _cells(kept, who, matrix)]
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """The most frequent mistakes of the common confusion."""
        parts = [
            "The largest mistakes of the common confusion after the last epoch, as P(observed | true). If omega hardly "
            "varies, the data do not identify the split between common and individual confusion; it then depends on "
            "the initial values."
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
        """CoNAL at strength 0.7 and proportion 0.5, as in the paper's figure."""
        return [self._run(*point) for point in self.points()]

    def _run(self, dataset: str, kind: str) -> Run:
        data = {"common_strength": 0.7, "proportion": 0.5, "common_type": kind, "seed": 0}
        if dataset == "cifar10":
            data |= {"inputs": "features"}
        if self.quick:
            data |= {"n_train": 1000, "n_valid": 300, "n_test": 300}
        parameters = {"epochs": 20 if self.quick else 50}
        return Run(dataset, "conal", 0, "last", data, parameters, keep=("confusion",))

    def table(self, store: Store) -> pa.Table:
        """Columns dataset, common_type, who, true, observed, learned, truth."""
        rows = []
        for dataset, kind in self.points():
            kept = store.require(self._run(dataset, kind))["confusion"]
            matrices = [(COMMON, kept["common"], kept["true_common"])]
            matrices += zip(kept["annotators"], kept["individual"], kept["true_individual"], strict=True)
            rows += [
                {"dataset": dataset, "common_type": kind} | cell
                for who, learned, true in matrices
                for cell in _cells(kept, who, learned, true)
            ]
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """Mean absolute error per entry of the common matrix and of the annotators' own."""
        cells = group_by(table.to_pylist(), "dataset", "common_type")
        body = []
        for dataset, kind in self.points():
            errors = [
                np.mean(
                    [abs(r["learned"] - r["truth"]) for r in cells[dataset, kind] if (r["who"] == COMMON) == common]
                )
                for common in (True, False)
            ]
            body.append([dataset, kind, *(f"{error:.4f}" for error in errors)])
        header = ["dataset", "common noise", "error of the common matrix", "error of five annotators'"]
        text = (
            "Mean absolute error per entry, at common strength 0.7, proportion 0.5 and individual strength 0.3; one "
            "crowd each, after the last epoch. The five annotators are those with most labels."
        )
        return self.document(text, markdown(header, body))

    def charts(self, table: pa.Table) -> dict[str, Any]:
        """The common matrix and those of three annotators, as in the paper's figure, true beside learned."""
        from conal.report.charts import heat_maps

        charts = {}
        cells = group_by(table.to_pylist(), "dataset", "common_type")
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
                pa.Table.from_pylist(both), "probability", by="which", title=title
            )
        return charts


@register("omega")
class Omega(_RealCrowds):
    """True classes of the instances with the highest and with the lowest mean omega."""

    title = "True classes by mean omega"
    keep = "omega"

    def table(self, store: Store) -> pa.Table:
        """Columns dataset, class, top_half, bottom_half: shares of each half's instances."""
        rows = []
        for dataset in TITLES:
            kept = self._kept(store, dataset)
            shares = zip(kept["classes"], kept["top"], kept["bottom"], strict=True)
            rows += [{"dataset": dataset, "class": c, "top_half": t, "bottom_half": b} for c, t, b in shares]
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """Both halves beside each other."""
        text = (
            "After the last epoch, instances are ranked by their mean omega over the annotators who labelled them; "
            "shares of the true classes among the top and the bottom half, in percent. In the paper, forest and "
            "mountain are at the top, open country and inside city at the bottom (LabelMe)."
        )
        parts, groups = [text], group_by(table.to_pylist(), "dataset")
        for dataset, title in TITLES.items():
            rows = sorted(groups[dataset], key=lambda r: r["bottom_half"] - r["top_half"])
            body = [[r["class"], f"{100 * r['top_half']:.1f}", f"{100 * r['bottom_half']:.1f}"] for r in rows]
            parts += [f"## {title}", markdown(["class", "top half", "bottom half"], body)]
        return self.document(*parts)
