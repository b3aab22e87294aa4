"""Forked children with limits: whatever they do, this process goes on and knows how they ended."""

from __future__ import annotations

import atexit
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BUG", "MEMORY", "SECONDS", "Command", "Ended", "fork", "limit", "run", "wait"]

MEMORY = 2 * 2**30
"""Bytes that a child may take beyond what it was born with."""
SECONDS = 20
"""Seconds that one input may take."""
BLOCKED = (signal.SIGINT, signal.SIGTERM)
"""Signals that a command handles: they wait until it runs."""
INTERRUPTED = 130
BUG = 70
"""Exit code of a child whose own code failed."""
FLUSH_FAILED = 120
"""Python's own exit code if standard output could not be written."""


@dataclass(frozen=True)
class Command:
    """A command line in a folder.

    Standard output goes into the folder ``streams``, and so do errors, unless they have a folder of their own.
    """

    arguments: Sequence[str]
    folder: Path
    streams: Path
    errors: Path | None = None

    @property
    def files(self) -> tuple[Path, Path]:
        """Of standard output and of errors."""
        return self.streams / "stdout", (self.errors or self.streams) / "stderr"


@dataclass(frozen=True)
class Ended:
    """How a child ended: exit code, or minus the number of a signal; and what it said."""

    code: int
    seconds: float
    out: str = ""
    err: str = ""

    @property
    def has_traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.err


def fork(body: Callable[[], int]) -> int:
    """The process number of a child that runs ``body`` and exits with its result."""
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)  # until the body wants them
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
        return child
    code = BUG
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        code = body()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait(child: int, seconds: float) -> int:
    """The exit code of a child, or minus the signal that ended it; after ``seconds`` it is killed."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -int(signal.SIGALRM)
        time.sleep(pause)
        pause = min(0.02, 1.5 * pause)


def limit(memory: int = MEMORY) -> None:
    """Bound the memory of this process by what it has now and ``memory`` more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command: Command, seconds: float = 120, signals: Sequence[tuple[float, int]] = ()) -> Ended:
    """Run one command; ``signals`` are sent after so many seconds each."""
    began = time.monotonic()
    for path in command.files:  # of the run before: this one may be killed before it opens them
        path.unlink(missing_ok=True)
    child = fork(lambda: _main(command))
    for delay, number in signals:
        while time.monotonic() < began + delay and not _is_over(child):
            time.sleep(0.001)
        if not _is_over(child):
            os.kill(child, number)
    return _ended(command, wait(child, seconds), began)


def _is_over(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _ended(command: Command, code: int, began: float) -> Ended:
    texts = [path.read_text(encoding="utf-8", errors="replace") if path.exists() else "" for path in command.files]
    return Ended(code, time.monotonic() - began, *texts)


def _main(command: Command) -> int:
    """``conal`` with these arguments, as a process of its own would run it."""
    from conal.cli import main

    for number, path in enumerate(command.files, start=1):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
    sys.argv = ["conal", *command.arguments]
    warnings.resetwarnings()
    os.chdir(command.folder)
    return _finish(_code_of(main))


def _code_of(main: Callable[[], None]) -> int:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
    except KeyboardInterrupt:  # sent before there was a command to interrupt
        return INTERRUPTED
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _finish(code: int) -> int:
    """What the interpreter does when it ends."""
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        traceback.print_exc()
        return FLUSH_FAILED
    return code
