"""Progress bars appear where somebody watches, and only if there is something to wait for."""

from __future__ import annotations

import sys

import pytest

from conal._support.progress import Progress, TerminalBar, make_progress


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


@pytest.mark.parametrize(("wanted", "terminal"), [(True, True), (True, False), (False, True)])
def test_nobody_watches_no_bar(wanted: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert isinstance(make_progress("work", wanted), TerminalBar) == (wanted and terminal)
    assert isinstance(make_progress("work", wanted), Progress)
