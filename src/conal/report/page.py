"""``report.json`` to one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from conal.errors import InputError
from conal.io.atomic import atomic_file
from conal.io.models import PAGE, REPORT, read_document
from conal.report.figures import figures, matrix_rows, shown_names
from conal.report.headlines import headlines, selection_story
from conal.report.text import count, interval, percent, short, to_script

__all__ = ["render", "write_report"]

VERSION = 1
MAX_SUGGESTED = 300
"""Suggestions on the page; the table has more."""
MAX_PARAMETER = 200

Report = dict[str, Any]


def write_report(folder: str | PathLike[str], out: str | PathLike[str] | None = None) -> Path:
    """Write the page of a model folder, aside first and then renamed; by default into the folder itself.

    Parameters
    ----------
    folder : path
        A model folder that :meth:`conal.CoNAL.save` or ``conal fit`` wrote.
    out : path, optional
        Where to write; ``report.html`` in the folder by default.
    """
    path = Path(folder) / PAGE if out is None else Path(out)
    text = render(read_document(folder, REPORT))
    with atomic_file(path) as aside:
        aside.write_text(text, encoding="utf-8")
    return path


def render(report: Report) -> str:
    """The whole page. Everything that a user named is escaped, in text and in scripts."""
    if report.get("format") != "conal-report" or report.get("format_version", VERSION + 1) > VERSION:
        raise InputError(f"{REPORT}: is no report that this version of conal reads; fit the model again, or upgrade")
    library, script, style = _library(), _asset("page.js"), _asset("page.css")
    page: str = _template().render(
        report=report,
        headlines=headlines(report),
        story=selection_story(report),
        suggested=report["suggestions"]["rows"][:MAX_SUGGESTED],
        parameters=_parameters(report),
        charts=(charts := figures(report)),
        data=to_script({"charts": charts, "annotators": _details(report)}),
        library=library,
        script=script,
        style=style,
        policy=_policy(library, script),
    )
    return page


def _details(report: Report) -> dict[str, Any]:
    """What a click on an annotator shows, by the row's number."""
    names = shown_names(report)
    found = {}
    for number, row in enumerate(report["annotators"]["rows"]):
        if "matrix" in row:
            met = [round(value, 1) for value in row["classes_met"]]
            found[str(number)] = {"cells": [cell["share"] for cell in matrix_rows(row["matrix"], names)], "met": met}
    return {"classes": names, "rows": found}


def _parameters(report: Report) -> list[tuple[str, str]]:
    return [(name, short(value, MAX_PARAMETER)) for name, value in sorted(report["model"]["parameters"].items())]


@cache
def _template() -> Any:
    environment = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"percent": percent, "short": short, "count": count}
    environment.globals |= {"interval": interval}
    return environment.get_template("page.html")


@cache
def _asset(name: str) -> str:
    return resources.files("conal.report").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, in a scope of its own."""
    bundle = str(_bundle()).replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return f"(function(){{{bundle}}})();"


def _bundle() -> Any:
    import vl_convert

    make: Any = vl_convert.javascript_bundle  # its stub wants a snippet, which it can do without
    return make()


def _policy(*scripts: str) -> str:
    """What the page may do: run these very scripts and style itself. Nothing is loaded, whatever a name says."""
    digests = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data:"
