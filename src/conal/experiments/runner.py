"""Runs what is missing, in several processes, and keeps every result as soon as it is there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from conal._support.progress import Progress, make_progress
from conal.errors import ConalWarning
from conal.experiments.runs import Run, execute
from conal.experiments.store import Store

__all__ = ["run_missing"]


def run_missing(
    store: Store, runs: Sequence[Run], *, jobs: int = 1, backend: str | None = None, verbose: bool = True
) -> int:
    """Run what the store does not have yet, and say how many that were.

    A result is stored when its run ends, by this process alone: whatever happens to this or to the working processes,
    finished runs stay and none is repeated.

    Parameters
    ----------
    store : Store
    runs : sequence of Run
    jobs : int
        Processes that work at a time; each uses one thread.
    backend : str, optional
        joblib's: "loky" on this machine, "dask" or "ray" on a cluster that was connected to before.
    verbose : bool
        Show progress, where standard error is a terminal.
    """
    runs = list({run.hash: run for run in runs}.values())  # points that two sweeps share are run once
    missing = store.missing(runs)
    done = len(runs) - len(missing)
    with make_progress("runs", verbose) as progress:
        for number, (run, figures) in enumerate(_results(missing, jobs, backend), start=1):
            store.add(run, figures)
            _tell(progress, run, figures, done + number, len(runs))
    return len(missing)


def _tell(progress: Progress, run: Run, figures: dict[str, Any], completed: int, total: int) -> None:
    text = f"{run.dataset} {run.method} seed {run.seed}: {100 * figures['test_accuracy']:.1f} %"
    progress.update(completed, total, text)


def _results(runs: Sequence[Run], jobs: int, backend: str | None) -> Iterator[tuple[Run, dict[str, Any]]]:
    if jobs == 1 and backend is None:
        yield from map(_worker, runs)
        return
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend=backend or "loky", n_jobs=jobs):  # which knows where to find dask and ray
        yield from Parallel(return_as="generator_unordered")(delayed(_worker)(run) for run in runs)


def _worker(run: Run) -> tuple[Run, dict[str, Any]]:
    """One run on one thread; what it warns of is told by its figures (restarts, best epoch)."""
    import torch

    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        return run, execute(run)
