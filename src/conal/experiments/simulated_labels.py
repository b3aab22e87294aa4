"""Aggregators on forty simulated crowds of four kinds: what Dawid-Skene loses to the best, and what `auto` regains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal import aggregation
from conal._support.arrays import draw_from_rows
from conal.data.annotations import Annotations
from conal.datasets.crowd import draw_assignment
from conal.experiments.aggregators import BASE, NEEDS_TRUTH, aggregated
from conal.experiments.base import Experiment, register
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, notes

__all__ = ["KINDS", "SimulatedLabels", "simulated_labels"]

FloatArray = npt.NDArray[np.float64]

AUTO = "auto"
CROWDS = 10
"""Crowds of every kind."""
LARGE_LOSS = 0.02
"""Where Dawid-Skene is farther behind the best than this, `auto` should regain some of it."""


class Kind(NamedTuple):
    """A kind of crowd: its size, the shares of its classes, and how its annotators err."""

    n_tasks: int
    n_annotators: int
    labels_per_task: tuple[int, int]
    shares: tuple[float, ...]
    confusion: Callable[[int, int, np.random.Generator], FloatArray]


def _one_coin(n_annotators: int, n_classes: int, rng: np.random.Generator) -> FloatArray:
    """(R, C, C) one accuracy per annotator, and all mistakes equally likely."""
    accuracy = rng.uniform(0.35, 0.9, size=(n_annotators, 1, 1))
    eye = np.eye(n_classes)
    return np.asarray(accuracy * eye + (1 - accuracy) * (1 - eye) / (n_classes - 1))


def _own_mistakes(n_annotators: int, n_classes: int, rng: np.random.Generator) -> FloatArray:
    """(R, C, C) an accuracy for every annotator and class, and mistakes with a direction of their own."""
    accuracy = rng.uniform(0.4, 0.9, size=(n_annotators, n_classes, 1))
    mistakes = rng.dirichlet(np.full(n_classes, 0.5), size=(n_annotators, n_classes)) * (1 - np.eye(n_classes))
    mistakes /= np.maximum(mistakes.sum(2, keepdims=True), 1e-12)
    return np.asarray(accuracy * np.eye(n_classes) + (1 - accuracy) * mistakes)


def _families(n_annotators: int, n_classes: int, rng: np.random.Generator) -> FloatArray:
    """(R, C, C) three families; members differ a little from the matrix of their family."""
    centres = _own_mistakes(3, n_classes, rng)[np.arange(n_annotators) % 3]
    draws = rng.standard_gamma(np.maximum(40 * centres, 1e-3))
    return np.asarray(draws / draws.sum(2, keepdims=True))


KINDS = {
    "one number per annotator": Kind(500, 20, (3, 6), (0.25,) * 4, _one_coin),
    "two or three labels per task": Kind(600, 40, (2, 3), (0.2,) * 5, _own_mistakes),
    "three families": Kind(400, 15, (4, 6), (0.25,) * 4, _families),
    "classes nine to one": Kind(600, 20, (3, 5), (0.9, 0.1), _own_mistakes),
}


def simulated_labels(kind: str, seed: int) -> tuple[Annotations, npt.NDArray[np.int64]]:
    """A crowd of some kind, and the true classes of its tasks.

    >>> crowd, z = simulated_labels("classes nine to one", seed=0)
    >>> crowd.n_tasks, int(np.sum(z == 1)) < 100
    (600, True)
    """
    n_tasks, n_annotators, (least, most), shares, confusion = KINDS[kind]
    rng = np.random.default_rng([list(KINDS).index(kind), seed])
    z = rng.choice(len(shares), size=n_tasks, p=shares)
    counts = rng.integers(least, most + 1, size=n_tasks)
    tasks, annotators = draw_assignment(counts, n_annotators, rng)
    rows = confusion(n_annotators, len(shares), rng)[annotators, z[tasks]]
    labels = draw_from_rows(rows, rng.random(len(tasks)))
    ids = np.arange(n_tasks), np.arange(n_annotators), np.arange(len(shares))
    names: dict[str, Any] = dict(zip(("task_ids", "annotator_ids", "classes"), ids, strict=True))
    return Annotations(tasks, annotators, labels, **names, by_position=True), z


@register("simulated-labels")
class SimulatedLabels(Experiment):
    """All aggregators on simulated crowds that suit different ones: who is best, and how far `auto` follows."""

    title = "Aggregators on forty simulated crowds"
    minutes = 4.0
    reducible = False

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=seeds or CROWDS, images=images)

    def table(self, store: Store) -> pa.Table:
        """A row per crowd and aggregator."""
        return pa.Table.from_pylist([row for kind in KINDS for seed in self.seeds for row in _rows(kind, seed)])

    def page(self, table: pa.Table) -> str:
        """Mean accuracy by kind of crowd, and what `auto` regains of what Dawid-Skene loses."""
        rows = table.to_pylist()
        text = notes(
            "Share of right labels in percent, means of the crowds of a kind; every aggregator with its defaults. "
            "*worst regret*: the largest distance from the best one on the same crowd.",
            "*One number per annotator*: 4 classes, 20 annotators, 3 to 6 labels per task, all mistakes equally "
            "likely.",
            "*Two or three labels per task*: 5 classes, 40 annotators with confusions of their own.",
            "*Three families*: 4 classes, 15 annotators who err almost as their family does.",
            "*Classes nine to one*: 2 classes, 20 annotators.",
        )
        return self.document(text, _accuracies(rows), _regained(rows))


def _rows(kind: str, seed: int) -> Iterator[Row]:
    crowd, z = simulated_labels(kind, seed)
    for name in aggregation.names():
        if name not in NEEDS_TRUTH and not aggregation.get(name).ordered:
            accuracy, told = aggregated(name, crowd, z)[1:]
            yield {"row": kind, "seed": seed, "method": name, "accuracy": accuracy, "warning": told}


def _by_crowd(rows: list[Row], method: str) -> FloatArray:
    return np.array(column((row for row in rows if row["method"] == method), "accuracy"))


def _best(rows: list[Row]) -> FloatArray:
    """The accuracy of the best aggregator on every crowd; `auto` does not count."""
    alone = (row for row in rows if row["method"] != AUTO)
    return np.array([max(column(some, "accuracy")) for some in group_by(alone, "row", "seed").values()])


def _accuracies(rows: list[Row]) -> str:
    best = _best(rows)
    body = []
    for name, some in group_by(rows, "method").items():
        means = [f"{100 * np.mean(column(each, 'accuracy')):.1f}" for each in group_by(some, "row").values()]
        accuracy = _by_crowd(rows, name)
        body.append([f"`{name}`", *means, f"{100 * accuracy.mean():.1f}", f"{100 * (best - accuracy).max():.1f}"])
    return markdown([" ", *group_by(rows, "row"), "all", "worst regret"], body)


def _regained(rows: list[Row]) -> str:
    """How much of what Dawid-Skene loses to the best one `auto` regains, where that is much."""
    base, found, best = _by_crowd(rows, BASE), _by_crowd(rows, AUTO), _best(rows)
    much = best - base > LARGE_LOSS
    lost = 100 * (best - base)[much].sum()
    share = "" if not much.any() else f", of which `{AUTO}` regains {(found - base)[much].sum() / lost * 1e4:.0f} %"
    return (
        f"On {much.sum()} of {len(base)} crowds, `{BASE}` is more than {100 * LARGE_LOSS:.0f} points behind the best "
        f"aggregator, by {lost:.1f} points in all{share}. `{AUTO}` is at worst {100 * (base - found).max():.1f} points "
        f"behind `{BASE}`."
    )
