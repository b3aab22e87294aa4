"""``conal report``: a model folder to one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conal.cli.options import AsJson, Overwrite, Quiet, emit
from conal.cli.places import check_results

__all__ = ["report"]


def report(
    model: Annotated[Path, typer.Argument(help="Model folder written by conal fit.")],
    out: Annotated[
        Path | None, typer.Option(help="Output HTML file.", show_default="report.html in the model folder")
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write the report of a model folder as a single HTML file that works offline.

    It shows common confusions, the annotators' quality, labels that are likely wrong and what to ask next, from the
    folder's report.json. The report inside the model folder is always replaced; --overwrite is only needed elsewhere.
    """
    from conal.io.models import PAGE
    from conal.report import write_report

    is_own_page = out is not None and out.name == PAGE
    check_results(files=[out], model=None if is_own_page else model, overwrite=overwrite)
    path = write_report(model, out)
    emit({"out": path, "bytes": path.stat().st_size}, f"report: {path}", as_json=as_json, quiet=quiet)
