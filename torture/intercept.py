"""The preloaded library that counts changes of files and lets one fail: built here, armed in a child."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["FATES", "Change", "arm", "build", "changes_in", "is_loaded"]

SOURCE = Path(__file__).with_name("intercept.c")
FATES = {"watch": 0, "kill": 1, "error": 2, "full": 3, "half": 4, "power": 1}
"""What happens at the chosen change: nothing, death before it, EIO, a full disk from then on, half of the change
and then death, and a power cut, which is a death after which files that were not flushed are empty."""


class Change(NamedTuple):
    """One line of the library's log."""

    number: int
    call: str
    inode: int
    path: str


def build(folder: Path) -> Path | str:
    """The compiled library, or the reason why there is none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux") or compiler is None:
        return "faults need Linux and a C compiler"
    library = folder / "intercept.so"
    words = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return library if done.returncode == 0 else f"the library does not compile: {done.stderr.splitlines()[:1]}"


def is_loaded() -> bool:
    """Whether this process was started with the library."""
    return hasattr(ctypes.CDLL(None), "torture_arm")


def arm(root: Path, log: Path, *, fate: str = "watch", at: int = 0, secret: Path | None = None) -> None:
    """Count and log changes below ``root``, and opened ``secret`` files; change number ``at`` meets its fate."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    hidden = b"" if secret is None else os.fsencode(secret)
    ctypes.CDLL(None).torture_arm(os.fsencode(root), hidden, ctypes.c_long(at), FATES[fate], handle)


def changes_in(log: Path) -> Iterator[Change]:
    """The changes that a child made, in order."""
    if not log.exists():
        return
    for line in log.read_bytes().splitlines():
        number, call, inode, path = line.split(b"\t", 3)
        yield Change(int(number), call.decode(), int(inode), os.fsdecode(path))
