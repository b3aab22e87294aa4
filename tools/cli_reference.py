"""docs/cli.md from the options of every command, what ``--set`` takes, and names of columns: `make pages` writes it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from conal.cli import app
from conal.data.frames import ALIASES, MORE_ALIASES

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
INTRODUCTION = """\
What `--help` says of every command, and the names that `--set NAME=VALUE` takes. A value of `--set` is JSON where it
can be, such as `--set hidden=[64,32]`, and otherwise text. Lists of classes and of words are written with commas, such
as `--set missing=NA,-1`. Parameters of methods and aggregators are set in the same way: the references of
[classifiers](api/classifiers.md) and [aggregators](api/aggregation.md) explain them, and an unknown name lists them.

Exit codes: 0 for success, 1 for failure, 2 for bad usage or bad input, 130 if interrupted, 143 if terminated. With
`--json` a command prints one JSON object on standard output, and everything else on standard error."""

COLUMNS = """\
Columns of tables are found by these names. Upper and lower case, blanks, dots, dashes and underscores make no
difference: `WorkerId` is `worker_id`. Names behind "else" count in tables of labels and of true labels,
where there is none of the others; several of them are an error that says which option chooses one."""
ROLES = ("task", "worker", "label", "truth", "text", "time", "group", "cost", "limit", "left", "right", "winner")


def page() -> str:
    """The whole page."""
    parts = ["# Command line", INTRODUCTION]
    commands = typer.main.get_group(app).commands
    for name in sorted(name for name, command in commands.items() if not command.hidden):
        parts += _section(name, commands[name])
    parts += ["## Names of columns", COLUMNS, _table("column of", [(role, _names(role)) for role in ROLES])]
    return "\n\n".join(parts) + "\n"


def _section(name: str, command: Any) -> Iterator[str]:
    context = command.make_context(name, [], resilient_parsing=True)
    yield f"## conal {name}"
    yield f"`conal {name} {' '.join(command.collect_usage_pieces(context))}`"
    yield inspect.cleandoc(command.help or "")
    panels: dict[str, list[tuple[str, str]]] = {}
    for each in command.get_params(context):
        record = each.get_help_record(context)
        if record is not None:
            panels.setdefault(each.rich_help_panel or each.param_type_name.title(), []).append(record)
    for panel, rows in panels.items():
        yield _table(panel, rows)
    settings = getattr(importlib.import_module(f"conal.cli.{name}"), "SETTINGS", {})
    if settings:
        yield _table("`--set`", [(each.name, each.help + _default(each.default)) for each in settings.values()])


def _names(role: str) -> str:
    more = MORE_ALIASES.get(role, ())
    return _listed(ALIASES[role]) + (f"; else {_listed(more)}" if more else "")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _default(value: Any) -> str:
    return "" if value in (None, False, "") else f" Default: `{value}`."


def _table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table in Markdown; types in angle brackets are in code, where they are shown as they are."""
    cells = [(name.replace("|", "\\|"), text.replace("|", "\\|").replace("\n", " ")) for name, text in rows]
    return "\n".join([f"| {title} | |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in cells)])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
