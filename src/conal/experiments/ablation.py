"""Ablation of cross-fitted CoNAL on validation data; no test set is used."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa

from conal.experiments.base import Experiment, register
from conal.experiments.comparisons import RULE, corrected, paired_difference
from conal.experiments.gold_free import RECIPE_PARAMETERS
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, mean_and_spread, n_seeds, notes

__all__ = ["Ablation"]

BASE = "xconal"
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    BASE: ("xconal", {}),
    "no cross-fitting, averaging of weights or witness (`conal-em`)": (
        "conal-em",
        {"selection": "last", "lr": 0.005, "scaling": "robust", "input_dropout": 0.3},
    ),
    "no second witness": ("xconal", {"witness": "none"}),
    "networks not calibrated": ("xconal", {"calibrate": False}),
    "pooled matrices from the start": ("xconal", {"confusion": "pooled"}),
    "two sources to the end": ("xconal", {"confusion": "mixture"}),
    "votes count in full": ("xconal", {"vote_weight": 1.0}),
    "votes count half": ("xconal", {"vote_weight": 0.5}),
    "10 folds": ("xconal", {"folds": 10}),
    "3 folds": ("xconal", {"folds": 3}),
    "no averaging of weights": ("xconal", {"averaging": 0.0}),
    "cosine schedule": ("xconal", {"schedule": "cosine"}),
    "learning rate 0.01": ("xconal", {"lr": 0.01}),
    "features scaled as for other methods": ("xconal", {"scaling": "auto"}),
    "no input dropout": ("xconal", {"input_dropout": 0.0}),
    "input dropout 0.5": ("xconal", {"input_dropout": 0.5}),
    "four times the hidden units": ("xconal", {"hidden": [512]}),
    "batch normalisation": ("xconal", {"batch_norm": True}),
    "plain form": ("xconal", RECIPE_PARAMETERS),
    "balanced prior stated": ("xconal", {"class_prior": "balanced"}),
    "plain form, balanced prior stated": ("xconal", {**RECIPE_PARAMETERS, "class_prior": "balanced"}),
}
TITLES = {
    "labelme": "LabelMe, 500 validation images",
    "music": "Music, 140 training songs held out",
    "cifar10": "CIFAR-10 features, simulated crowd",
    "synthetic": "synthetic, common strength 0.6",
    "hard": "synthetic, symmetric, common strength 0.8",
    "blind": "synthetic, features that say nothing: cleaned labels",
}


@register("ablation")
class Ablation(Experiment):
    """Change one part at a time; accuracy on validation data at the last epoch."""

    title = "What the parts of xconal are worth"

    def datasets(self) -> list[str]:
        """All, or two if quick."""
        return ["labelme", "synthetic"] if self.quick else list(TITLES)

    def runs(self) -> list[Run]:
        """Every variant on every dataset."""
        return [self._run(*point) for point in self._points()]

    def table(self, store: Store) -> pa.Table:
        """One row per run."""
        lines = []
        for row, dataset, seed in self._points():
            found = store.require(self._run(row, dataset, seed))
            accuracy = found["label_accuracy" if dataset == "blind" else "validation"]
            lines.append(
                {"row": row, "dataset": dataset, "seed": seed, "accuracy": accuracy, "seconds": found["seconds"]}
            )
        return pa.Table.from_pylist(lines)

    def page(self, table: pa.Table) -> str:
        """Accuracy, and the difference from the default over the same seeds, with its interval."""
        lines = table.to_pylist()
        datasets = list(group_by(lines, "dataset"))
        header = [" ", *(TITLES[dataset] for dataset in datasets), "time"]
        cells = group_by(lines, "row", "dataset")
        gaps = _gaps(cells)
        seconds = {row: np.mean(column(found, "seconds")) for row, found in group_by(lines, "row").items()}
        body = [
            [
                row,
                *(
                    mean_and_spread(column(cells[row, dataset], "accuracy")) + gaps[row, dataset]
                    for dataset in datasets
                ),
                f"{seconds[row] / seconds[BASE]:.1f}",
            ]
            for row in seconds
        ]
        text = notes(
            "Accuracy on validation data in percent (in the last column, of the cleaned training labels), mean ± "
            f"sample standard deviation over {n_seeds(table)} seeds. On Music and simulated crowds each seed is "
            "another split or crowd. The defaults were chosen on data like these, never on test labels, so the first "
            "row is slightly optimistic.",
            f"In brackets: the difference from the first row in points, starred unless it is level. {RULE} Here, "
            "the family is the whole table.",
            "Time is CPU time relative to the first row.",
        )
        return self.document(text, markdown(header, body))

    def _points(self) -> list[tuple[str, str, int]]:
        return list(itertools.product(VARIANTS, self.datasets(), self.seeds))

    def _run(self, row: str, dataset: str, seed: int) -> Run:
        method, parameters = VARIANTS[row]
        simulated = {"n_train": 500 if self.quick else 2000, "n_valid": 2000, "seed": seed}
        settings: dict[str, dict[str, Any]] = {
            "labelme": {},
            "music": {"n_valid": 140, "seed": seed},
            "cifar10": {
                "inputs": "features",
                "n_train": 1000 if self.quick else 3000,
                "n_valid": 3000,
                "common_strength": 0.6,
                "seed": seed,
            },
            "synthetic": {**simulated, "common_strength": 0.6},
            "hard": {**simulated, "common_type": "symmetric", "common_strength": 0.8},
            "blind": {**simulated, "separation": 0.0},
        }
        epochs = {"epochs": 20} if self.quick else {}
        source = "synthetic" if dataset in ("hard", "blind") else dataset
        return Run(source, method, seed, "own", settings[dataset], epochs | parameters, keep=("validation",))


def _gaps(cells: dict[tuple[str, str], list[Row]]) -> dict[tuple[str, str], str]:
    """Differences from the default, in brackets; nothing for the default itself."""
    found = {
        (row, dataset): paired_difference((column(lines, "accuracy"), column(cells[BASE, dataset], "accuracy")))
        for (row, dataset), lines in cells.items()
        if row != BASE
    }
    shown = {place: f" ({each.starred})" for place, each in corrected(found).items()}
    return dict.fromkeys(cells, "") | shown
