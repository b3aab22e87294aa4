"""Paths without symbolic links."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["real_path"]


def real_path(path: str | os.PathLike[str]) -> Path:
    """Where a path leads to; links that lead to themselves stay, and whoever opens them says that there is no file.

    ``Path.resolve`` raises a RuntimeError for them before Python 3.13.
    """
    return Path(os.path.realpath(path))
