"""Which aggregators there are."""

from __future__ import annotations

from conal import aggregation

__all__ = ["FOR_KINDS"]

FOR_KINDS = [name for name in aggregation.names() if not aggregation.get(name).ordered]
"""Those that take classes without an order, such as cat, dog and fish."""
