"""One page of all experiments that have been run, made from their tables."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from conal.experiments.base import Experiment, experiments
from conal.experiments.outputs import CODE, REDUCED

__all__ = ["NOTE", "is_results_page", "read_outputs", "results_page"]

ORDER = ("table-1", "table-2", "table-3", "figure-1", "synthetic", "cifar10")
"""The order of the paper; other experiments follow by name."""
TEXT = ("dataset", "protocol", "row", "method", "parameters", "who", "true", "observed", "class", "warning", CODE)
"""Columns that are text, whatever their values look like."""

INTRODUCTION = """# Results

`make results` writes this page from the results of all runs. The tables, with one row per run, are in
[{folder}]({folder}). *Paper* is Chu, Ma and Wang, Learning from Crowds by Modeling Common Confusions, AAAI 2021.
"""


NOTE = "NOTE.md"
"""What readers should know about all tables of a folder, such as that they are older than the code."""


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
    for name in sorted(experiments.names(), key=lambda name: (ORDER.index(name) if name in ORDER else 99, name)):
        if (folder / f"{name}.csv").is_file():
            experiment = experiments.get(name)()
            table = read_outputs(experiment, folder)
            if REDUCED not in table.column_names:
                parts.append(_section(experiment, table, beside))
    return "\n".join(parts)


def read_outputs(experiment: Experiment, folder: Path) -> pa.Table:
    """The table that an experiment wrote."""
    options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(TEXT, pa.string()))
    return pyarrow.csv.read_csv(folder / f"{experiment.stem}.csv", convert_options=options)


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
