"""Parts of Markdown pages that follow from the code: `make pages` writes them, and a test compares them.

A part stands between ``<!-- made: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from choice import choice_notes, choice_table
from conal import aggregation, methods
from conal.experiments.coverage import Coverage, coverage_table
from conal.experiments.outputs import CODE, read_outputs
from conal.experiments.results_page import results_page
from guide_statements import GUIDE_STATEMENTS
from noise_statements import commonness, effective_number_of_juries, effective_number_of_sparse_crowd
from speed_statements import SPEED_STATEMENTS
from statements import STATEMENTS, wrapped

__all__ = ["PAGES", "PARTS", "renewed"]

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "conal"
DOCS = ROOT / "docs"
PAGES = (
    ROOT / "README.md",
    *(
        DOCS / f"{name}.md"
        for name in (
            *("architecture", "choosing", "common-noise", "fifty-gold-labels", "harm", "juries", "living"),
            *("many-machines", "next-labels", "privacy", "reading-the-report", "reproducing"),
        )
    ),
)
WIDTH = 120
FIRST = ("conal", "xconal", "conal-em")
"""The project's own methods come first; all others follow in order of their names."""


def renewed(text: str) -> str:
    """A page with its made parts as the code has them now."""
    return re.sub(
        r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}\n{PARTS[m[2]]()}\n\n{m[3]}", text, flags=re.S
    )


def method_table() -> str:
    """A row for every registered method."""
    names = [*FIRST, *(name for name in methods.names() if name not in FIRST)]
    rows = [f"| `{name}` | {_summary(methods.get(name).story)} |" for name in names]
    return "\n".join(["| name | what it does |", "|---|---|", *rows])


def aggregator_table() -> str:
    """A row for every registered aggregator."""
    found = [(name, aggregation.get(name)) for name in aggregation.names()]
    rows = [f"| `{name}` | `{cls.__name__}` | {_summary(cls.story)} |" for name, cls in found]
    return "\n".join(["| name | class | what it does |", "|---|---|---|", *rows])


def rooms() -> str:
    """Every module with the first line of its docstring."""
    lines = ["```", "src/conal/"]
    lines += [_line(path, 1) for path in _modules(PACKAGE)]
    for folder in sorted(path for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()):
        lines += _room(folder, 1)
    return "\n".join([*lines, "```"])


def _room(folder: Path, depth: int) -> list[str]:
    lines = [f"{'  ' * depth}{folder.name + '/':{28 - 2 * depth}}{_story(folder / '__init__.py')}"]
    lines += [_line(path, depth + 1) for path in _modules(folder)]
    for inner in sorted(path for path in folder.iterdir() if (path / "__init__.py").is_file()):
        lines += _room(inner, depth + 1)
    return lines


def _modules(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.py") if path.name not in ("__init__.py", "__main__.py"))


def _line(path: Path, depth: int) -> str:
    return f"{'  ' * depth}{path.name:{28 - 2 * depth}}{_story(path)}"


def _story(path: Path) -> str:
    return _summary(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")


def _summary(docstring: str) -> str:
    """The first sentence or line, without markup and without its full stop."""
    first = inspect.cleandoc(docstring).split("\n\n")[0].replace("\n", " ").replace("``", "`")
    return re.sub(r":\w+:`~?\.?([^`]+)`", r"`\1`", first).rstrip(".").replace("|", "\\|")


def coverage() -> str:
    """How many intervals of the default method hold, from the stored results; a line says if these are old."""
    table = read_outputs(Coverage(), DOCS / "results")
    old = (
        "*These are figures of an earlier version, whose intervals all came from the sampler. They stand until `conal "
        "reproduce coverage` is run again.*"
    )
    return coverage_table(table, "xconal") + ("" if CODE in table.column_names else f"\n\n{old}")


PARTS: dict[str, Callable[[], Any]] = {
    "methods": method_table,
    "aggregators": aggregator_table,
    "rooms": rooms,
    "choice": choice_table,
    "choice_notes": wrapped(choice_notes),
    "coverage": coverage,
    **STATEMENTS,
    **GUIDE_STATEMENTS,
    **SPEED_STATEMENTS,
    "commonness": wrapped(commonness),
    "juries": wrapped(effective_number_of_juries),
    "sparse_crowd": wrapped(effective_number_of_sparse_crowd),
}


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
    results = DOCS / "results.md"  # which says of every table whether the present code made it
    results.write_text(results_page(results.with_suffix(""), results), encoding="utf-8")
