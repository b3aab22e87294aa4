"""Progress on long work: loss, selection score and remaining time; silent where nobody is watching."""

from __future__ import annotations

import sys
from typing import Any, Self

__all__ = ["Progress", "Row", "TerminalBar", "make_progress"]

Row = dict[str, float]
"""One line of the training history: epoch, loss, learning rate, seconds and the selection score."""


class Progress:
    """Is told about every finished epoch, and says nothing about it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def epoch(self, row: Row, epochs: int) -> None:
        """Epoch ``row["epoch"]`` of ``epochs`` has ended."""


class TerminalBar(Progress):
    """A bar on standard error, which vanishes when the work is done."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: Any = self._bar.add_task(title, total=None, figures="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()

    def epoch(self, row: Row, epochs: int) -> None:
        """Advance the bar and show the latest figures."""
        self._bar.update(self._task, total=epochs, completed=int(row["epoch"]), figures=figures(row))


def figures(row: Row) -> str:
    """The figures of an epoch in words.

    >>> figures({"epoch": 3, "loss": 1.25, "seconds": 0.1, "validation_accuracy": 0.875})
    'loss 1.2500  validation accuracy 87.5 %'
    """
    text = f"loss {row['loss']:.4f}"
    if "validation_accuracy" in row:
        text += f"  validation accuracy {100 * row['validation_accuracy']:.1f} %"
    if "holdout_log_likelihood" in row:
        text += f"  held-out log-likelihood {row['holdout_log_likelihood']:.4f}"
    return text


def make_progress(title: str, wanted: bool) -> Progress:
    """A bar where somebody can see it, silence otherwise."""
    return TerminalBar(title) if wanted and sys.stderr.isatty() else Progress()
