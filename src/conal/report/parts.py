"""The parts of the page: a template for each built-in finding, and one for all others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, cast

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from conal.findings import Report
from conal.findings.annotators import mistakes_above, mostly_measured, usual_share, worse_annotators
from conal.findings.base import RESERVED, findings_registry
from conal.findings.panel import Panel, panel_of
from conal.findings.rows import safe_link
from conal.findings.wording import NONE, count, interval, listed, percent, short

__all__ = ["Part", "asset", "make_parts", "template"]

IN_HEADER = ("crowd",)
"""Sections of ``report.json`` that the header of the page shows."""
FIRST = ("next_steps",)
"""Sections before the sentences of all findings."""
PANEL = "panel.html"
MAX_CELL = 240
"""Characters of a text in a cell of such a finding: lists of names are longer than a name."""
MAX_ROWS = 300
"""Maximum number of rows of a finding without its own template; the file has all."""


class Part(NamedTuple):
    """A finding on the page: links for the navigation, as (anchor, text), and its section or sections."""

    links: list[tuple[str, str]]
    html: Markup


class Column(NamedTuple):
    """A column of a panel's table, its cells as (value to sort by, text to show)."""

    heading: str
    kind: str
    cells: list[tuple[Any, str]]


def make_parts(report: Report, **content: Any) -> tuple[list[Part], list[Part]]:
    """One part per section of the report, in its order, those that come first apart from the others.

    ``content`` is what templates show beside the report.
    """
    sections = cast(dict[str, Any], report)
    names = [name for name in sections if name not in (*RESERVED, *IN_HEADER)]
    made = {name: _part(name, sections[name], {"report": report, **content}) for name in names}
    return [made[name] for name in names if name in FIRST], [made[name] for name in names if name not in FIRST]


def _part(name: str, section: Any, content: dict[str, Any]) -> Part:
    own = f"section-{name}.html"
    if own in _assets():
        return _rendered(own, content)
    known = name in findings_registry.names()
    panel = findings_registry.get(name).panel(section) if known else panel_of(name, section)
    rows = panel.rows[:MAX_ROWS]
    return _rendered(PANEL, {"name": name, "panel": panel, "shown": len(rows), "columns": list(_columns(panel, rows))})


def _rendered(file: str, content: dict[str, Any]) -> Part:
    module: Any = template(file).make_module(content)
    return Part(module.links, Markup(module))  # noqa: S704 - the template escapes


def _columns(panel: Panel, rows: list[tuple[Any, ...]]) -> Iterator[Column]:
    for number, (heading, values) in enumerate(zip(panel.headings, zip(*rows, strict=True), strict=False)):
        kind = "number" if all(value is None or _is_number(value) for value in values) else "text"
        cells = [
            (value, percent(value, 1) if _is_number(value) and panel.is_share(row, number) else _shown(value))
            for row, value in zip(rows, values, strict=True)
        ]
        yield Column(heading, kind, cells)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, list | tuple):
        return listed(value, MAX_CELL) or NONE
    if isinstance(value, float):
        return f"{value:.4g}"
    return count(value) if _is_number(value) else short(value, MAX_CELL)


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
    environment.filters |= {"percent": percent, "short": short, "count": count, "safe_link": safe_link}
    environment.globals |= {
        "interval": interval,
        "mistakes_above": mistakes_above,
        "mostly_measured": mostly_measured,
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
