"""One page of all experiments that have been run, made from their tables."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from conal.experiments.base import Experiment, experiments
from conal.experiments.claims import claims_section
from conal.experiments.comparisons import RULE
from conal.experiments.outputs import CODE, REDUCED, read_outputs
from conal.experiments.run_files import CARRIED, FOLDER, MACHINE, read_runs
from conal.experiments.tables import markdown

__all__ = ["NOTE", "full_tables", "in_order", "is_results_page", "results_page", "slug"]

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
JUDGED = "How differences are judged"
REFERENCE = "Differences are judged [by one rule](#how-differences-are-judged)."
"""In place of the rule, which single pages state in full and this page once."""
THIS_VERSION, EARLIER = "this version", "older"
CARRIED_OVER = " {} are by an earlier commit, which they name, and execute nothing that has changed since."


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
    parts = [INTRODUCTION.format(folder=beside), *_cost(folder, beside)]
    parts += [note.read_text(encoding="utf-8")] if note.is_file() else []
    tables = full_tables(folder)
    shown = [_shown(name, table) for name, table in tables.items()]
    if CLAIMED in tables:
        parts.append(claims_section(tables).replace(RULE, REFERENCE))
    if shown:
        parts += [f"## {JUDGED}\n\n{RULE}\n", _contents(shown)]
    return "\n".join([*parts, *(_section(each, beside) for each in shown)])


class _Shown(NamedTuple):
    """A section: its experiment, its table, the fingerprints of the code that made it, and whether that is present."""

    experiment: Experiment
    table: pa.Table
    made: set[str]
    is_present: bool


def _shown(name: str, table: pa.Table) -> _Shown:
    experiment = experiments.get(name)()
    made = {*table[CODE].to_pylist()} if CODE in table.column_names else set()
    return _Shown(experiment, table, made, made == {experiment.code()})


def _cost(folder: Path, beside: str) -> list[str]:
    """What the kept runs took, and where they ran; nothing where none are kept."""
    kept = list(read_runs(folder / FOLDER))
    if not kept:
        return []
    hours = f"{sum(each.figures['seconds'] for each in kept) / 3600:,.1f} CPU hours"
    machines = Counter(each.made_by.get(MACHINE) or "unknown" for each in kept)
    ran = "; ".join(f"{machine} {number:,}" for machine, number in machines.most_common())
    carried = sum(CARRIED in each.made_by for each in kept)
    share = "All of them" if carried == len(kept) else f"{carried:,} of them"
    return [
        f"The {len(kept):,} runs that are kept in [{beside}/{FOLDER}]({beside}/{FOLDER}) took {hours}. Machines, which "
        f"each run names, and their runs: {ran}. The same code rounds differently on another processor, which moves "
        f"single fits, as another seed would.{CARRIED_OVER.format(share) if carried else ''}\n"
    ]


def _contents(shown: Iterable[_Shown]) -> str:
    """A line per section: what it is about, and whether the code of this version made its table."""
    body = [
        [
            f"[{each.experiment.title}](#{slug(each.experiment.title)})",
            each.experiment.shows,
            THIS_VERSION if each.is_present else EARLIER,
        ]
        for each in shown
    ]
    return "## Contents\n\n" + markdown(["section", "what it shows", "made by"], body) + "\n"


def slug(title: str) -> str:
    """The anchor of a heading, the same on code hosts and in the built documentation, whose titles are plain letters.

    >>> slug("Table 1: test accuracy on two real crowds"), slug("From 300 to 20,000 tasks")
    ('table-1-test-accuracy-on-two-real-crowds', 'from-300-to-20000-tasks')
    """
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def full_tables(folder: Path) -> dict[str, pa.Table]:
    """The tables of full size in a folder, by the names of their experiments, in the order of the page."""
    there = [name for name in in_order(experiments.names()) if (folder / f"{name}.csv").is_file()]
    tables = {name: read_outputs(experiments.get(name)(), folder) for name in there}
    return {name: table for name, table in tables.items() if REDUCED not in table.column_names}


def _section(shown: _Shown, beside: str) -> str:
    experiment, table, *_ = shown
    text = re.sub(r"^#", "##", experiment.page(table), flags=re.MULTILINE).replace(RULE, REFERENCE)
    charts = [f"![{experiment.title}: {stem}]({beside}/{stem}.svg)" for stem in experiment.charts(table)]
    return "\n\n".join([text.rstrip("\n"), *charts, _made_by(shown)]) + "\n"


def _made_by(shown: _Shown) -> str:
    """Whether the code that made a table is the present one."""
    if not shown.made:
        return "*Older than this version: made before tables named the code that made them.*"
    names = ", ".join(f"`{each}`" for each in sorted(shown.made))
    if shown.is_present:
        return f"*Made by the code of this version ({names}).*"
    return f"*Older than this version: made by other code ({names}).*"
