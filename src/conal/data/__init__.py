"""Crowd labels as data: the container, its names, and how features are joined to it."""

from conal.data.annotations import Annotations

__all__ = ["Annotations"]
