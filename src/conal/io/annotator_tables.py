"""Tables with a row for every annotator: group, cost per label, and features."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.io.tables import read_table

__all__ = ["read_annotator_info"]

ROLES = ("worker", "task", "group")
"""Roles of columns whose text must stay as it is; ``id`` is a usual name of tasks, and here of annotators."""


def read_annotator_info(path: str | PathLike[str], crowd: Annotations, *, worker: str | None = None) -> AnnotatorInfo:
    """What the file says about the annotators of a crowd; see :meth:`AnnotatorInfo.of`."""
    table = read_table(Path(path), names=[worker], roles=ROLES)
    return AnnotatorInfo.of(table, crowd, worker=worker, where=str(path))
