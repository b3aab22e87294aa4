"""What a long training will take: one line after its first epoch."""

from __future__ import annotations

from conal._support.memory import peak_memory

__all__ = ["forecast"]

LONG = 60.0
"""Seconds of training that are worth a line."""
HOUR = 3600.0
GIGABYTE = 1e9


def forecast(n_tasks: int, epochs: int, seconds: float, memory: int | None = None) -> str | None:
    """A line about the rest of a training whose first epoch took ``seconds``; None if it will soon be over.

    Parameters
    ----------
    n_tasks, epochs : int
        Tasks that are trained on, and planned epochs.
    memory : int, optional
        Bytes used so far; by default what this process has used at most.

    Examples
    --------
    >>> forecast(1_000_000, epochs=5, seconds=45.0, memory=2_345_000_000)
    '1,000,000 tasks, 5 epochs: about 3 min left; 2.3 GB of memory so far'
    >>> forecast(1_000, epochs=100, seconds=0.1) is None
    True
    """
    left = seconds * (epochs - 1)
    if left < LONG:
        return None
    used = peak_memory() if memory is None else memory
    so_far = "" if used is None else f"; {used / GIGABYTE:.1f} GB of memory so far"
    time = f"{left / 60:.0f} min" if left < 2 * HOUR else f"{left / HOUR:.1f} hours"
    return f"{n_tasks:,} tasks, {epochs} epochs: about {time} left{so_far}"
