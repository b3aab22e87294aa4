"""Coverage of the report's intervals on simulated crowds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from conal.experiments.base import Experiment, register
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, n_seeds, notes, standard_error
from conal.findings.intervals import CONFIDENCE

__all__ = ["CROWDS", "METHODS", "Coverage", "coverage_table"]

CROWDS: dict[str, dict[str, Any]] = {
    "2,000 tasks, 30 annotators": {"n_train": 2000},
    "500 tasks, 30 annotators": {"n_train": 500},
    "1,000 tasks, 200 annotators": {"n_train": 1000, "n_annotators": 200},
    "symmetric common confusion": {"n_train": 2000, "common_type": "symmetric"},
    "poor annotators": {"n_train": 2000, "individual_strength": 0.6},
    "weak features": {"n_train": 2000, "separation": 0.5},
    "features that say little": {"n_train": 2000, "separation": 0.2},
}
"""What differs from the generator's defaults: three labels per task, six classes."""
METHODS = ("xconal", "conal", "dl-ds")
KINDS = {"annotators": "quality of annotators", "pairs": "confused pairs"}


@register("coverage")
class Coverage(Experiment):
    """Share of intervals that contain the truth, for annotators' quality and for the confused pairs of a report."""

    title = "Coverage of the report's intervals"

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=seeds or (2 if quick else 10), images=images)

    def points(self) -> list[tuple[str, str, int]]:
        """Crowd, method and seed; every seed draws another crowd."""
        crowds, methods = (list(CROWDS)[:2], METHODS[:1]) if self.quick else (list(CROWDS), METHODS)
        return [(crowd, method, seed) for crowd in crowds for method in methods for seed in self.seeds]

    def runs(self) -> list[Run]:
        """A fit of every method to every crowd."""
        return [self._run(*point) for point in self.points()]

    def _run(self, crowd: str, method: str, seed: int) -> Run:
        data = CROWDS[crowd] | {"n_valid": 0, "n_test": 500, "seed": seed}
        parameters = {"epochs": 40} if self.quick else {}
        return Run("synthetic", method, seed, "own", data=data, parameters=parameters, keep=("coverage",))

    def table(self, store: Store) -> pa.Table:
        """One row per fit: number of intervals, how many contain the truth, and their mean width."""
        rows = []
        for crowd, method, seed in self.points():
            figures = store.require(self._run(crowd, method, seed))
            label = {"row": crowd, "method": method, "seed": seed, "label_accuracy": figures["label_accuracy"]}
            rows.append(label | figures["coverage"])
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """Coverage in percent, over all seeds."""
        text = notes(
            f"Share of {100 * CONFIDENCE:.0f} % intervals that contain the truth, in percent, with their mean width in "
            f"points, on simulated crowds of known truth; {n_seeds(table)} crowds each. ± is the standard error over "
            "crowds.",
            "The truth of an annotator is the mean probability of a correct label on the tasks of the annotator; that "
            "of a pair, the mean probability of that mistake over the labels of the true class.",
            "Intervals rely on the classifier's probabilities and are only as good as these: an overconfident network "
            "passes its mistakes on to them.",
        )
        header = ["crowd", "method", "label accuracy", *(f"{kind}: coverage (width)" for kind in KINDS.values())]
        body = []
        for (crowd, method), rows in group_by(table.to_pylist(), "row", "method").items():
            right = f"{100 * np.mean(column(rows, 'label_accuracy')):.1f}"
            body.append([crowd, f"`{method}`", right, *(_held(rows, kind) for kind in KINDS)])
        return self.document(text, markdown(header, body))


def coverage_table(table: pa.Table, method: str) -> str:
    """The coverage of one method's intervals, without their widths, for the guide to the report."""
    header = [f"crowd ({n_seeds(table)} of each)", *KINDS.values()]
    crowds = group_by([row for row in table.to_pylist() if row["method"] == method], "row")
    return markdown(header, [[crowd, *(_share(rows, kind) for kind in KINDS)] for crowd, rows in crowds.items()])


def _held(rows: list[Row], kind: str) -> str:
    return f"{_share(rows, kind)} ({100 * np.mean(column(rows, f'{kind}_width')):.0f})"


def _share(rows: list[Row], kind: str) -> str:
    held, of = (np.array(column(rows, name)) for name in (f"{kind}_held", kind))
    error = standard_error(100 * held / of)
    return f"{100 * held.sum() / of.sum():.1f}" + ("" if error is None else f" ± {error:.1f}")
