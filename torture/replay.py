"""Cases that once failed, replayed: each module knows its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torture import folders, fuzz, names, signals

__all__ = ["replay"]

REPLAYS: dict[str, Callable[[dict[str, Any], Path], str | None]] = {
    "signals": signals.replay,
    "fuzz": fuzz.replay,
    "names": names.replay,
    "folders": folders.replay,
}


def replay(path: Path, folder: Path) -> str | None:
    """What is wrong with the case in a file; None if nothing is any more."""
    case = json.loads(path.read_text(encoding="utf-8"))
    return REPLAYS[case["part"]](case, folder)
