"""``conal reproduce``: the paper's tables and figures, beside the published figures."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conal._support.registry import names_in_source
from conal.cli.options import AsJson, Overwrite, Quiet, emit
from conal.cli.terminal import say
from conal.errors import InputError, examples

if TYPE_CHECKING:
    from conal.experiments.base import Experiment
    from conal.experiments.runs import Run
    from conal.experiments.store import Store

__all__ = ["reproduce"]

ALL = "all"
STORE = "results.sqlite"
OUTPUTS = (".csv", ".md", ".svg", ".png")
"""Endings of what experiments write beside the store."""


def reproduce(
    experiment: Annotated[
        str, typer.Argument(help=f"Experiment: {', '.join(names_in_source('conal.experiments'))}, or all.")
    ],
    out: Annotated[Path, typer.Option(help="Output folder for results.sqlite, tables, pages and charts.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a reduced size that takes minutes; all output is marked as such.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Number of parallel processes, with one thread each.")] = 1,
    backend: Annotated[
        str | None, typer.Option(help="joblib backend: loky (this machine), or dask or ray (a connected cluster).")
    ] = None,
    images: Annotated[
        bool, typer.Option("--images", help="cifar10: use images and VGG-16 instead of features; needs a GPU.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option(help="Also write one Markdown page of all experiments in --out, with charts.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds (default: 5, or 2 with --quick).")] = None,
    stale: Annotated[
        bool, typer.Option("--stale", help="List stored runs that were made by other code, and repeat them.")
    ] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce a table or figure of the paper, beside the published figures.

    Finished runs are stored in results.sqlite, and as text in the folder runs, which can be copied to another machine.
    Run the same command again to continue an interrupted one: results of earlier runs are replaced without --overwrite,
    other files only with it.
    """
    from conal import experiments
    from conal._files import atomic_file
    from conal.experiments.outputs import write_outputs
    from conal.experiments.results_page import in_order, results_page
    from conal.experiments.run_files import FOLDER, read_runs, take_runs
    from conal.experiments.runner import run_missing
    from conal.experiments.store import Store

    if page is not None and (quick or images):
        raise InputError("--page needs the full experiments; remove --quick and --images")
    chosen = in_order(experiments.names()) if experiment == ALL else [experiment]
    planned = [experiments.get(name)(quick=quick, seeds=seeds, images=images) for name in chosen]
    _check_places(out, page, overwrite=overwrite)
    out.mkdir(parents=True, exist_ok=True)
    done, files = 0, []
    with Store(out / STORE) as store:
        take_runs(store, read_runs(out / FOLDER))
        _tell_cost(planned, store, out, stale=stale, jobs=jobs, quiet=quiet)
        try:
            for each in planned:
                _tell_stale(store.stale(each.runs()), repeated=stale, quiet=quiet)
                done += run_missing(
                    store,
                    each.runs(),
                    jobs=jobs,
                    backend=backend,
                    verbose=not quiet,
                    stale=stale,
                    checkpoint=_checkpoint(store, each, out, stale=stale, quiet=quiet),
                )
                files += write_outputs(each, store, out)
                if not (quiet or as_json):
                    say((out / f"{each.stem}.md").read_text(encoding="utf-8"))
        except KeyboardInterrupt:
            say(f"interrupted; {len(store):,} finished runs are stored: run the same command to continue", err=True)
            raise
    if page is not None:
        with atomic_file(page) as temporary:
            temporary.write_text(results_page(out, page), encoding="utf-8")
        files.append(page)
    result = {"out": out, "experiments": chosen, "runs": done, "quick": quick, "files": [str(path) for path in files]}
    emit(result, f"{done:,} runs; {len(files)} files in {out}", as_json=as_json, quiet=quiet)


def _checkpoint(store: Store, experiment: Experiment, out: Path, *, stale: bool, quiet: bool) -> Callable[[], None]:
    """Writes the runs as text, and says in a log, which has no progress bar, how far it is."""
    from conal.experiments.run_files import FOLDER, write_runs

    runs = list({run.hash: run for run in experiment.runs()}.values())
    before, began = len(store.waiting(runs, stale=stale)), time.monotonic()

    def keep() -> None:
        write_runs(store, out / FOLDER)
        now = len(store.waiting(runs, stale=stale))
        if 0 < now < before and not quiet and not sys.stderr.isatty():
            minutes = (time.monotonic() - began) / 60 / (before - now) * now
            say(f"{experiment.name}: {now:,} of {len(runs):,} runs to do, about {minutes:,.0f} minutes", err=True)

    return keep


def _tell_cost(planned: list[Experiment], store: Store, folder: Path, *, stale: bool, jobs: int, quiet: bool) -> None:
    """How many runs are to be done, and about how long they take: of each experiment, and in all."""
    from conal.experiments.costs import estimate

    if quiet:
        return
    costs = estimate(planned, store, folder, stale=stale)
    long = [cost for cost in costs if cost.seconds >= 60]
    for name, runs, seconds in long if len(long) > 1 else []:
        say(f"  {name}: {runs:,} runs, about {seconds / 60:,.0f} CPU minutes", err=True)
    runs, minutes = sum(cost.runs for cost in costs), sum(cost.seconds for cost in costs) / 60
    hours = f", {minutes / 60 / jobs:.1f} hours with --jobs {jobs}" if minutes >= 60 * jobs else ""
    if minutes >= 1:
        what = f"{runs:,} runs" if runs else "tables without runs"
        say(f"{what} to do, about {minutes:,.0f} CPU minutes{hours}", err=True)


def _tell_stale(runs: list[Run], *, repeated: bool, quiet: bool) -> None:
    """Which stored runs other code made: listed if they are repeated, else counted."""
    if not runs or quiet:
        return
    groups = Counter(f"{run.dataset} {run.method}" for run in runs)
    what = f"{len(runs):,} stored runs were made by other code than this version's"
    if repeated:
        listed = "\n".join(f"  {name}: {number:,}" for name, number in sorted(groups.items()))
        say(f"{what}, and are repeated:\n{listed}", err=True)
    else:
        say(f"{what}; --stale lists and repeats them", err=True)


def _check_places(out: Path, page: Path | None, *, overwrite: bool) -> None:
    """Reject places where files would be replaced that conal did not write."""
    from conal._files import check_file_place
    from conal.experiments.results_page import NOTE, is_results_page
    from conal.experiments.run_files import FOLDER

    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; choose a folder")
    if page is not None:
        check_file_place(page, overwrite=overwrite or (page.is_file() and is_results_page(page)))
    if overwrite or not out.exists() or (out / STORE).exists() or (out / FOLDER).exists():
        return
    others = sorted(path.name for path in out.iterdir() if path.suffix in OUTPUTS and path.name != NOTE)
    if others:
        raise InputError(
            f"{out}: contains {examples(others)} but no {STORE} of earlier runs; choose another folder, or pass "
            "--overwrite to have results of the same names replaced"
        )
