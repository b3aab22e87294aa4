"""The schedule of a fixed number of E-steps."""

from __future__ import annotations

__all__ = ["due_epochs"]


def due_epochs(epochs: int, start: float, rounds: int) -> set[int]:
    """After which epochs there is an E-step: the first after a share ``start`` of them, the last at the end.

    >>> sorted(due_epochs(100, start=0.2, rounds=5))
    [20, 40, 60, 80, 100]
    """
    first = max(1, round(start * epochs))
    rounds = min(rounds, max(epochs - first, 0) + 1)  # more would repeat epochs
    return {round(first + k * (epochs - first) / max(rounds - 1, 1)) for k in range(rounds)}
