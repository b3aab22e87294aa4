"""The preloaded library that notes which files outside of a folder are opened: built here, used in a child."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["build", "is_loaded", "watch"]

SOURCE = Path(__file__).with_name("intercept.c")


def build(folder: Path) -> Path | str:
    """The compiled library, or the reason why there is none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux") or compiler is None:
        return "watching files needs Linux and a C compiler"
    library = folder / "intercept.so"
    words = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return library if done.returncode == 0 else f"the library does not compile: {done.stderr.splitlines()[:1]}"


def is_loaded() -> bool:
    """Whether this process was started with the library."""
    return hasattr(ctypes.CDLL(None), "torture_watch")


def watch(secret: Path, log: Path) -> None:
    """From now on, write to the log which files below ``secret`` are opened."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    ctypes.CDLL(None).torture_watch(os.fsencode(secret), handle)
