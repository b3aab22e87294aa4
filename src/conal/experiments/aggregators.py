"""Aggregators on thirteen public crowds: accuracy, collapses that were told, and the effective number of annotators."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal import aggregation
from conal.data.annotations import Annotations
from conal.datasets.label_sets import JUDGES, LABEL_SETS, label_set, true_codes
from conal.errors import CollapseWarning
from conal.experiments.base import Experiment, register
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown
from conal.metrics import EffectiveNumber, effective_number

__all__ = [
    "BASE",
    "NEEDS_TRUTH",
    "N_TRUE",
    "SOME",
    "TRUTH",
    "Aggregators",
    "aggregated",
    "by_some",
    "effective_numbers",
]

TRUTH = "true labels"
SOME = "50 true labels"
N_TRUE = 50
DRAWS = 20
BASE, VOTES = "dawid-skene", "majority-vote"
NEEDS_TRUTH = ("gold-majority-vote",)


@register("aggregators")
class Aggregators(Experiment):
    """All aggregators on five crowds of people and eight juries of language models, whose members err alike."""

    title = "Aggregators on thirteen public crowds"
    minutes = 3.0
    reducible = False

    def table(self, store: Store) -> pa.Table:
        """A row per crowd and aggregator, one per crowd for all true labels, and twenty for fifty of them."""
        return pa.Table.from_pylist([row for name in LABEL_SETS for row in _rows(name)])

    def page(self, table: pa.Table) -> str:
        """Accuracy with marks for collapses that were told; the effective number, by true and by inferred labels."""
        rows = table.to_pylist()
        text = (
            "Share of right labels in percent. \\* the aggregator warned of a collapse: a class was lost, classes were "
            "exchanged, or the most frequent one had far more than its votes; it then used another start or prior, if "
            "that helped. *Worst regret* is the largest distance from the best aggregator on the same crowd; *worst "
            "against votes* the largest loss to majority vote. The members of `auto`, and when true labels make it "
            "prefer one of them, were chosen by looking at these crowds, and some defaults by looking at the juries."
        )
        numbers = (
            "How many independent labels the labels of a task are worth (`conal.metrics.effective_number`), by all "
            f"true labels with a 95 % interval, by {N_TRUE} random true labels (mean of {DRAWS} draws, mean deviation "
            "from the value by all of them, and how many of the 95 % intervals contain that value), and the upper "
            "bound by labels that `dawid-skene` inferred: the upper end of a 95 % interval."
        )
        return self.document(
            text, _accuracies(rows), "## Effective number of annotators", numbers, effective_numbers(rows)
        )


def _rows(name: str) -> Iterator[Row]:
    labels, truth = label_set(name)
    crowd = Annotations.of(labels)
    codes = true_codes(crowd, truth)
    at = {"row": name, "seed": 0}
    for each in aggregation.names():
        if each not in NEEDS_TRUTH and not aggregation.get(each).ordered:
            fitted, right, told = aggregated(each, crowd, codes)
            numbers = _figures(effective_number(crowd, fitted.probas_))
            yield at | {"method": each, "accuracy": right, "warning": told} | numbers
    known = np.flatnonzero(codes >= 0)
    at |= {"accuracy": None, "warning": ""}
    yield at | {"method": TRUTH} | _effective(crowd, codes, known)
    for seed in range(DRAWS if len(known) > N_TRUE else 0):
        some = np.random.default_rng(seed).choice(known, N_TRUE, replace=False)
        yield at | {"method": SOME, "seed": seed} | _effective(crowd, codes, some)


def aggregated(
    name: str, crowd: Annotations, codes: npt.NDArray[np.int64]
) -> tuple[aggregation.Aggregator, float, str]:
    """A fitted aggregator, the share of its right labels (code -1: nobody knows), and its warning of a collapse."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = aggregation.make(name).fit(crowd)
    told = "; ".join(str(each.message) for each in caught if issubclass(each.category, CollapseWarning))
    return fitted, float(np.mean((fitted.codes_ == codes)[codes >= 0])), told


def _effective(crowd: Annotations, codes: npt.NDArray[np.int64], tasks: npt.NDArray[np.int64]) -> Row:
    """The effective number by the true labels of some tasks."""
    certain = np.zeros((crowd.n_tasks, crowd.n_classes))
    certain[tasks, codes[tasks]] = 1.0
    return _figures(effective_number(crowd, certain))


def _figures(found: EffectiveNumber) -> Row:
    figures = {"effective": found.value, "effective_low": found.low, "effective_high": found.high}
    return {name: float(value) if np.isfinite(value) else None for name, value in figures.items()}


def _accuracies(rows: list[Row]) -> str:
    """A line per aggregator and a column per crowd, with means and the worst cases."""
    cells = group_by((row for row in rows if row["method"] not in (TRUTH, SOME)), "method")
    crowds = list(group_by(rows, "row"))
    shares = {name: 100 * np.array(column(some, "accuracy")) for name, some in cells.items()}
    best = np.max(list(shares.values()), axis=0)
    juries = np.isin(crowds, JUDGES)
    body = [
        [
            f"`{name}`",
            *(f"{value:.1f}{' *' if row['warning'] else ''}" for value, row in zip(shares[name], some, strict=True)),
            f"{shares[name].mean():.1f}",
            f"{shares[name][juries].mean():.1f}",
            f"{(best - shares[name]).max():.1f}",
            f"{(shares[name] - shares[VOTES]).min():+.1f}",
        ]
        for name, some in cells.items()
    ]
    return markdown([" ", *crowds, "mean", "mean of the juries", "worst regret", "worst against votes"], body)


def effective_numbers(rows: list[Row]) -> str:
    """A line per crowd: by all true labels, by some of them, and by inferred labels."""
    body = []
    for crowd, some in group_by(rows, "row").items():
        by = group_by(some, "method")
        (truth,), (bound,) = by[TRUTH], by[BASE]
        ends = f"{truth['effective_low']:.1f} to {truth['effective_high']:.1f}"
        body.append(
            [
                crowd,
                f"{truth['effective']:.1f} ({ends})",
                *by_some(by.get(SOME, []), truth["effective"]),
                f"at most {bound['effective_high']:.1f}",
            ]
        )
    header = ["", "all true labels", f"{N_TRUE} true labels", "deviation", "intervals that hold", f"`{BASE}`"]
    return markdown(header, body)


def by_some(rows: list[Row], truth: float) -> list[str]:
    """The effective number by some true labels: its mean, its mean deviation, and how many intervals hold."""
    told = [row for row in rows if row["effective_low"] is not None]
    if not told:
        return ["\u2013"] * 3
    values = np.array(column(told, "effective"))
    held = np.mean([row["effective_low"] <= truth <= row["effective_high"] for row in told])
    return [f"{values.mean():.1f}", f"{100 * np.abs(values / truth - 1).mean():.0f} %", f"{100 * held:.0f} %"]
