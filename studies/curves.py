"""Training and test accuracy after every epoch: how much the choice of an epoch matters."""

from __future__ import annotations

import numpy as np

from studies.figures import lines, points_of
from studies.fits import PAPER, fit
from studies.runs import Options, Setting
from studies.table_1 import PRESETS, TITLES
from studies.tables import Row, Summary, Table, Tables, column, group_by

PARTS = ("curves",)
SEEDS = 5
METHODS = ("dl-mv", "dl-cl", "anno-reg", "max-mig", "aggnet", "conal")


def runs(options: Options) -> list[Setting]:
    """Every method, CoNAL with the paper's omega; no epoch is chosen."""
    return [
        {"part": "curves", "dataset": dataset, "method": method, "protocol": "last", "seed": seed}
        | {"parameters": PRESETS[dataset] | PAPER.get(method, {})}
        for dataset in options.pick_datasets(TITLES)
        for method in options.pick_methods(METHODS)
        for seed in options.seeds_or(SEEDS)
    ]


def run(setting: Setting) -> list[Row]:
    """A row per epoch."""
    history = fit(setting, monitor=True).clf.history_
    return [{name: row[name] for name in ("epoch", "training_accuracy", "test_accuracy")} for row in history]


def summarise(tables: Tables) -> Summary:
    """The last epoch's test accuracy against the best of all epochs, which is chosen by test labels."""
    summary = Summary()
    note = (
        "Means over seeds, in percent. The last two columns are chosen by test labels, which nobody has: they bound "
        "what the choice of an epoch can give. Training accuracy is against true labels, which no method sees."
    )
    for dataset, rows in group_by(tables["curves"], "dataset").items():
        body, drawn = [], []
        for method, some in group_by(rows, "method").items():
            epochs = group_by(some, "epoch")
            last = epochs[max(epochs)]
            test = [np.mean(column(each, "test_accuracy")) for each in epochs.values()]
            best = [max(column(each, "test_accuracy")) for each in group_by(some, "seed").values()]
            shown = np.mean(column(last, "training_accuracy")), np.mean(column(last, "test_accuracy")), max(test)
            body.append([f"`{method}`", *(f"{100 * value:.1f}" for value in (*shown, np.mean(best)))])
            for part in ("training", "test"):
                points = points_of(some, f"{part}_accuracy", series="method", x="epoch")
                drawn += [point | {"panel": part, "spread": 0.0} for point in points]
        header = [
            "",
            "training, last epoch",
            "test, last epoch",
            "test, best epoch for all",
            "test, best of every seed",
        ]
        summary.tables.append(Table(TITLES[dataset], header, body, note))
        title = f"{TITLES[dataset]}: accuracy during training"
        summary.charts[f"curves-{dataset}"] = lines(drawn, x_title="epoch", y_title="accuracy (%)", title=title)
    return summary
