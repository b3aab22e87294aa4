"""Ctrl-C and SIGTERM that wait: between two steps that belong together, neither may come."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["uninterrupted"]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let the signals that end a process wait until the block has ended; keep it short.

    Python handles signals in its main thread alone, so there is nothing to do in others. Handlers are replaced instead
    of blocking the signals: the system may deliver a signal to any thread, and not all have the same mask.

    Examples
    --------
    >>> done = []
    >>> handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background has none
    >>> try:
    ...     with uninterrupted():
    ...         signal.raise_signal(signal.SIGINT)
    ...         done.append("both steps")
    ... except KeyboardInterrupt:
    ...     done.append("interrupted")
    >>> done
    ['both steps', 'interrupted']
    >>> signal.signal(signal.SIGINT, handler) == signal.default_int_handler
    True
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []

    def wait(number: int, frame: FrameType | None) -> None:
        waiting.append(number)

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = {number: handler for number, handler in handlers.items() if handler is not None}  # None: not set by Python
    try:
        for number in ours:
            signal.signal(number, wait)
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
        if waiting:
            os.kill(os.getpid(), waiting[0])
