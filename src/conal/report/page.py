"""``report.json`` to a single HTML file that works offline."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from functools import cache, partial
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from conal._files import atomic_file
from conal.io.model_folder import REPORT, page_place, read_document
from conal.metrics.rates import MIN_OF_ANNOTATOR
from conal.report.charts import figures, matrix_rows, shown_names
from conal.report.evidence import MIN_TRUE_LABELS, Plain, Report, safe_link
from conal.report.exhibits import Exhibits, exhibited
from conal.report.findings import (
    RESERVED,
    all_findings,
    checked_report,
    damage_refused,
    findings_registry,
    origin_of,
    thumbnails,
)
from conal.report.sections.annotators import (
    mistakes_above,
    mostly_measured,
    shown_digits,
    usual_share,
    worse_annotators,
)
from conal.report.sections.plan import ON_PAGE
from conal.report.sections.shared_mistakes import per_task
from conal.report.wording import NONE, called, count, interval, listed, percent, points, short

# The most important sentences of all findings.


def headlines(report: Report) -> list[Markup]:
    """The headlines, most important first; findings without a headline are left out."""
    return [sentence for sentences in _sentences(report).values() for sentence in sentences]


def _sentences(report: Report) -> dict[str, list[Markup]]:
    """The headlines of each finding."""
    present = [finding for finding in all_findings() if finding.name in report]
    return {finding.name: list(finding.headlines(report[finding.name], report)) for finding in present}


def lead(report: Report) -> Markup:
    """The first lines of the page: how many labels are right, and whether that was measured or is believed."""
    lines = template("lead.html").render(report=report).splitlines()
    return Markup(" ".join(filter(None, map(str.strip, lines))))  # noqa: S704 - the template escapes


_STEPS = re.compile(r'<ol class="do">(.*?)</ol>', re.DOTALL)
_LINK = re.compile(r"<a .*?</a>", re.DOTALL)


def outcome(report: Report) -> list[str]:
    """The first screen in a few lines of text: labels changed, common confusions, who is worst, and what to do next."""
    changed = report["tasks"]["likely_wrong"]["total"]
    lines = [f"{count(changed, 'label differs', 'labels differ')} from the majority vote"]
    pairs = [pair for pair in report["common_confusion"]["pairs"] if pair["annotators_who_made_it"]][:3]
    shown = (f"{short(a['true'])} is labelled {short(a['observed'])} ({percent(a['share'])})" for a in pairs)
    lines += ["common confusions: " + (", ".join(shown) or "no two classes are confused often")]
    for worst in worse_annotators(report["annotators"]["rows"], report["crowd"])[:1]:
        basis = "measured" if worst.get("quality_basis") == "measured" else "believed"
        labels = count(worst["num_examples_labeled"], "label", "labels")
        right = f"{percent(worst['annotator_quality'])} of {labels} right ({basis})"
        lines.append(f"worst annotator: {short(worst['worker'])}, {right}")
    found = _STEPS.search(template("first.html").render(report=report, sentences=_sentences(report)))
    steps = [Markup(_LINK.sub("", step)).striptags() for step in found[1].split("</li>")[:-1]] if found else []  # noqa: S704
    lines += [f"{k}. {step}" for k, step in enumerate(steps, 1)]
    return [line.replace("\xa0", " ") for line in lines]


# Data for the page's scripts.

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def to_script(data: Any) -> Markup:
    """JSON that can stand in a script element: nothing in it can end the element or begin another."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return Markup(text)  # noqa: S704 - every character that HTML knows is escaped


# The parts of the page: a template for each built-in finding, and one for all others.

ON_TOP = ("crowd",)
"""Sections of ``report.json`` without a part of the page: the first screen shows them."""
MAX_CELL = 240
"""Characters of a text in a cell of such a finding: lists of names are longer than a name."""
MAX_ROWS = 300
"""Maximum number of rows of a finding without its own template; the file has all."""


def make_parts(content: dict[str, Any]) -> list[Markup]:
    """One part per section of ``content["report"]``, in its order."""
    return [_part(name, content) for name in content["report"] if name not in (*RESERVED, *ON_TOP)]


def _part(name: str, content: dict[str, Any]) -> Markup:
    own = f"section-{name}.html"
    if own in _assets():
        made = template(own).render(content)
    else:
        panel = panel_of(name, content["report"][name])
        made = template("panel.html").render(name=name, panel=panel, sentences=content["sentences"].get(name))
    return Markup(made)  # noqa: S704 - the template escapes


class Panel(NamedTuple):
    """A section as the page shows it if it has no template of its own: a title, a sentence and a table.

    Columns are (heading, "number" or "text", cells), and cells (value to sort by, text to show).
    """

    title: str
    text: str
    columns: list[tuple[str, str, list[tuple[Any, str]]]]
    total: int
    file: str | None


