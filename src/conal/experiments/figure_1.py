"""Figure 1: how many annotators make each mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal import datasets
from conal.datasets import CrowdDataset
from conal.experiments.base import Experiment, register
from conal.experiments.store import Store
from conal.experiments.tables import markdown

__all__ = ["Figure1", "confusion_shares"]

PAPER = {
    ("labelme", "street", "insidecity"): 0.610,
    ("labelme", "opencountry", "forest"): 0.441,
    ("music", "metal", "rock"): 0.636,
    ("music", "disco", "pop"): 0.386,
}
"""The shares in the paper's introduction."""


def confusion_shares(data: CrowdDataset) -> npt.NDArray[np.float64]:
    r"""(C, C) share of the annotators who labelled an instance of class c as l at least once.

    .. math:: \tfrac1R \sum_r [\exists i : z_i = c, y_i^r = l]

    >>> crowd = datasets.digits()
    >>> confusion_shares(crowd).shape
    (10, 10)
    """
    crowd = data.annotations
    seen = np.zeros((crowd.n_annotators, crowd.n_classes, crowd.n_classes), dtype=bool)
    seen[crowd.annotators, data.y_true[crowd.tasks], crowd.labels] = True
    return np.asarray(seen.mean(0))


@register("figure-1")
class Figure1(Experiment):
    """Share of annotators with each confusion pair, on LabelMe and Music: mistakes that many people make are common."""

    title = "Mistakes that annotators share"
    reducible = False

    def table(self, store: Store) -> pa.Table:
        """Columns dataset, true, observed, share; mistakes only."""
        rows: list[dict[str, Any]] = []
        for name in ("labelme", "music"):
            data = datasets.load(name)
            shares = confusion_shares(data)
            classes = [str(label) for label in data.classes.tolist()]
            pairs = [(c, k) for c in range(len(classes)) for k in range(len(classes)) if c != k]
            rows += [
                {"dataset": name, "true": classes[c], "observed": classes[k], "share": float(shares[c, k])}
                for c, k in pairs
            ]
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """The ten most common mistakes of each dataset, and the paper's."""
        rows = sorted(table.to_pylist(), key=lambda row: (row["dataset"], -row["share"]))
        parts = ["Share of a dataset's annotators who made a mistake at least once, in percent."]
        for name, title in (("labelme", "LabelMe"), ("music", "Music")):
            of_set = [row for row in rows if row["dataset"] == name]
            named = [row for row in of_set if (name, row["true"], row["observed"]) in PAPER]
            shown = [*of_set[:10], *(row for row in named if row not in of_set[:10])]
            parts += [f"## {title}", markdown(["true", "observed", "share", "paper"], [_cells(row) for row in shown])]
        return self.document(*parts)

    def charts(self, table: pa.Table) -> dict[str, Any]:
        """A heat map per dataset, the shares written into the cells."""
        from conal.report.charts import heat_maps

        return {self.name: heat_maps(table, "share", by="dataset", title=self.title)}


def _cells(row: dict[str, Any]) -> list[str]:
    paper = PAPER.get((row["dataset"], row["true"], row["observed"]))
    return [row["true"], row["observed"], f"{100 * row['share']:.1f}", "-" if paper is None else f"{100 * paper:.1f}"]
