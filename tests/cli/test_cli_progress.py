"""Progress is shown to somebody who watches, and to nobody else."""

from __future__ import annotations

import os
import pty
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from conal.cli import main
from helpers.processes import code_of, conal_here, fork


@pytest.fixture
def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small simulated crowd on disk."""
    monkeypatch.setattr(
        sys, "argv", ["conal", "simulate", "--out", str(tmp_path / "sim"), "--set", "n_train=200", "--quiet"]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    return tmp_path / "sim"


def fit_in_terminal(crowd: Path, *options: str) -> str:
    """What ``conal fit`` writes to a terminal, without control sequences."""
    words = ["fit", crowd / "labels.csv", "--features", crowd / "features.npy", "--out", crowd.parent / "model"]
    words += ["--valid", crowd / "valid_features.npy", "--valid-labels", crowd / "valid_labels.csv"]
    ours, theirs = pty.openpty()
    act = partial(conal_here, *words, "--epochs", 30, *options)
    child = fork(act, Path(os.ttyname(theirs)), TERM="xterm", COLUMNS="120")
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    assert code_of(child) == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())


def test_a_terminal_sees_loss_accuracy_remaining_time_and_that_the_results_are_made(crowd: Path) -> None:
    seen = fit_in_terminal(crowd)
    assert re.search(r"conal .*\d+/30 +loss \d\.\d{4}  validation accuracy \d+\.\d % +ETA", seen)
    # A step that is over within a tenth of a second, between two refreshes, is not drawn.
    assert re.search(r"results .*(0/2 +what was found about tasks and annotators|1/2 +report)", seen)
    assert "0/?" not in seen


def test_quiet_is_quiet_in_a_terminal_too(crowd: Path) -> None:
    assert fit_in_terminal(crowd, "--quiet") == ""
