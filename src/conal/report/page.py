"""``report.json`` to a single HTML file that works offline."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from jinja2 import UndefinedError

from conal._files import atomic_file
from conal.errors import InputError
from conal.findings import Report
from conal.findings.aggregation import aggregation_story
from conal.findings.annotators import AnnotatorRow
from conal.findings.base import all_findings
from conal.findings.exhibits import Exhibits, exhibited
from conal.findings.model import selection_story
from conal.findings.report import checked_report, origin_of, thumbnails
from conal.findings.rows import safe_link
from conal.findings.suggestions import ON_PAGE
from conal.findings.tasks import TaskRow
from conal.findings.wording import percent, short
from conal.io.model_folder import REPORT, page_place, read_document
from conal.report.figures import figures, matrix_rows, shown_names
from conal.report.headlines import headlines, lead
from conal.report.parts import asset, make_parts, template
from conal.report.script import to_script

__all__ = ["render", "write_report"]

MAX_PARAMETER = 200
"""Characters of a parameter's value."""


def write_report(
    folder: str | PathLike[str], out: str | PathLike[str] | None = None, *, exhibits: Exhibits | None = None
) -> Path:
    """Write the report of a model folder, by default into the folder. A temporary file is written first, then renamed.

    Parameters
    ----------
    folder : path
        A model folder that :meth:`conal.CoNAL.save` or ``conal fit`` wrote.
    out : path, optional
        Where to write; ``report.html`` in the folder by default.
    exhibits : Exhibits, optional
        What to show beside what is in the folder, such as pictures of tasks and names of annotators.
    """
    report = checked_report(read_document(folder, REPORT), REPORT)
    text = render(report if exhibits is None else exhibited(report, exhibits))
    inside = page_place(folder)
    path = inside if out is None else Path(out)
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def render(document: Mapping[str, Any]) -> str:
    """The whole page, from the content of ``report.json``. All names from users are escaped."""
    report = checked_report(document, REPORT)
    try:
        return _rendered(report)
    except (UndefinedError, KeyError, TypeError) as error:  # of declared types, but without what belongs together
        raise InputError(f"{REPORT}: is damaged, {error} is missing or of another kind; fit the model again") from error


def _rendered(report: Report) -> str:
    library, script, charts = _library(), asset("page.js"), figures(report)
    pictures = thumbnails(report)
    first, parts = make_parts(
        report,
        origin=origin_of(report),
        charts=charts,
        pictures=pictures,
        suggested=report["suggestions"]["rows"][:ON_PAGE],
        kept=_kept(report),
        story=_story(report),
        parameters=_parameters(report),
    )
    page: str = template("page.html").render(
        report=report,
        origin=origin_of(report),
        lead=lead(report),
        headlines=headlines(report),
        files=_files(report),
        first=first,
        parts=parts,
        data=to_script({"charts": charts, "annotators": _details(report), "pictures": pictures}),
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
    doubts = {str(number): _doubts(row) for number, row in enumerate(report["annotators"]["rows"]) if "doubtful" in row}
    return {"classes": names, "rows": found, "doubtful": doubts}


def _kept(report: Report) -> list[TaskRow]:
    """Tasks on which the classifier contradicts the votes, and the label follows them; earlier reports list all."""
    found = report["tasks"]["disagreements"]["rows"] if "disagreements" in report["tasks"] else []
    return [row for row in found if row["label"] == row["majority_vote"]]


def _doubts(person: AnnotatorRow) -> list[dict[str, Any]]:
    """An annotator's doubtful labels, as the pop-up shows them."""
    return [
        {
            "task": short(row["task"]),
            "given": short(row["given"]),
            "label": short(row["label"]),
            "probability": percent(row["probability"], 1),
            "text": short(row["text"], 160) if row.get("text") else "",
            "picture": row.get("picture"),
            "link": safe_link(row.get("link")),
            "picture_link": safe_link(row.get("picture_link")),
        }
        for row in person["doubtful"]
    ]


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
