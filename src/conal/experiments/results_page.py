"""One page of all experiments that have been run, made from their tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from conal.experiments.base import Experiment, experiments
from conal.experiments.claims import claims_section
from conal.experiments.outputs import CODE, REDUCED, read_outputs

__all__ = ["NOTE", "full_tables", "in_order", "is_results_page", "results_page"]

ORDER = (
    "table-1",
    "table-2",
    "table-3",
    "classes",
    "fair-trial",
    "figure-1",
    "cifar10",
    "synthetic",
    "recovery",
    "confusions",
    "omega",
    "curves",
    "gold-free",
    "calibration",
)
"""What the paper has, in its order, then what it claims nothing about; other experiments follow by name."""
CLAIMED = "table-1"
"""With this table, a page judges the paper's claims."""

INTRODUCTION = """# Results

`make results` writes this page from the results of all runs. The tables, with one row per run, are in
[{folder}]({folder}). *Paper* is Chu, Ma and Wang, Learning from Crowds by Modeling Common Confusions, AAAI 2021.
"""


NOTE = "NOTE.md"
"""What readers should know about all tables of a folder, such as that they are older than the code."""


def in_order(names: Iterable[str]) -> list[str]:
    """Experiments as the page has them, and as they are run.

    >>> in_order(["bound", "synthetic", "table-1"])
    ['table-1', 'synthetic', 'bound']
    """
    return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def is_results_page(page: Path) -> bool:
    """Whether a file begins as such a page does."""
    opening = INTRODUCTION.partition("{")[0].encode()
    with page.open("rb") as file:
        return file.read(len(opening)) == opening


def results_page(folder: Path, page: Path) -> str:
    """Every experiment of full size whose CSV is in ``folder``, with its charts.

    Links are relative to the page's own place.
    """
    beside = Path(os.path.relpath(folder, page.parent)).as_posix()
    note = folder / NOTE
    parts = [INTRODUCTION.format(folder=beside), *([note.read_text(encoding="utf-8")] if note.is_file() else [])]
    tables = full_tables(folder)
    if CLAIMED in tables:
        parts.append(claims_section(tables))
    parts += [_section(experiments.get(name)(), table, beside) for name, table in tables.items()]
    return "\n".join(parts)


def full_tables(folder: Path) -> dict[str, pa.Table]:
    """The tables of full size in a folder, by the names of their experiments, in the order of the page."""
    there = [name for name in in_order(experiments.names()) if (folder / f"{name}.csv").is_file()]
    tables = {name: read_outputs(experiments.get(name)(), folder) for name in there}
    return {name: table for name, table in tables.items() if REDUCED not in table.column_names}


def _section(experiment: Experiment, table: pa.Table, beside: str) -> str:
    text = re.sub(r"^#", "##", experiment.page(table), flags=re.MULTILINE)
    charts = [f"![{experiment.title}: {stem}]({beside}/{stem}.svg)" for stem in experiment.charts(table)]
    return "\n\n".join([text.rstrip("\n"), *charts, _made_by(experiment, table)]) + "\n"


def _made_by(experiment: Experiment, table: pa.Table) -> str:
    """Whether the code that made a table is the present one."""
    made = {*table[CODE].to_pylist()} if CODE in table.column_names else set()
    if not made:
        return "*Older than this version: made before tables named the code that made them.*"
    names = ", ".join(f"`{each}`" for each in sorted(made))
    if made == {experiment.code()}:
        return f"*Made by the code of this version ({names}).*"
    return f"*Older than this version: made by other code ({names}).*"
