"""Many small pieces of work in forked children: one that dies, hangs or takes too much is known by its number."""

from __future__ import annotations

import json
import os
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from torture.children import BUG, MEMORY, SECONDS, fork, limit, wait

__all__ = ["Work", "batch"]

Work = Callable[[int], tuple[str, str]]
"""A number to an outcome and a message."""


def batch(work: Work, count: int, log: Path) -> Iterator[tuple[int, str, str]]:
    """Number, outcome and message of every piece of work; a child that dies is replaced behind the culprit."""
    done = 0
    while done < count:
        log.unlink(missing_ok=True)
        code = wait(fork(partial(_work_all, work, range(done, count), log)), 6 * SECONDS + 5 * count)
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
        yield from ((number, outcome, message) for number, outcome, message in lines)
        done += len(lines)
        if code == BUG:
            raise RuntimeError(log.with_name("stderr").read_text(encoding="utf-8", errors="replace")[-2000:])
        if done < count:
            yield done, "failed", _death(code)
            done += 1


def _death(code: int) -> str:
    if code in (-signal.SIGALRM, -signal.SIGPROF):
        return f"takes more than {SECONDS} s"
    return f"ends the process: {signal.Signals(-code).name if code < 0 else code}"


def _work_all(work: Work, numbers: range, log: Path) -> int:
    limit()
    os.dup2(os.open(log.with_name("stderr"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    warnings.simplefilter("ignore")
    for alarm in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(alarm, signal.SIG_DFL)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    born = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in numbers:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of its own, however busy the machine is
        signal.setitimer(signal.ITIMER_REAL, 6 * SECONDS)
        outcome, message = work(number)
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - born
        if grown * 1024 > MEMORY:
            outcome, message = "failed", "takes more than 2 GB"
        os.write(handle, (json.dumps([number, outcome, message]) + "\n").encode())
    return 0
