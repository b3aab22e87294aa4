"""Python in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["conal_and_its_modules", "one_thread"]

_LIST_MODULES = """
import sys
sys.argv = ["conal", *sys.argv[1:]]
from conal.cli import main
try:
    main()
except SystemExit as ended:
    assert ended.code == 0
print(*sys.modules, file=sys.stderr)
"""


def one_thread(**extra: str) -> dict[str, str]:
    """The environment of a process that leaves the other cores to the other tests."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **extra}


def conal_and_its_modules(*arguments: object) -> tuple[str, set[str]]:
    """What ``conal`` with these arguments printed, and the modules that were loaded when it ended."""
    words = [sys.executable, "-c", _LIST_MODULES, *map(str, arguments)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return done.stdout, set(done.stderr.split())
