"""Annotation files of no particular platform: a table with one annotation per row, or a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from conal.data.annotations import Annotations
from conal.io.annotation_file import AnnotationFile
from conal.io.platforms.base import Reader
from conal.io.tables import blank_to_null, coerce_classes, read_matrix, read_roles, table_kind
from conal.parameters.reading import ReadOptions

__all__ = ["plain_reader"]

NPY = "npy"


class PlainTable(Reader):
    """One annotation per row, as CSV, TSV, Parquet or JSON Lines.

    Columns are found by their usual names (:data:`conal.data.columns.ALIASES`), unless others are named.
    """

    title = "a table with one annotation per row"
    takes = ("task", "worker", "label")

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        named = {"task": options.task, "worker": options.worker, "label": options.label}
        columns = read_roles(path, options.format, named)
        labels = blank_to_null(columns.pop("label"), keep=options.classes)
        crowd = Annotations.from_triples(
            blank_to_null(columns.pop("task"), tokens=("",)),
            blank_to_null(columns.pop("worker"), tokens=("",)),
            labels,
            classes=None if options.classes is None else coerce_classes(options.classes, labels),
            on_duplicate=options.on_duplicate,
            where=str(path),
        )
        return AnnotationFile(path, table_kind(path, options.format), self.title, crowd)


class Matrix(Reader):
    """Matrix of tasks (rows) and annotators (columns), as ``.npy``; ``classes`` may name the labels 0, 1, 2, ..."""

    title = "a matrix"
    takes = PlainTable.takes

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        matrix = read_matrix(path)
        classes = options.classes
        if classes is not None and matrix.dtype.kind in "iuf" and not all(map(_is_number, classes)):
            crowd = _named(Annotations.from_matrix(matrix, classes=range(len(classes)), where=str(path)), classes)
        else:
            wanted = None if classes is None else coerce_classes(classes, pa.array(matrix.ravel()[:0]))
            crowd = Annotations.from_matrix(matrix, classes=wanted, where=str(path))
        return AnnotationFile(path, NPY, self.title, crowd)


def _is_number(name: Any) -> bool:
    try:
        float(name)
    except (TypeError, ValueError):
        return False
    return True


def _named(crowd: Annotations, classes: Sequence[Any]) -> Annotations:
    """The same annotations, in which the label k is called ``classes[k]``."""
    return Annotations(
        crowd.tasks,
        crowd.annotators,
        crowd.labels,
        task_ids=crowd.task_ids,
        annotator_ids=crowd.annotator_ids,
        classes=classes,
        by_position=crowd.by_position,
    )


def plain_reader(path: Path, format: str | None) -> Reader:  # noqa: A002 - the word that users expect
    """The reader of a plain file, by the format's name or the file name's ending."""
    return Matrix() if (format or path.suffix.lstrip(".").lower()) == NPY else PlainTable()
