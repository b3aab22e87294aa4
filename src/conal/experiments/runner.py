"""Run what is missing, in several processes, and store every result at once."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from conal._support.progress import Progress, make_progress
from conal.errors import ConalWarning
from conal.experiments.gold_runs import execute_gold
from conal.experiments.runs import Run, execute
from conal.experiments.store import Store

__all__ = ["run_missing"]


EVERY = 300.0
"""Seconds between checkpoints."""


def run_missing(
    store: Store,
    runs: Sequence[Run],
    *,
    jobs: int = 1,
    backend: str | None = None,
    verbose: bool = True,
    stale: bool = False,
    checkpoint: Callable[[], object] = lambda: None,
) -> int:
    """Run what the store does not have yet, and return the number of runs.

    This process alone stores a result, as soon as its run ends: whatever happens to this or to the worker processes,
    finished runs are kept and never repeated.

    Parameters
    ----------
    store : Store
    runs : sequence of Run
    jobs : int
        Number of worker processes of one thread each.
    backend : str, optional
        Backend of joblib: "loky" on this machine, "dask" or "ray" on a cluster that you are connected to.
    verbose : bool
        Show progress, in a terminal or notebook.
    stale : bool
        Also repeat the runs that other code made.
    checkpoint : callable
        Called every few minutes, and at the end, also of an interrupted run or where nothing was missing.
    """
    runs = list({run.hash: run for run in runs}.values())  # points that two sweeps share are run once
    missing = store.waiting(runs, stale=stale)
    done = len(runs) - len(missing)
    last = time.monotonic()
    try:
        with make_progress("runs", verbose) as progress:
            for number, (run, figures) in enumerate(_results(missing, jobs, backend), start=1):
                store.add(run, figures)
                _show(progress, run, figures, done + number, len(runs))
                if time.monotonic() - last > EVERY:
                    checkpoint()
                    last = time.monotonic()
    finally:
        checkpoint()  # also of what a killed process had stored
    return len(missing)


def _show(progress: Progress, run: Run, figures: dict[str, Any], completed: int, total: int) -> None:
    accuracy = figures["test_accuracy"]
    shown = figures["label_accuracy"] if accuracy is None else accuracy  # some crowds have no test data
    text = f"{run.dataset} {run.method} seed {run.seed}: {100 * shown:.1f} %"
    progress.update(completed, total, text)


def _results(runs: Sequence[Run], jobs: int, backend: str | None) -> Iterator[tuple[Run, dict[str, Any]]]:
    if jobs == 1 and backend is None:
        yield from map(_worker, runs)
        return
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend=backend or "loky", n_jobs=jobs):  # which knows where to find dask and ray
        yield from Parallel(return_as="generator_unordered")(delayed(_worker)(run) for run in runs)


def _worker(run: Run) -> tuple[Run, dict[str, Any]]:
    """One run on one thread; its warnings are visible in its results (restarts, best epoch)."""
    import torch

    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        return run, execute_gold(run) if run.gold else execute(run)
