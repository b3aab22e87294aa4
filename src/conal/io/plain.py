"""Annotation files of no particular platform: a table with one annotation per row, or a matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conal.data.annotations import Annotations
from conal.data.missing import read_labels
from conal.errors import DataWarning, examples, people, warn
from conal.io.annotation_file import AnnotationFile
from conal.io.platforms.base import Reader
from conal.io.quotes import refuse_line_ends
from conal.io.tables import UNTYPED, coerce_classes, read_matrix, read_roles, table_kind
from conal.parameters.reading import ReadOptions

__all__ = ["plain_reader"]

NPY = "npy"


class PlainTable(Reader):
    """One annotation per row, as CSV, TSV, Parquet, Arrow, Excel or JSON Lines.

    Columns are found by their usual names (:data:`conal.data.columns.ALIASES`), unless others are named.
    """

    title = "a table with one annotation per row"
    takes = ("task", "worker", "label")

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        named = {"task": options.task, "worker": options.worker, "label": options.label}
        kind = table_kind(path, options.format)
        columns = read_roles(path, options.format, named)
        labels = read_labels(
            columns.pop("label"),
            missing=options.missing,
            abstain=options.abstain,
            classes=options.classes,
            untyped=kind in UNTYPED,
            where=str(path),
        )
        crowd = Annotations.from_triples(
            columns.pop("task"),
            columns.pop("worker"),
            labels,
            classes=coerce_classes(options.classes, labels.names),
            on_duplicate=options.on_duplicate,
            times=columns.pop("time", None),
            where=str(path),
        )
        if kind in UNTYPED:
            refuse_line_ends(path, task=crowd.task_ids, worker=crowd.annotator_ids, label=crowd.classes)
            _warn_of_blanks(crowd, path)
        return AnnotationFile(path, kind, self.title, crowd)


class Matrix(Reader):
    """Matrix of tasks (rows) and annotators (columns), as ``.npy``; ``classes`` may name the labels 0, 1, 2, ..."""

    title = "a matrix"
    takes = PlainTable.takes

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        matrix = read_matrix(path)
        classes = options.classes
        given: dict[str, Any] = {"missing": options.missing, "abstain": options.abstain, "where": str(path)}
        if classes is not None and matrix.dtype.kind in "iuf" and not all(map(_is_number, classes)):
            codes = range(len(classes))
            crowd = Annotations.from_matrix(matrix, classes=codes, **given)
            crowd = crowd.replace(classes=classes)  # the label k is called classes[k]
        else:
            wanted = coerce_classes(classes, matrix)
            crowd = Annotations.from_matrix(matrix, classes=wanted, **given)
        return AnnotationFile(path, NPY, self.title, crowd)


def _warn_of_blanks(crowd: Annotations, path: Path) -> None:
    """Blanks after the delimiters belong to the names, which then match those of no other file."""
    columns = {"tasks": crowd.task_ids, "annotators": crowd.annotator_ids, "labels": crowd.classes}
    blank = {
        what: names for what, names in columns.items() if all(str(name).startswith(" ") for name in names.tolist())
    }
    if blank:
        shown = people(blank["annotators"], 1) if list(blank) == ["annotators"] else examples([*blank.values()][-1][:1])
        warn(
            f"{path}: all {' and '.join(blank)} begin with a blank, such as {shown}, and match no name without it; "
            "remove the blanks after the delimiters (pandas.read_csv(..., skipinitialspace=True))",
            DataWarning,
        )


def _is_number(name: Any) -> bool:
    try:
        float(name)
    except (TypeError, ValueError):
        return False
    return True


def plain_reader(path: Path, format: str | None) -> Reader:  # noqa: A002 - the word that users expect
    """The reader of a plain file, by the format's name or the file name's ending."""
    return Matrix() if (format or path.suffix.lstrip(".").lower()) == NPY else PlainTable()
