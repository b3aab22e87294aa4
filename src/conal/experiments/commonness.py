"""How common mistakes are, on simulated crowds: co-direction and effective number by inferred and by true labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from conal.experiments.base import Experiment, register
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, notes

__all__ = ["CROWDS", "ENDS", "PROPORTIONS", "Commonness", "errors_of", "holds", "wrong_headline"]

CROWDS: dict[str, dict[str, Any]] = {
    "8 annotators": {"n_annotators": 8},
    "30 annotators": {"n_annotators": 30},
    "200 annotators": {"n_annotators": 200},
    "30 annotators, one of them prolific": {"n_annotators": 30, "prolific_share": 0.8},
}
LABELS_PER_TASK = (3, 10)
PROPORTIONS = (0.0, 0.25, 0.5, 0.75, 1.0)
ENDS = (0.0, 1.0)
"""Proportions of common labels at which the true value is known, and which get four times as many crowds."""
FEWER = 4
PARAMETERS: dict[str, Any] = {"epochs": 30, "lr": 0.01, "averaging": 0.96}
"""Fewer epochs than xconal's default, and larger steps: a third of the time, and labels that are as good here."""
INFERRED = ("xconal", "dawid-skene")
NONE = "\u2013"
CLOSE = 0.15
BELOW = 0.9
"""Part of the true effective number below which a bound is wrong."""
GOOD = 0.85
"""Share of right labels from which on the interval must hold the value."""


