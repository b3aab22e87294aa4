"""Crowds that live: aggregators in folders, what they have learned from, and which tasks have enough labels."""

__all__: list[str] = []
