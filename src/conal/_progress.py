"""Progress of long work: figures and remaining time, in a terminal or a notebook; silent elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any, Self

__all__ = ["Bar", "Progress", "make_progress"]

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


class Bar(Progress):
    """A progress bar on standard error or below a notebook's cell, removed when the work is done.

    Parameters
    ----------
    title : str
    delay : float
        Seconds to wait before it is shown, so that short work passes without a flicker.
    total : int, optional
        Number of steps, if it is known before the first one.
    in_notebook : bool
        Whether it is shown below the cell, which needs nothing but IPython.
    """

    def __init__(self, title: str, delay: float = 0.0, total: int | None = None, *, in_notebook: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}", markup=False),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: Any = self._bar.add_task(title, total=total, figures="")
        self._show_from = time.monotonic() + delay
        self._in_notebook = in_notebook
        self._output: Any = None

    def __enter__(self) -> Self:
        self._show()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._output is not None:
            self._output.update({"text/plain": "", "text/html": ""}, raw=True)
        if self._bar.live.is_started:
            self._bar.stop()

    def update(self, completed: int, total: int, figures: str) -> None:
        """Advance the bar and show the latest figures."""
        self._bar.update(self._task, total=total, completed=completed, figures=figures)
        self._show()

    def say(self, line: str) -> None:
        """Print a line above the bar, or below it in a notebook."""
        if self._in_notebook:
            _display({"text/plain": line}, raw=True)
        else:
            self._bar.console.print(line, markup=False, highlight=False)

    def _show(self) -> None:
        if time.monotonic() < self._show_from and not (self._output is not None and self._bar.finished):
            return
        if not self._in_notebook:
            self._bar.start()
            return
        self._show_from = time.monotonic() + REFRESH
        if self._output is None:
            self._output = _display(self._bar, display_id=True)
        else:
            self._output.update(self._bar)


def make_progress(title: str, wanted: bool, delay: float = 0.0, total: int | None = None) -> Progress:
    """A progress bar in a notebook, or if standard error is a terminal; otherwise no output."""
    in_notebook = _in_notebook()
    watched = wanted and (in_notebook or sys.stderr.isatty())
    return Bar(title, delay, total, in_notebook=in_notebook) if watched else Progress()


def _display(content: Any, **options: Any) -> Any:
    """Show something below a notebook's cell; what comes back can be updated."""
    import IPython.display as ipython  # type: ignore[import-not-found, unused-ignore]

    show: Any = ipython.display
    return show(content, **options)


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook, whose standard error is no terminal but is shown to somebody."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