def panel_of(name: str, section: Any) -> Panel:
    """A panel made from a section of ``report.json`` as it is.

    A section with ``rows`` (a list of objects) becomes a table of them; of any other object, the single values become
    a table of two columns. The key ``text``, if there is one, is the sentence above. A key that ends in ``_share`` is a
    share, which the page shows in percent.

    >>> panel_of("drift", {"text": "Slow.", "rows": [{"task_id": 3, "big_share": 0.5}, {"task_id": 4}]})[:2]
    ('Drift', 'Slow.')
    >>> panel_of("drift", {"rows": [{"task_id": 3, "big_share": 0.5}, {"task_id": 4}]}).columns
    [('task id', 'number', [(3, '3'), (4, '4')]), ('big share', 'number', [(0.5, '50.0\xa0%'), (None, '–')])]
    >>> panel_of("drift", {"slope": 0.1, "parts": [1, 2]}).columns
    [('figure', 'text', [('slope', 'slope')]), ('value', 'number', [(0.1, '0.1')])]
    """
    content = section if isinstance(section, dict) else {"value": section}
    finding = findings_registry.get(name) if name in findings_registry.names() else None
    rows = content.get("rows")
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        keys = dict.fromkeys(key for row in rows for key in row)
        table = {_words(key): [_cell(key, row.get(key)) for row in rows[:MAX_ROWS]] for key in keys}
    else:
        rows = [key for key, value in content.items() if _is_single(value) and key != "text"]
        table = {"figure": [(_words(key),) * 2 for key in rows], "value": [_cell(key, content[key]) for key in rows]}
    columns = [
        (heading, "number" if all(value is None or _is_number(value) for value, _ in cells) else "text", cells)
        for heading, cells in table.items()
    ]
    title = (finding and finding.title) or _words(name).capitalize()
    return Panel(title, content.get("text", ""), columns, len(rows), None if finding is None else finding.table)


def _words(key: str) -> str:
    return key.replace("_", " ")


def _is_single(value: Any) -> bool:
    return value is None or isinstance(value, str | bool | int | float)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(key: str, value: Any) -> tuple[Any, str]:
    """A value, and the text to show."""
    if value is None:
        return value, NONE
    if isinstance(value, list | tuple):
        return value, listed(value, MAX_CELL) or NONE
    if _is_number(value) and key.endswith("_share"):
        return value, percent(value, 1)
    if isinstance(value, float):
        return value, f"{value:.4g}"
    return value, count(value) if _is_number(value) else short(value, MAX_CELL)


@cache
def template(file: str) -> Any:
    """A template of the page; everything that it shows is escaped."""
    return _environment().get_template(file)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "percent": percent,
        "short": short,
        "count": count,
        "listed": partial(listed, limit=MAX_CELL),
        "safe_link": safe_link,
        "shell": shlex.quote,
    }
    environment.globals |= {
        "called": called,
        "interval": interval,
        "min_of_annotator": MIN_OF_ANNOTATOR,
        "min_true_labels": MIN_TRUE_LABELS,
        "per_task": per_task,
        "points": points,
        "mistakes_above": mistakes_above,
        "mostly_measured": mostly_measured,
        "shown_digits": shown_digits,
        "usual_share": usual_share,
        "worse_annotators": worse_annotators,
    }
    return environment


@cache
def asset(name: str) -> str:
    """A file of the page, as text."""
    return resources.files("conal.report").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _assets() -> frozenset[str]:
    return frozenset(entry.name for entry in resources.files("conal.report").joinpath("assets").iterdir())


# ``report.json`` to a single HTML file that works offline.

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
    text = render(read_document(folder, REPORT), exhibits)
    path = page_place(folder, out)
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def render(document: Report, exhibits: Exhibits | None = None) -> str:
    """The whole page, from the content of ``report.json``. All names from users are escaped."""
    report = checked_report(document, REPORT)
    with damage_refused(REPORT):
        return _rendered(report if exhibits is None else exhibited(report, exhibits))


def _rendered(report: Report) -> str:
    library, script, origin = _library(), asset("page.js"), origin_of(report)
    content = {
        "report": report,
        "origin": origin,
        "charts": figures(report),
        "sentences": _sentences(report),
        "pictures": thumbnails(report),
        "suggested": report["suggestions"]["rows"][:ON_PAGE],
        "kept": _kept(report),
        "parameters": [(name, short(value, MAX_PARAMETER)) for name, value in sorted(origin["parameters"].items())],
    }
    page: str = template("page.html").render(
        content,
        files=_files(report),
        parts=make_parts(content),
        data=to_script({name: content[name] for name in ("charts", "pictures")} | {"annotators": _details(report)}),
        library=library,
        script=script,
        style=asset("page.css"),
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
    doubts = {str(number): _doubts(row) for number, row in enumerate(report["annotators"]["rows"]) if "doubtful" in row}
    return {"classes": names, "rows": found, "doubtful": doubts}


def _kept(report: Report) -> list[Plain]:
    """Tasks on which the classifier contradicts the votes, and the label follows them; earlier reports list all."""
    found = report["tasks"]["disagreements"]["rows"] if "disagreements" in report["tasks"] else []
    return [row for row in found if row["label"] == row["majority_vote"]]


def _doubts(person: Plain) -> list[dict[str, Any]]:
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
