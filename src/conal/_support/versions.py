"""Versions of the software that figures depend on."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

__all__ = ["versions"]


@cache
def versions(*libraries: str) -> dict[str, str]:
    """Versions of conal, Python and these libraries.

    >>> list(versions("numpy"))
    ['conal', 'python', 'numpy']
    """
    from conal import __version__

    found = {"conal": __version__, "python": platform.python_version()}
    return found | {name: metadata.version(name) for name in libraries}
