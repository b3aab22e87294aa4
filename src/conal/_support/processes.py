"""How many processes a launcher such as ``torchrun`` started, and which of them this one is."""

from __future__ import annotations

import os

from conal.errors import InputError

__all__ = ["process_number", "process_rank"]

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
