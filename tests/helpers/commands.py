"""Commands of the documentation, in this process: starting one anew for every line takes longer than the line."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import warnings
from unittest import mock

import pytest

from conal.cli import main
from helpers.processes import one_thread

__all__ = ["run_line"]


def run_line(line: str) -> None:
    """Run a line such as ``conal fit labels.csv`` in the current folder; it must end with exit code 0."""
    words = shlex.split(line)
    if words[0] == "torchrun":
        _run_torchrun(words[1:])
    elif words[:3] == ["python", "-m", "studies"]:
        from studies.__main__ import main as run_study

        assert run_study(words[3:]) == 0, line
    else:
        assert words[0] == "conal", line
        _run_conal(words)


def _run_conal(words: list[str]) -> None:
    with (
        warnings.catch_warnings(),
        mock.patch.object(warnings, "showwarning"),  # which ``main`` replaces, as a process of its own may
        mock.patch.object(sys, "argv", words),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert ended.value.code == 0, words


def _run_torchrun(words: list[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    launcher = [sys.executable, "-m", "torch.distributed.run", "--master-port", port]
    done = subprocess.run(
        [*launcher, *words], env=one_thread(), capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
