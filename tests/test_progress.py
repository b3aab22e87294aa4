"""Progress bars appear where somebody watches, and only if there is something to wait for."""

from __future__ import annotations

import sys
import types

import pytest

from conal._progress import Progress, TerminalBar, make_progress


def test_a_bar_waits_for_its_delay() -> None:
    with TerminalBar("quick work", delay=1000.0) as bar:
        bar.update(1, 2, "half")
        assert not bar._bar.live.is_started
    with TerminalBar("long work", delay=0.0) as bar:
        assert bar._bar.live.is_started
        bar.update(1, 2, "half")
        (task,) = bar._bar.tasks
        assert (task.completed, task.total, task.fields["figures"]) == (1, 2, "half")
    assert not bar._bar.live.is_started


class Page:
    """What a notebook shows below a cell, by IPython's interface."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, content: dict[str, str], *, raw: bool, display_id: bool) -> Page:
        assert raw
        assert display_id
        return self.update(content, raw=True)

    def update(self, content: dict[str, str], *, raw: bool) -> Page:
        assert raw
        self.shown.append(content)
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
    clock = iter(range(100))
    monkeypatch.setattr("conal._progress.time.monotonic", lambda: next(clock))
    with make_progress("<work>", wanted=True) as bar:
        bar.update(1, 4, "loss 0.5")
        bar.update(4, 4, "loss 0.1")
    assert [content["text/plain"] for content in notebook.shown] == [
        "<work> 0/?",
        "<work> 1/4 loss 0.5 ETA 0:06",
        "<work> 4/4 loss 0.1",
        "",
    ]
    assert notebook.shown[1]["text/html"] == (
        '<progress max="4" value="1"></progress> &lt;work&gt; 1/4 loss 0.5 ETA 0:06'
    )


def test_what_is_said_stays_in_a_notebook(notebook: Page) -> None:
    with make_progress("work", wanted=True) as bar:
        bar.say("<b> about 3 min")
    assert {"text/plain": "<b> about 3 min", "text/html": "&lt;b&gt; about 3 min"} in notebook.shown


def test_what_is_said_is_printed_above_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with TerminalBar("work") as bar:
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
    assert not any("quick" in content["text/plain"] for content in notebook.shown)


def test_a_notebook_may_be_quiet_too(notebook: Page) -> None:
    assert type(make_progress("work", wanted=False)) is Progress


@pytest.mark.parametrize(("wanted", "terminal"), [(True, True), (True, False), (False, True)])
def test_nobody_watches_no_bar(wanted: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert isinstance(make_progress("work", wanted), TerminalBar) == (wanted and terminal)
    assert isinstance(make_progress("work", wanted), Progress)
