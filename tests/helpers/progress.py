"""Somebody to report progress to."""

from __future__ import annotations

from conal._progress import Progress

__all__ = ["Listener"]


class Listener(Progress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, str]] = []
        self.said: list[str] = []

    def update(self, completed: int, total: int, figures: str) -> None:
        """As any listener."""
        self.told.append((completed, total, figures))

    def say(self, line: str) -> None:
        """As any listener."""
        self.said.append(line)
