"""What experiments will cost, before they start: from the runs that are stored, or else from measured rates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from conal.experiments.base import Experiment
from conal.experiments.outputs import kept_table
from conal.experiments.runs import EPOCHS, Run
from conal.experiments.store import Store

__all__ = ["Cost", "estimate", "estimated_seconds"]

TASKS = {"labelme": 1000, "music": 700, "digits": 1000, "cifar10": 40_000, "synthetic": 8000}
"""Training instances, where a run does not say."""
OTHERS = 450
"""Tasks of a jury."""
RATES = {
    "gold": 8.0,
    "dl-mv": 8.0,
    "dl-cl": 12.0,
    "doctor-net": 40.0,
    "anno-reg": 14.0,
    "max-mig": 11.0,
    "dl-glad": 9.0,
    "dl-wc": 9.0,
    "aggnet": 10.0,
    "conal": 22.0,
    "conal-em": 12.0,
    "dl-cl-over": 15.0,
    "dl-ds": 9.0,
    "two-stage": 9.0,
    "xconal": 45.0,
}
"""CPU microseconds per task and epoch, on one core of 2024."""
FACTORS = {"synthetic": 0.7, "labelme": 1.4, "music": 1.4, "cifar10": 1.4}
"""How much more or less a dataset costs, by its number of features and the size of its batches."""
LABELS_ALONE = 0.5
"""Seconds of a run that trains no network."""
EXTRA = {"coverage": 6.0, "commonness": 3.0, "annotator_intervals": 2.0, "pipeline_rates": 30.0, "replayed_rates": 20.0}
"""Seconds that measurements take."""


class Cost(NamedTuple):
    """The runs that an experiment will do, and its CPU seconds."""

    name: str
    runs: int
    seconds: float


def estimate(planned: Iterable[Experiment], store: Store, folder: Path, *, stale: bool = False) -> list[Cost]:
    """What experiments cost beyond the store and the tables of a folder; shared runs count for the first."""
    seen, rates = set[str](), _rates(store)
    found: list[Cost] = []
    for each in planned:
        runs = {run.hash: run for run in each.runs() if run.hash not in seen}
        seen |= set(runs)
        waiting = store.waiting(runs.values(), stale=stale)
        table = 0.0 if kept_table(each, folder) is not None else 60 * each.minutes
        found.append(Cost(each.name, len(waiting), table + sum(estimated_seconds(run, rates) for run in waiting)))
    return found


def estimated_seconds(run: Run, rates: dict[tuple[str, str], float] | None = None) -> float:
    """CPU seconds of a run: its tasks times its epochs times a rate, and what its measurements take.

    >>> 0.5 < estimated_seconds(Run("labelme", "dl-mv")) < 2
    True
    """
    if run.method not in RATES:
        return LABELS_ALONE
    rate = (rates or {}).get((run.dataset, run.method), RATES[run.method] * FACTORS.get(run.dataset, 1.0))
    return 1e-6 * rate * _work(run) + sum(EXTRA.get(name, 0.0) for name in run.keep)


def _work(run: Run) -> float:
    """Tasks times epochs times networks."""
    epochs = run.parameters.get("epochs", EPOCHS)
    tasks = _tasks(run.dataset, run.data)
    passes = float(EPOCHS if epochs == "auto" else epochs)
    return tasks * passes * float(run.parameters.get("ensemble", 1))


def _tasks(dataset: str, data: Any) -> float:
    part = data.get("sample", {}).get("n_tasks")
    return float(part or data.get("n_train") or TASKS.get(dataset, OTHERS))


def _rates(store: Store) -> dict[tuple[str, str], float]:
    """Microseconds per task and epoch of the stored runs, by dataset and method."""
    seconds, work = defaultdict[tuple[str, str], float](float), defaultdict[tuple[str, str], float](float)
    for found in store.finished():
        key = found.run.dataset, found.run.method
        seconds[key] += float(found.figures["seconds"])
        work[key] += _work(found.run)
    return {key: 1e6 * seconds[key] / work[key] for key in seconds}
