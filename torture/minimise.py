"""Make a failing document smaller while it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from torture.documents import Document

__all__ = ["smaller"]

MOST_SECONDS = 10.0


def smaller(found: Document, message: str, outcome: Callable[[Document], tuple[str, str]]) -> Document:
    """Remove pieces, from halves to single bytes, as long as the outcome is ("failed", message)."""
    deadline = time.monotonic() + MOST_SECONDS
    if "takes more" in message:
        return found
    plain = replace(found, options={})
    best = plain if outcome(plain) == ("failed", message) else found
    size = len(best.content) // 2
    while size and time.monotonic() < deadline:
        start = 0
        while start < len(best.content) and time.monotonic() < deadline:
            content = best.content[:start] + best.content[start + size :]
            shorter = replace(best, content=content)
            if outcome(shorter) == ("failed", message):
                best = shorter
            else:
                start += size
        size //= 2
    return best
