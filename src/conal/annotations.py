"""The former home of :class:`conal.Annotations`."""

import warnings
from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    from conal.data import annotations

    found = getattr(annotations, name)
    warnings.warn(f"conal.annotations.{name} has moved; use conal.Annotations", DeprecationWarning, stacklevel=2)
    return found
