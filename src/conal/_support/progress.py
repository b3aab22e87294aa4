"""Progress of long work: figures and remaining time; silent unless standard error is a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any, Self

__all__ = ["Progress", "TerminalBar", "make_progress"]


class Progress:
    """Base class: receives every finished step, and shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def update(self, completed: int, total: int, figures: str) -> None:
        """Report that ``done`` of ``total`` steps are finished, with the latest figures."""


class TerminalBar(Progress):
    """A progress bar on standard error, removed when the work is done.

    Parameters
    ----------
    title : str
    delay : float
        Seconds to wait before it is shown, so that short work passes without a flicker.
    """

    def __init__(self, title: str, delay: float = 0.0) -> None:
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
        self._show_from = time.monotonic() + delay

    def __enter__(self) -> Self:
        self._start_when_due()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def update(self, completed: int, total: int, figures: str) -> None:
        """Advance the bar and show the latest figures."""
        self._bar.update(self._task, total=total, completed=completed, figures=figures)
        self._start_when_due()

    def _start_when_due(self) -> None:
        if not self._bar.live.is_started and time.monotonic() >= self._show_from:
            self._bar.start()


def make_progress(title: str, wanted: bool, delay: float = 0.0) -> Progress:
    """A progress bar if standard error is a terminal, otherwise no output."""
    return TerminalBar(title, delay) if wanted and sys.stderr.isatty() else Progress()
