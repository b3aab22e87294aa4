"""Progress of long work: figures and remaining time, in a terminal or a notebook; silent elsewhere."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any, Self

__all__ = ["NotebookBar", "Progress", "TerminalBar", "make_progress"]

REFRESH = 0.2
"""Seconds between two updates of a notebook's output, which travels to a browser."""


class Progress:
    """Base class: receives every finished step, and shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def update(self, completed: int, total: int, figures: str) -> None:
        """Report that ``completed`` of ``total`` steps are finished, with the latest figures."""

    def say(self, line: str) -> None:
        """Tell something that stays when the work is done."""


class TerminalBar(Progress):
    """A progress bar on standard error, removed when the work is done.

    Parameters
    ----------
    title : str
    delay : float
        Seconds to wait before it is shown, so that short work passes without a flicker.
    total : int, optional
        Number of steps, if it is known before the first one.
    """

    def __init__(self, title: str, delay: float = 0.0, total: int | None = None) -> None:
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
        self._task: Any = self._bar.add_task(title, total=total, figures="")
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

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(line, markup=False, highlight=False)

    def _start_when_due(self) -> None:
        if not self._bar.live.is_started and time.monotonic() >= self._show_from:
            self._bar.start()


class NotebookBar(Progress):
    """A progress bar below a notebook's cell, removed when the work is done; needs nothing but IPython.

    Parameters
    ----------
    title : str
    delay : float
        Seconds to wait before it is shown.
    total : int, optional
        Number of steps, if it is known before the first one.
    """

    def __init__(self, title: str, delay: float = 0.0, total: int | None = None) -> None:
        self._title, self._total, self._began = title, total or 0, time.monotonic()
        self._next = self._began + delay
        self._output: Any = None

    def __enter__(self) -> Self:
        self._show(0, self._total, "")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._output is not None:
            self._output.update({"text/plain": "", "text/html": ""}, raw=True)

    def update(self, completed: int, total: int, figures: str) -> None:
        """Advance the bar and show the latest figures."""
        self._show(completed, total, figures)

    def say(self, line: str) -> None:
        """Show a line below the bar."""
        _display({"text/plain": line, "text/html": escape(line)})

    def _show(self, completed: int, total: int, figures: str) -> None:
        now = time.monotonic()
        if now < self._next and not (self._output is not None and completed == total > 0):
            return
        self._next = now + REFRESH
        line = f"{self._title} {completed}/{total or '?'} {figures} {self._remaining(completed, total, now)}".rstrip()
        bar = f'<progress max="{total}" value="{completed}"></progress>' if total else "<progress></progress>"
        content = {"text/plain": line, "text/html": f"{bar} {escape(line)}"}
        if self._output is None:
            self._output = _display(content)
        else:
            self._output.update(content, raw=True)

    def _remaining(self, completed: int, total: int, now: float) -> str:
        if not 0 < completed < total:
            return ""
        seconds = round((now - self._began) * (total - completed) / completed)
        return f"ETA {seconds // 60}:{seconds % 60:02}"


def make_progress(title: str, wanted: bool, delay: float = 0.0, total: int | None = None) -> Progress:
    """A progress bar in a notebook, or if standard error is a terminal; otherwise no output."""
    if wanted and _in_notebook():
        return NotebookBar(title, delay, total)
    return TerminalBar(title, delay, total) if wanted and sys.stderr.isatty() else Progress()


def _display(content: dict[str, str]) -> Any:
    """Show something below a notebook's cell; what comes back can be updated."""
    import IPython.display as ipython  # type: ignore[import-not-found, unused-ignore]

    show: Any = ipython.display
    return show(content, raw=True, display_id=True)


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook, whose standard error is no terminal but is shown to somebody."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
