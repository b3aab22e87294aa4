"""The machine and its software: compiled loops, memory, processes and versions."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from conal.errors import InputError

# Loops compiled by numba. Everything works without it, only slower.


@cache
def _has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None


class Kernel:
    """A function of arrays that is compiled when it is first called, and kept on disk for the next process."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.python = function
        self._compiled: Callable[..., Any] | None = None
        self.__doc__ = function.__doc__

    @property
    def usable(self) -> bool:
        """Whether there is a compiler; ``CONAL_COMPILED=0`` in the environment turns it off."""
        return _has_numba() and os.environ.get("CONAL_COMPILED", "1") != "0"

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is None:
            self._compiled = _compile(self.python)
        return self._compiled(*arguments)


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    compiler: Any = numba.njit
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return cast(Callable[..., Any], compiler(function, cache=True, **options))
    except RuntimeError:  # nowhere to keep it
        return cast(Callable[..., Any], compiler(function, **options))


def kernel(function: Callable[..., Any]) -> Kernel:
    """Mark a function of arrays and numbers, made of plain loops, for compilation.

    >>> @kernel
    ... def total(values):
    ...     result = 0.0
    ...     for value in values:
    ...         result += value
    ...     return result
    >>> total.python([1.0, 2.0])
    3.0
    """
    return Kernel(function)


# How much memory this process has used at most.

STATUS = Path("/proc/self/status")
KILOBYTE = 1024


def peak_memory() -> int | None:
    """Bytes of main memory that this process has used at most, pages of mapped files included; None if unknown.

    >>> peak = peak_memory()
    >>> peak is None or peak > 2**20
    True
    """
    if STATUS.exists():  # Linux; what getrusage says there includes the process that started this one
        peaks = [line.split()[1] for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
        if peaks:
            return int(peaks[0]) * KILOBYTE
    if sys.platform == "win32":
        return None
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * KILOBYTE


# How many processes a launcher such as ``torchrun`` started, and which of them this one is.

REMEDY = "unset WORLD_SIZE and RANK, or start conal by torchrun, which sets them"


def process_number(name: str = "WORLD_SIZE") -> int:
    """The number of processes, here (``LOCAL_WORLD_SIZE``) or everywhere; 1 without a launcher."""
    return _number(name, default=1, lowest=1)


def process_rank() -> int:
    """The number of this process among all, from 0.

    Without a launcher, which sets ``WORLD_SIZE``, the process is alone and its number is 0, whatever ``RANK`` says:
    schedulers and shells leave such variables behind. Processes that Fabric starts have theirs in ``LOCAL_RANK``.
    """
    if "WORLD_SIZE" not in os.environ:
        return 0
    world = process_number()
    name = "LOCAL_RANK" if "LOCAL_RANK" in os.environ and "RANK" not in os.environ else "RANK"
    rank = _number(name, default=0 if world == 1 else None, lowest=0)
    if rank >= world:
        raise InputError(
            f"the environment variable {name} is {rank}, but WORLD_SIZE is {world}, so that ranks end at {world - 1}; "
            f"{REMEDY}"
        )
    return rank


def _number(name: str, default: int | None, lowest: int) -> int:
    text = os.environ.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.strip().isdecimal() or int(text) < lowest:
        found = "not set" if text is None else repr(text[:40])
        raise InputError(
            f"the environment variable {name} is {found}, expected a whole number of at least {lowest}; {REMEDY}"
        )
    return int(text)


# Versions of the software that figures depend on.


@cache
def versions(*libraries: str) -> dict[str, str]:
    """Versions of conal, Python and these libraries.

    >>> list(versions("numpy"))
    ['conal', 'python', 'numpy']
    """
    from conal import __version__

    found = {"conal": __version__, "python": platform.python_version()}
    return found | {name: metadata.version(name) for name in libraries}
