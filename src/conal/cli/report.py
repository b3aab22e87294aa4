"""``conal report``: a model folder to one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conal.cli import options
from conal.cli.inputs import ShowOptions, check_results, check_show, exhibits_of

if TYPE_CHECKING:
    from conal.report.exhibits import Exhibits


def report(
    *,
    model: Annotated[Path, typer.Argument(help="Model folder written by conal fit.")],
    out: Annotated[
        Path | None, typer.Option(help="Output HTML file.", show_default="report.html in the model folder")
    ] = None,
    images: Annotated[str | None, options.option(ShowOptions, "images")] = None,
    link: Annotated[str | None, options.option(ShowOptions, "link", "--link")] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the report of a model folder as a single HTML file that works offline.

    It shows common confusions, the annotators' quality, labels that are likely wrong and what to ask next, from the
    folder's report.json. Pictures and addresses that you pass are on the page alone: the folder keeps what it
    has. The report inside the model folder is always replaced; --overwrite is only needed elsewhere.
    """
    from conal.io.model_folder import PAGE
    from conal.report.page import write_report

    is_own_page = out is not None and out.name == PAGE
    check_results(files=[out], model=None if is_own_page else model, overwrite=overwrite)
    show = ShowOptions(images=images, link=link)
    check_show(show)
    path = write_report(model, out, exhibits=_exhibits(model, show))
    options.emit({"out": path, "bytes": path.stat().st_size}, f"report: {path}", as_json=as_json, quiet=quiet)


def _exhibits(model: Path, show: ShowOptions) -> Exhibits | None:
    """What the user wants to see of the tasks; None for nothing more than the folder has."""
    from conal.io.model_folder import REPORT, read_document
    from conal.report.exhibits import task_rows
    from conal.report.findings import checked_report, damage_refused

    if show.images is None and show.link is None:
        return None
    found = checked_report(read_document(model, REPORT), REPORT)
    with damage_refused(REPORT):
        tasks = [row["task"] for row in task_rows(found)]
    return exhibits_of(show, tasks)
