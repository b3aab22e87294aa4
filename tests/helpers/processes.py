"""Python in a process of its own."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

__all__ = ["Started", "code_of", "conal_and_its_modules", "conal_here", "fork", "fork_pair", "one_thread"]

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


def fork(act: Callable[[], object], out: Path, err: Path | None = None, **environment: str) -> int:
    """The number of a process that runs ``act``, with these variables; its streams go into one file, or into two.

    A fork of this process has loaded everything already, which takes a new one longer than most tests. Forks need one
    thread, which tests have (``conftest.py``).
    """
    child = os.fork()
    if child:
        return child
    code: Any = 1
    try:
        os.environ.update(environment)
        for stream, path in ((1, out), (2, err or out)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), stream)
        sys.stdout, sys.stderr = (os.fdopen(stream, "w", buffering=1, closefd=False) for stream in (1, 2))
        warnings.resetwarnings()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        act()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def conal_here(*arguments: object) -> None:
    """``conal`` with these arguments, as the program of this process."""
    from conal.cli import main

    sys.argv = ["conal", *map(str, arguments)]
    main()


def fork_pair(act: Callable[[], object], folder: Path) -> list[int]:
    """The numbers of two processes that share their work as under ``torchrun``; what they say is in 0.txt and 1.txt."""
    for module in ("conal.cli.fit", "conal.distributed", "conal.report.page", "lightning_fabric", "torch._dynamo"):
        importlib.import_module(module)  # once, and not in every fork
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1]), "TORCHELASTIC_RUN_ID": "test"}
    for rank in "01":
        (folder / f"{rank}.txt").unlink(missing_ok=True)
    size = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
    return [fork(act, folder / f"{rank}.txt", None, **where, **size, RANK=rank, LOCAL_RANK=rank) for rank in "01"]


class Started:
    """``conal`` with these arguments, in a fork of this process: as ``subprocess.Popen``."""

    def __init__(self, folder: Path, *arguments: object) -> None:
        importlib.import_module("conal.cli.fit")
        self.out, self.err = folder / "out", folder / "err"
        self.returncode: int | None = None
        self.child = fork(partial(conal_here, *arguments), self.out, self.err)

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        if self.returncode is None:
            done, status = os.waitpid(self.child, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if done else None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.child, number)

    def communicate(self) -> tuple[str, str]:
        """What it said, when it has ended."""
        if self.returncode is None:
            self.returncode = code_of(self.child)
        return self.out.read_text(encoding="utf-8"), self.err.read_text(encoding="utf-8")


def code_of(child: int) -> int:
    """How a process ended: its exit code, or minus the number of a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
