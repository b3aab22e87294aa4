"""Sentences about several processes and machines, made from docs/performance and from the formulas of the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from statements import wrapped

__all__ = ["SPEED_STATEMENTS"]

PROCESSES = Path(__file__).parents[1] / "docs" / "performance" / "processes.json"
"""Written by `make bench-processes`."""
AGGREGATED, LABELS = "dawid-skene", 1_000_000
"""The case that is an iteration of Dawid-Skene, and its labels."""
ANNOTATIONS, TASKS, ANNOTATORS, CLASSES, NODES = 10**9, 200_000_000, 100_000, 10, 16
"""The example of the page."""
BYTES, GBIT = 12, 10
"""Of an annotation in memory; and what the network carries per second."""
ITERATIONS = 20


def _rows() -> dict[str, dict[str, Any]]:
    found: dict[str, Any] = json.loads(PROCESSES.read_text(encoding="utf-8"))
    return {row["case"]: row for row in found["rows"]}


def exchanged() -> str:
    """What two processes sent, against the formulas; and what a step takes by one and by two."""
    rows = _rows()
    more = [100 * (row["bytes"] / row["model"] - 1) for row in rows.values()]
    steps = [row for case, row in rows.items() if case != AGGREGATED]
    one, two = ([row[f"ms {n}"] for row in steps] for n in (1, 2))
    return (
        f"Two processes on one machine exchanged {min(more):.1f} to {max(more):.1f} % more than these formulas predict "
        "([measured](performance.md#two-processes)). The same table shows when several processes do *not* pay off: a "
        f"step of the paper's small network takes {min(one):.1f} to {max(one):.1f} ms by one process, and "
        f"{min(two):.1f} to {max(two):.1f} ms by two. Several processes pay off for large networks, for features that "
        "are slow to read, and for data that do not fit on one machine."
    )


def billion() -> str:
    """An example that is calculated from the formulas, and from the measured time of one process."""
    each = round(1e6 * _rows()[AGGREGATED]["ms 1"] / LABELS)
    part, tasks = ANNOTATIONS / NODES, TASKS / NODES
    counts = 2 * 8 * ANNOTATORS * CLASSES**2
    sent = 2 * (NODES - 1) / NODES * 8 * ANNOTATORS * CLASSES**2
    computing, sending = part * each / 1e9, sent * 8 / (GBIT * 1e9)
    whole = computing + sending
    return (
        f"- *Memory per node*: all annotations {BYTES * ANNOTATIONS / 1e9:.0f} GB, if every node reads them all "
        f"({BYTES} bytes · 10⁹); its own part as codes {BYTES * part / 1e9:.2f} GB; counts and matrices 2 · 8 · 10⁵ · "
        f"10² = {counts / 1e6:.0f} MB; the posterior of its {tasks / 1e6:.1f} million tasks "
        f"{8 * CLASSES * tasks / 1e9:.0f} GB.\n"
        f"- *Time per iteration*: at {each} ns per annotation, as one process takes "
        f"([measured](performance.md#two-processes)), 10⁹ / {NODES} · {each} ns = {computing:.2f} s.\n"
        f"- *Communication per iteration*: 2 · {NODES - 1} / {NODES} · 8 · 10⁷ bytes = {sent / 1e6:.0f} MB, which "
        f"takes {sending:.2f} s at {GBIT} Gbit/s.\n\n"
        f"An iteration takes {whole:.1f} s, {100 * computing / whole:.0f} % of it computation, and {ITERATIONS} "
        f"iterations take {ITERATIONS * whole:.0f} s."
    )


SPEED_STATEMENTS: dict[str, Callable[[], str]] = {make.__name__: wrapped(make) for make in (exchanged, billion)}
"""Parts of pages, by the names that pages call them."""
