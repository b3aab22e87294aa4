"""How many processes a launcher such as ``torchrun`` started, and which of them this one is."""

from __future__ import annotations

import os

from conal.errors import InputError

__all__ = ["process_number", "process_rank"]


def process_number(name: str = "WORLD_SIZE") -> int:
    """The number of processes, here (``LOCAL_WORLD_SIZE``) or everywhere; 1 without a launcher."""
    return _number(name, default=1, lowest=1)


def process_rank() -> int:
    """The number of this process among all, from 0; processes that Fabric starts have it under another name."""
    default = 0 if process_number() == 1 else None
    name = "LOCAL_RANK" if "LOCAL_RANK" in os.environ and "RANK" not in os.environ else "RANK"
    return _number(name, default=default, lowest=0)


def _number(name: str, default: int | None, lowest: int) -> int:
    text = os.environ.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.strip().isdecimal() or int(text) < lowest:
        found = "not set" if text is None else repr(text[:40])
        raise InputError(
            f"the environment variable {name} is {found}, expected a whole number of at least {lowest}; unset "
            "WORLD_SIZE and RANK, or start conal by torchrun, which sets them"
        )
    return int(text)
