"""docs/methods.md: every method and every aggregator, from the registries and docstrings. `make pages` writes it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import conal
from conal import aggregation, methods

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"
METHODS = """\
## Methods

A method trains a classifier on features or texts. `conal.make("aggnet")` makes the estimator, `conal fit --method
aggnet` trains it. The [Python reference](api/classifiers.md) has the parameters."""
AGGREGATORS = """\
## Aggregators

An aggregator needs labels only. `conal.aggregation.make("glad")` or `conal.aggregation.GLAD()` makes it, `conal
aggregate --method glad` runs it. All of them take `Annotations`, frames, matrices and known labels
(`true_labels={task: label}`). The [Python reference](api/aggregation.md) has the parameters."""


def page() -> str:
    """The whole page."""
    text = "[Choosing a method](guides/choosing.md) says which one to take."
    parts = ["# Methods and aggregators", text, METHODS, _table(_methods(), "name | class | what it is")]
    parts += [AGGREGATORS, _table(_aggregators(), "name | class | what it is | use it")]
    return "\n\n".join(parts) + "\n"


def _methods() -> Iterator[tuple[str, ...]]:
    for name in methods.names():
        yield f"`{name}`", f"`{type(conal.make(name)).__name__}`", _first_line(methods.get(name))


def _aggregators() -> Iterator[tuple[str, ...]]:
    for name in aggregation.names():
        kind = aggregation.get(name)
        yield f"`{name}`", f"`{kind.__name__}`", _first_line(kind), _use(kind)


def _first_line(kind: type) -> str:
    return _plain(_text(kind).partition("\n")[0].rstrip("."))


def _use(kind: type) -> str:
    """What the docstring says after "Use it", up to the end of the clause."""
    found = re.search(r"\bUse it (.*?)(?:[:;]|\.\s|\.$)", " ".join(_text(kind).split()))
    return _plain(found[1]) if found else ""


def _text(kind: type) -> str:
    return inspect.getdoc(kind) or ""


def _plain(text: str) -> str:
    """Code and mathematics in Markdown."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`").replace("|", "\\|")


def _table(rows: Iterator[tuple[str, ...]], header: str) -> str:
    rule = "|---" * (header.count("|") + 1) + "|"
    return "\n".join([f"| {header} |", rule, *(f"| {' | '.join(row)} |" for row in rows)])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