@register("commonness")
class Commonness(Experiment):
    """Do figures about shared mistakes by inferred labels hold what true labels give, and how often do they abstain?"""

    title = "How common are mistakes?"

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=seeds or (1 if quick else 13), images=images)

    def points(self) -> list[tuple[str, int, float, int]]:
        """Crowd, labels per task, proportion and seed; every seed draws another crowd."""
        crowds = list(CROWDS)[1:2] if self.quick else list(CROWDS)
        return [
            (crowd, labels, proportion, seed)
            for crowd in crowds
            for labels in LABELS_PER_TASK
            for proportion in PROPORTIONS
            for seed in (self.seeds if proportion in ENDS else list(self.seeds)[: max(len(self.seeds) // FEWER, 1)])
        ]

    def runs(self) -> list[Run]:
        """A fit of xconal to every crowd; Dawid-Skene is fitted beside it."""
        return [self._run(*point) for point in self.points()]

    def _run(self, crowd: str, labels: int, proportion: float, seed: int) -> Run:
        size = CROWDS[crowd] | {"labels_per_instance": min(labels, CROWDS[crowd]["n_annotators"])}
        data = size | {"n_train": 2000, "n_valid": 0, "n_test": 100, "gate": "effects", "proportion": proportion}
        parameters = PARAMETERS | ({"epochs": 20} if self.quick else {})
        return Run("synthetic", "xconal", seed, "last", data | {"seed": seed}, parameters, keep=("commonness",))

    def table(self, store: Store) -> pa.Table:
        """Two rows per crowd: labels inferred by xconal, and by Dawid-Skene."""
        rows = []
        for crowd, labels, proportion, seed in self.points():
            found = store.require(self._run(crowd, labels, proportion, seed))["commonness"]
            at = {"row": crowd, "labels": labels, "proportion": proportion, "seed": seed}
            at |= {"true_value": found["true"], "effective_true": found["effective_true"]}
            rows += [at | {"inferred_by": name} | found[name] for name in INFERRED]
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """How often the interval holds, how often it abstains, and how often a headline is wrong."""
        text = notes(
            "Co-direction of mistakes by inferred labels, against its value by the true labels of the same crowd: six "
            f"classes, 2,000 tasks, the gate of Equation 3; `xconal` with {PARAMETERS['epochs']} epochs.",
            "*held*: the 95 % interval contains the value by true labels. *abstains*: no value is given. *wrong "
            "headline*: the interval excludes 0 and the value by true labels. *error*: the mean distance of the two "
            "values; *width*: that of the interval's ends.",
            f"*Good* crowds have at least {100 * GOOD:.0f} % right inferred labels.",
            "The interval allows for other annotators like these. The value by true labels is of the same annotators, "
            "and so is held more often than in 95 % where labels are right.",
        )
        header = ["inferred by", "labels per task", "crowds", "right labels", "held (good crowds)", "held", "abstains"]
        header += ["wrong headline", "error", "width"]
        rows = table.to_pylist()
        body = [
            [f"`{name}`", str(labels), *_summary(some)]
            for (name, labels), some in group_by(rows, "inferred_by", "labels").items()
        ]
        body += [[f"`{name}`", "all", *_summary(some)] for name, some in group_by(rows, "inferred_by").items()]
        values = [[f"{at:g}", *_values(some)] for at, some in group_by(rows, "proportion").items()]
        of_values = ["proportion of common labels", "true labels", *(f"`{name}`" for name in INFERRED)]
        results = markdown(header, body)
        return self.document(
            text,
            results,
            "Mean values:",
            markdown(of_values, values),
            "## Effective number of annotators",
            *_number(rows),
        )


def _number(rows: list[Row]) -> tuple[str, str]:
    """The effective number by inferred labels, and the bound that a report says, against the value by true labels."""
    text = (
        "How many independent labels the labels of a task are worth. *within*: crowds whose value by inferred labels "
        "is at most 15 % from the value by true labels. Inferred labels hide mistakes that most annotators share, so a "
        "report says *at most*, and the upper end of the 95 % interval. *lowest bound*: the smallest ratio of this "
        "bound to the value by true labels; *below*: crowds where it is below nine tenths."
    )
    header = ["crowd", "labels per task", "inferred by", "true labels", "inferred labels", "within", "bound"]
    header += ["lowest bound", "below"]
    told = [row for row in rows if row["effective"] and row["effective_true"]]
    body = [
        [crowd, str(labels), f"`{name}`", *_ratios(some)]
        for (crowd, labels, name), some in group_by(told, "row", "labels", "inferred_by").items()
    ]
    return text, markdown(header, body)


def _ratios(rows: list[Row]) -> list[str]:
    names = "effective_true", "effective", "effective_at_most"
    true, found, bound = (np.array(column(rows, name)) for name in names)
    near = np.abs(found / true - 1) <= CLOSE
    below = bound / true < BELOW
    means = [f"{true.mean():.2f}", f"{found.mean():.2f}", _percent(near.tolist()), f"{bound.mean():.2f}"]
    return [*means, f"{(bound / true).min():.2f}", f"{below.sum()} of {len(rows)}"]


def _summary(rows: list[Row]) -> list[str]:
    told = [row for row in rows if row["value"] is not None]
    good = [row for row in told if row["label_accuracy"] >= GOOD]
    return [
        str(len(rows)),
        f"{100 * np.mean([row['label_accuracy'] for row in rows]):.1f}",
        _percent([holds(row) for row in good]),
        _percent([holds(row) for row in told]),
        _percent([row["value"] is None for row in rows]),
        _percent([wrong_headline(row) for row in rows]),
        _mean(errors_of(told)),
        _mean([row["high"] - row["low"] for row in told]),
    ]


def wrong_headline(row: Row) -> bool:
    """Whether a report says that mistakes are common, and the true labels say otherwise."""
    return row["value"] is not None and row["low"] > 0 and not holds(row)


def errors_of(told: list[Row]) -> list[float]:
    """Distances of the values by inferred labels from those by true labels."""
    return [abs(row["value"] - row["true_value"]) for row in told if row["true_value"] is not None]


def holds(row: Row) -> bool:
    """Whether the interval contains the value by true labels, if there is one."""
    return row["true_value"] is None or bool(row["low"] <= row["true_value"] <= row["high"])


def _percent(found: list[bool]) -> str:
    return f"{100 * np.mean(found):.1f}" if found else NONE


def _mean(found: list[float]) -> str:
    return f"{np.mean(found):.2f}" if found else NONE


def _values(rows: list[Row]) -> list[str]:
    by = group_by((row for row in rows if row["value"] is not None), "inferred_by")
    true = [row["true_value"] for row in rows if row["true_value"] is not None]
    return [_mean(true), *(_mean(column(by.get(name, []), "value")) for name in INFERRED)]
