"""Loops compiled by numba. Everything works without it, only slower."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import cache
from typing import Any, cast

__all__ = ["Kernel", "kernel"]


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
