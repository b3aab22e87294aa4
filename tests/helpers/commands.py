"""Commands of the documentation, in this process: starting one anew for every line takes longer than the line."""

from __future__ import annotations

import shlex
import sys
import warnings
from unittest import mock

import pytest

from conal.cli import main

__all__ = ["run_line"]


def run_line(line: str) -> None:
    """Run a line such as ``conal fit labels.csv`` in the current folder; it must end with exit code 0."""
    with (
        warnings.catch_warnings(),
        mock.patch.object(warnings, "showwarning"),  # which ``main`` replaces, as a process of its own may
        mock.patch.object(sys, "argv", shlex.split(line)),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert ended.value.code == 0, line
