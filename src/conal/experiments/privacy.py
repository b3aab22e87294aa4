"""What privacy costs: the error of released confusion matrices against epsilon, on simulated crowds and on LabelMe."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.annotations import Annotations
from conal.datasets import labelme, synthetic
from conal.datasets.base import data_folder
from conal.errors import InputError
from conal.experiments.base import Experiment, register
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, notes
from conal.privacy import PrivateRelease, private_release

__all__ = ["Privacy"]

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
PEOPLE = (50, 200, 1000)
CLASSES = (2, 5)
BOUNDS = (1, 10, 50)
LABELS = 20
"""Labels that each simulated person gives, about."""
RELEASES = 10
REAL = "LabelMe"


@register("privacy")
class Privacy(Experiment):
    """Mean total variation distance of the rows of released matrices from the matrices without noise and bounds."""

    title = "What privacy costs"
    minutes = 1.0

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=seeds or (2 if quick else RELEASES), images=images)

    def table(self, store: Store) -> pa.Table:
        """A row per crowd, bound, epsilon and release."""
        rows = [
            row
            for n_classes in CLASSES
            for people in PEOPLE
            for seed in self.seeds
            for row in _rows(f"{people:,} people", *_simulated(people, n_classes, seed), seed, bounds=(10,))
        ]
        real = _real()
        if real is not None:
            rows += [row for seed in self.seeds for row in _rows(REAL, *real, seed, bounds=BOUNDS)]
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """Errors against epsilon, and how often the intervals hold."""
        rows = table.to_pylist()
        releases = len(set(column(rows, "seed")))
        text = notes(
            "`conal aggregate --private EPSILON`: distance of the released common confusion from the same crowd's "
            "matrix without noise and without a bound on contributions. Half the sum of absolute differences of a row "
            f"(total variation; 0 is equal, 1 as far as possible), mean over rows, in percent, mean of {releases} "
            f"releases; for simulated crowds, of as many crowds, with about {LABELS} labels per person.",
            "*bound*: `--max-labels`. *intervals hold*: how often the 95 % intervals hold the matrix of the bounded "
            "counts without noise, over all epsilons.",
        )
        header = ["crowd", "classes", "bound", *(f"ε = {epsilon:g}" for epsilon in EPSILONS), "intervals hold"]
        groups = group_by(rows, "crowd", "classes", "max_labels").items()
        body = [[name, str(classes), str(bound), *_cells(some)] for (name, classes, bound), some in groups]
        return self.document(text, markdown(header, body))


def _cells(rows: list[Row]) -> list[str]:
    by = group_by(rows, "epsilon")
    errors = [f"{100 * np.mean(column(by[epsilon], 'error')):.1f}" for epsilon in EPSILONS]
    return [*errors, f"{100 * np.mean(column(rows, 'held')):.1f}"]


def _simulated(people: int, n_classes: int, seed: int) -> tuple[Annotations, dict[Any, Any]]:
    size: dict[str, Any] = {"n_train": people * LABELS // 4, "n_valid": 1, "n_test": 1, "n_classes": n_classes}
    data = synthetic(**size, n_annotators=people, labels_per_instance=4, seed=seed)
    return data.annotations, _known(data.annotations, data.y_true)


def _real() -> tuple[Annotations, dict[Any, Any]] | None:
    try:
        data_folder(("labelme", "LabelMe"))
    except InputError:
        return None
    data = labelme()
    return data.annotations, _known(data.annotations, data.y_true)


def _known(crowd: Annotations, codes: npt.NDArray[np.int64]) -> dict[Any, Any]:
    return dict(zip(crowd.task_ids.tolist(), crowd.classes[codes].tolist(), strict=True))


def _rows(name: str, crowd: Annotations, known: dict[Any, Any], seed: int, *, bounds: tuple[int, ...]) -> Iterator[Row]:
    classes = crowd.classes.tolist()
    wanted = _without_noise(crowd, known, crowd.n_annotations)
    for bound in bounds:
        bounded = _without_noise(crowd, known, bound)
        for epsilon in EPSILONS:
            source = Random(f"{name} {bound} {epsilon} {seed}")  # noqa: S311 - a study, which releases nothing
            made = private_release(crowd, known, epsilon=epsilon, max_labels=bound, classes=classes, source=source)
            yield {
                "crowd": name,
                "classes": len(classes),
                "max_labels": bound,
                "epsilon": epsilon,
                "seed": seed,
                "error": _error(made, wanted),
                "held": _held(made, bounded),
            }


def _without_noise(crowd: Annotations, known: dict[Any, Any], bound: int) -> npt.NDArray[np.float64]:
    """(C, C) the matrix of the exact counts."""
    from conal.privacy.contributions import bounded_counts, plain_spelling, positions

    at = positions(crowd.classes.tolist(), "class")
    true = {plain_spelling(task): at[plain_spelling(label)] for task, label in known.items()}
    counts = bounded_counts(crowd, true, at, bound)[0]
    return np.asarray(counts / counts.sum(1, keepdims=True))


def _error(made: PrivateRelease, wanted: npt.NDArray[np.float64]) -> float:
    """Mean total variation distance of the rows; a row of which noise left nothing counts as uniform."""
    found = np.nan_to_num(made.common_confusion, nan=1 / len(made.classes))
    return float(np.abs(found - wanted).sum(1).mean() / 2)


def _held(made: PrivateRelease, wanted: npt.NDArray[np.float64]) -> float:
    table = made.table()
    exact = wanted.ravel()
    within = (table["low"].to_numpy() <= exact + 1e-9) & (exact - 1e-9 <= table["high"].to_numpy())
    return float(within.mean())
