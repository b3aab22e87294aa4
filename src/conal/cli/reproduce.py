"""``conal reproduce``: the paper's tables and figures, ours beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conal._support.registry import names_in_source
from conal.cli.options import AsJson, Quiet, emit
from conal.errors import InputError

__all__ = ["reproduce"]

ALL = "all"


def reproduce(
    experiment: Annotated[
        str, typer.Argument(help=f"One of {', '.join(names_in_source('conal.experiments'))}; or all.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for results.sqlite, tables, pages and charts.")],
    quick: Annotated[bool, typer.Option("--quick", help="Reduced size, in minutes; every output says so.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that work at a time, one thread each.")] = 1,
    backend: Annotated[
        str | None, typer.Option(help="joblib's backend: loky here, dask or ray on a cluster that is connected.")
    ] = None,
    images: Annotated[
        bool, typer.Option("--images", help="Images and VGG-16 instead of features, for cifar10; wants a GPU.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option(help="Also write one Markdown page of all experiments in --out, charts included.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds of repeated runs; five, or two with --quick.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Remake a table or figure of the paper, and show ours beside the paper's.

    Finished runs are kept in results.sqlite: the same command goes on where it was stopped, and repeats nothing.
    """
    from conal import experiments
    from conal.experiments.outputs import write_outputs
    from conal.experiments.results_page import results_page
    from conal.experiments.runner import run_missing
    from conal.experiments.store import Store
    from conal.io.atomic import atomic_file

    if page is not None and (quick or images):
        raise InputError("--page is for the full experiments; leave --quick and --images away")
    chosen = experiments.names() if experiment == ALL else [experiment]
    planned = [experiments.get(name)(quick=quick, seeds=seeds, images=images) for name in chosen]
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; choose a folder")
    out.mkdir(parents=True, exist_ok=True)
    done, files = 0, []
    with Store(out / "results.sqlite") as store:
        try:
            for each in planned:
                done += run_missing(store, each.runs(), jobs=jobs, backend=backend, verbose=not quiet)
                files += write_outputs(each, store, out)
                if not (quiet or as_json):
                    typer.echo((out / f"{each.stem}.md").read_text(encoding="utf-8"))
        except KeyboardInterrupt:
            typer.echo(f"stopped; {len(store):,} finished runs are kept: the same command goes on", err=True)
            raise
    if page is not None:
        with atomic_file(page) as aside:
            aside.write_text(results_page(out, page), encoding="utf-8")
        files.append(page)
    result = {"out": out, "experiments": chosen, "runs": done, "quick": quick, "files": [str(path) for path in files]}
    emit(result, f"{done:,} runs; {len(files)} files in {out}", as_json=as_json, quiet=quiet)
