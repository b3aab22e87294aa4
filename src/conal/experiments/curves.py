"""Training and test accuracy after every epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.experiments.base import Experiment, register
from conal.experiments.real_tables import PRESETS, TITLES
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.tables import column, group_by, markdown, n_seeds

__all__ = ["Curves"]

FloatArray = npt.NDArray[np.float64]

PARTS = ("training", "test")
METHODS = ("dl-mv", "dl-cl", "anno-reg", "max-mig", "aggnet", "conal")


@register("curves")
class Curves(Experiment):
    """Accuracy on training and test data after every epoch: how much the choice of an epoch matters."""

    title = "Accuracy during training"

    def runs(self) -> list[Run]:
        """Every method; the last epoch is kept."""
        return [self._run(dataset, method, seed) for dataset in TITLES for method in METHODS for seed in self.seeds]

    def _run(self, dataset: str, method: str, seed: int) -> Run:
        parameters = PRESETS[dataset] | ({"epochs": 20} if self.quick else {})
        return Run(dataset, method, seed, "last", parameters=parameters, keep=("history",))

    def table(self, store: Store) -> pa.Table:
        """Columns dataset, method, seed, epoch, training_accuracy, test_accuracy."""
        rows: list[dict[str, Any]] = []
        for run in self.runs():
            history = store.require(run)["history"]
            rows += [{"dataset": run.dataset, "method": run.method, "seed": run.seed} | row for row in history]
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """The last epoch's test accuracy against the best of all epochs."""
        text = (
            f"Mean test accuracy over {n_seeds(table)} seeds, in percent: at the last epoch, at the epoch that is best "
            "in the mean, and at the best epoch of every seed. The last two are chosen by test labels, which nobody "
            "has: they bound what the choice of an epoch can give. Training accuracy is measured against the true "
            "labels, which no method sees."
        )
        parts, means, best = [text], _means(table), _best_of_every_seed(table)
        for dataset, title in TITLES.items():
            body = []
            for method in METHODS:
                training, test = (means[dataset, method, part] for part in PARTS)
                shown = training[-1], test[-1], test.max(), best[dataset, method]
                body.append([f"`{method}`", *(f"{100 * v:.1f}" for v in shown)])
            header = ["method", "training, last epoch", "test, last epoch"]
            header += ["test, best epoch for all seeds", "test, best epoch of every seed"]
            parts += [f"## {title}", markdown(header, body)]
        return self.document(*parts)

    def charts(self, table: pa.Table) -> dict[str, Any]:
        """A chart per crowd, training and test side by side."""
        from conal.report.charts import lines

        charts, means = {}, _means(table)
        for dataset, title in TITLES.items():
            rows = [
                {"which": part, "series": method, "epoch": k + 1, "mean": float(100 * mean), "spread": 0.0}
                for part in PARTS
                for method in METHODS
                for k, mean in enumerate(means[dataset, method, part])
            ]
            charts[f"{self.name}-{dataset}"] = lines(
                pa.Table.from_pylist(rows),
                x="epoch",
                x_title="epoch",
                y_title="accuracy (%)",
                by="which",
                title=f"{title}: {self.title}",
            )
        return charts


def _best_of_every_seed(table: pa.Table) -> dict[tuple[str, str], float]:
    """Dataset and method to the mean over seeds of the best test accuracy of all epochs."""
    return {
        key: float(np.mean([max(column(some, "test_accuracy")) for some in group_by(rows, "seed").values()]))
        for key, rows in group_by(table.to_pylist(), "dataset", "method").items()
    }


def _means(table: pa.Table) -> dict[tuple[str, str, str], FloatArray]:
    """Dataset, method and part to (epochs,) accuracies, means over seeds."""
    means = {}
    for (dataset, method), rows in group_by(table.to_pylist(), "dataset", "method").items():
        epochs = group_by(rows, "epoch")
        for part in PARTS:
            values = [np.mean(column(epochs[epoch], f"{part}_accuracy")) for epoch in sorted(epochs)]
            means[dataset, method, part] = np.array(values)
    return means
