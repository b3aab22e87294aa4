"""``report.json`` to a single HTML file that works offline."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from conal.findings import Report
from conal.findings.aggregation import aggregation_story
from conal.findings.base import all_findings
from conal.findings.model import selection_story
from conal.findings.report import checked_report, origin_of
from conal.findings.wording import short
from conal.io.atomic import atomic_file
from conal.io.models import REPORT, page_place, read_document
from conal.report.figures import figures, matrix_rows, shown_names
from conal.report.headlines import headlines
from conal.report.parts import asset, make_parts, template
from conal.report.script import to_script

__all__ = ["render", "write_report"]

MAX_SUGGESTED = 300
"""Suggestions on the page; the table has more."""
MAX_PARAMETER = 200
"""Characters of a parameter's value."""


def write_report(folder: str | PathLike[str], out: str | PathLike[str] | None = None) -> Path:
    """Write the report of a model folder, by default into the folder. A temporary file is written first, then renamed.

    Parameters
    ----------
    folder : path
        A model folder that :meth:`conal.CoNAL.save` or ``conal fit`` wrote.
    out : path, optional
        Where to write; ``report.html`` in the folder by default.
    """
    text = render(read_document(folder, REPORT))
    inside = page_place(folder)
    path = inside if out is None else Path(out)
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def render(document: Mapping[str, Any]) -> str:
    """The whole page, from the content of ``report.json``. All names from users are escaped."""
    report = checked_report(document, REPORT)
    library, script, charts = _library(), asset("page.js"), figures(report)
    page: str = template("page.html").render(
        report=report,
        origin=origin_of(report),
        headlines=headlines(report),
        files=_files(report),
        parts=make_parts(
            report,
            origin=origin_of(report),
            charts=charts,
            suggested=report["suggestions"]["rows"][:MAX_SUGGESTED],
            story=_story(report),
            parameters=_parameters(report),
        ),
        data=to_script({"charts": charts, "annotators": _details(report)}),
        library=library,
        script=script,
        style=asset("page.css"),
        policy=_policy(library, script),
    )
    return page


def _story(report: Report) -> list[str]:
    """How the labels came about."""
    return selection_story(report["model"]) if "model" in report else aggregation_story(report["aggregation"])


def _details(report: Report) -> dict[str, Any]:
    """What a click on an annotator shows, by the row's number."""
    names = shown_names(report)
    found = {}
    for number, row in enumerate(report["annotators"]["rows"]):
        if "matrix" in row:
            met = [round(value, 1) for value in row["classes_met"]]
            found[str(number)] = {"cells": [cell["share"] for cell in matrix_rows(row["matrix"], names)], "met": met}
    return {"classes": names, "rows": found}


def _files(report: Report) -> list[str]:
    """The files of the model folder with the content of the page."""
    tables = [finding.table for finding in all_findings() if finding.name in report and finding.table]
    return list(dict.fromkeys([REPORT, *tables]))


def _parameters(report: Report) -> list[tuple[str, str]]:
    return [(name, short(value, MAX_PARAMETER)) for name, value in sorted(origin_of(report)["parameters"].items())]


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, in a separate scope."""
    bundle = asset("vega.js").replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return f"(function(){{{bundle}}})();"


def _policy(*scripts: str) -> str:
    """Content security policy: only these scripts and inline styles; nothing is loaded."""
    digests = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data:"
