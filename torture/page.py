"""The table of counts in ``SECURITY.md``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

__all__ = ["table", "write_page"]

MARKED = re.compile(r"(<!-- campaign -->\n).*?(<!-- end -->)", flags=re.DOTALL)
TITLES = {
    "signals": "signals to fits",
    "resumed fits": "fits resumed after signals",
    "fuzzed files": "broken files",
    "tables of odd names": "tables of odd names",
    "tampered folders": "tampered model folders",
    "tampered checkpoints": "tampered checkpoints",
}


def write_page(page: Path, summary: dict[str, Any]) -> None:
    """Put the table between the markers of the page."""
    text = page.read_text(encoding="utf-8")
    page.write_text(MARKED.sub(lambda found: f"{found[1]}\n{table(summary)}\n\n{found[2]}", text), encoding="utf-8")


def table(summary: dict[str, Any]) -> str:
    """One row per part: how many attacks, how they ended, and how many failed."""
    rows = [_row(title, summary["counts"].get(part, {})) for part, title in TITLES.items()]
    minutes = round(summary["seconds"] / 60)
    kinds = len(summary["failures"])
    head = f"{summary['date']}, {minutes:,} minutes, {_processes(summary['jobs'])}, seed {summary['seed']}: "
    head += "no failure." if not kinds else f"{kinds} kinds of failure."
    return "\n".join(
        [head, "", "| attack | number | how they ended | failed |", "|---|---:|---|---:|", *filter(None, rows)]
    )


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def _row(title: str, outcomes: dict[str, int]) -> str:
    if not outcomes:
        return ""
    ended = ", ".join(f"{outcome} {number:,}" for outcome, number in sorted(outcomes.items()) if outcome != "failed")
    return f"| {title} | {sum(outcomes.values()):,} | {ended} | {outcomes.get('failed', 0):,} |"
