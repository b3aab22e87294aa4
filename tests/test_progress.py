"""Progress bars appear where somebody watches, and only if there is something to wait for."""

from __future__ import annotations

import re
import sys
import types
from typing import Any

import pytest

from conal._progress import Bar, Progress, make_progress


def test_a_bar_waits_for_its_delay() -> None:
    with Bar("quick work", delay=1000.0) as bar:
        bar.update(1, 2, "half")
        assert not bar._bar.live.is_started
    with Bar("long work", delay=0.0) as bar:
        assert bar._bar.live.is_started
        bar.update(1, 2, "half")
        (task,) = bar._bar.tasks
        assert (task.completed, task.total, task.fields["figures"]) == (1, 2, "half")
    assert not bar._bar.live.is_started


class Page:
    """What a notebook shows below a cell as plain text, by IPython's interface."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, content: Any, *, raw: bool = False, display_id: bool = False) -> Page:
        assert raw != display_id
        return self.update(content, raw=raw)

    def update(self, content: Any, *, raw: bool = False) -> Page:
        made = content if raw else content._repr_mimebundle_([], [])
        self.shown.append(made["text/plain"].strip())
        return self


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Page:
    """The kernel of a notebook: IPython with a shell that has a kernel, and standard error that is no terminal."""
    page, shell = Page(), types.SimpleNamespace(kernel=object())
    ipython = types.ModuleType("IPython")
    display = types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    display.display = page.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    return page


def test_a_notebook_shows_a_bar_below_the_cell(notebook: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conal._progress.REFRESH", 0.0)
    with make_progress("<work> [b]", wanted=True) as bar:
        bar.update(1, 4, "loss [0.5]")
        bar.update(4, 4, "loss 0.1")
    first, second, third, last = notebook.shown
    assert re.fullmatch(r"<work> \[b\] .* 0/\?\s+ETA.*", first)
    assert re.fullmatch(r"<work> \[b\] .* 1/4 loss \[0\.5\] ETA .*", second)
    assert re.fullmatch(r"<work> \[b\] .* 4/4 loss 0\.1 ETA.*", third)
    assert last == ""


def test_what_is_said_stays_in_a_notebook(notebook: Page) -> None:
    with make_progress("work", wanted=True) as bar:
        bar.say("<b> about 3 min")
    assert "<b> about 3 min" in notebook.shown


def test_what_is_said_is_printed_above_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("work") as bar:
        bar.say("[bold] about 3 min")
    assert "[bold] about 3 min" in capsys.readouterr().err
    Progress().say("nobody hears this")
    assert capsys.readouterr() == ("", "")


def test_a_notebook_is_not_flooded(notebook: Page) -> None:
    with make_progress("work", wanted=True) as bar:
        for k in range(1000):
            bar.update(k, 2000, "")
    assert len(notebook.shown) < 50
    with make_progress("quick work", wanted=True, delay=1000.0) as bar:
        bar.update(1, 1, "")
    assert not any("quick" in text for text in notebook.shown)


def test_a_notebook_may_be_quiet_too(notebook: Page) -> None:
    assert type(make_progress("work", wanted=False)) is Progress


@pytest.mark.parametrize(("wanted", "terminal"), [(True, True), (True, False), (False, True)])
def test_nobody_watches_no_bar(wanted: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert isinstance(make_progress("work", wanted), Bar) == (wanted and terminal)
    assert isinstance(make_progress("work", wanted), Progress)
