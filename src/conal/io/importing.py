"""Any annotation file: its format from its content, unless it is named, and the reader that goes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from conal.data.annotations import Annotations, OnDuplicate
from conal.data.encoding import Names
from conal.errors import DataWarning, InputError, warn
from conal.io import tables
from conal.io.platforms.base import Importer, Options, counted, importers
from conal.io.platforms.head import RECORD_BYTES, Head, read_head
from conal.io.platforms.json_files import load_json

__all__ = ["PLAIN", "AnnotationFile", "detect", "import_file", "read_annotations"]

PLAIN = ("csv", "tsv", "parquet", "jsonl", "npy")
"""Formats that are no platform's: a row per annotation, or a matrix."""


def read_annotations(
    path: str | PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the word that users expect
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    question: str | None = None,
    keep_rejected: bool = False,
    classes: Sequence[Any] | Names | None = None,
    on_duplicate: OnDuplicate = "last",
) -> Annotations:
    """Read annotations from a table with one per row, a matrix, or an export of an annotation platform.

    Parameters
    ----------
    path : path
        The file; for doccano also a folder.
    format : str, optional
        "csv", "tsv", "parquet", "jsonl" (a row per annotation), "npy" (a matrix), or the name of a platform's format
        (:func:`conal.io.platforms.names`). Recognised from the content if it is not given.
    task, worker, label : str, optional
        Column names, where they are not the usual ones (:data:`conal.data.columns.ALIASES`). In exports, ``task`` names
        the tasks by another field of their data.
    question : str, optional
        Which control, question or answer holds the labels, where an export has several.
    keep_rejected : bool
        Keep the work that a requester rejected (MTurk, Toloka, FigureEight).
    classes : sequence, optional
        Class order; numbers may be given as text.
    on_duplicate : {"last", "first", "error"}
        Which label of a repeated (task, worker) pair counts; the last in time where the export has times.
    """
    read = import_file(
        path,
        format=format,
        task=task,
        worker=worker,
        label=label,
        question=question,
        keep_rejected=keep_rejected,
        classes=classes,
        on_duplicate=on_duplicate,
    )
    read.tell_losses()
    return read.annotations


@dataclass(frozen=True)
class AnnotationFile:
    """All that an annotation file holds.

    Attributes
    ----------
    path : path
    format, title : str
        Name of the format, and what people call it.
    annotations : Annotations
    question : str or None
        The control or question that was read, where the format has such.
    gold : dict
        Task to true label, where the file carries some.
    dropped : dict
        Reason to the number of annotations (or tasks) that were left out for it.
    data : Arrow table or None
        What the tasks show, such as their texts: ``task`` and a column per field.
    """

    path: Path
    format: str
    title: str
    annotations: Annotations
    question: str | None = None
    gold: Mapping[Any, Any] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    data: pa.Table | None = None

    def tell_losses(self) -> None:
        """Warn of what was left out, and why."""
        if self.dropped:
            warn(f"{self.path} ({self.title}): left out {counted(self.dropped)}", DataWarning)


def import_file(
    path: str | PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    question: str | None = None,
    keep_rejected: bool = False,
    classes: Sequence[Any] | Names | None = None,
    on_duplicate: OnDuplicate = "last",
) -> AnnotationFile:
    """Annotations, true labels, what the tasks show, and what was left out; see :func:`read_annotations`."""
    path = Path(path)
    options = Options(question, task, worker, label, keep_rejected, classes)
    importer = _importer(path, format)
    if importer is None:
        kind = format or tables.ENDINGS.get(_plain_ending(path), "npy")
        title = "a matrix" if kind == "npy" else "a table with one annotation per row"
        return AnnotationFile(path, kind, title, _read_plain(path, format, options, on_duplicate))
    importer.check_options(options)
    found = importer.read(path, options)
    crowd = found.annotations(classes=classes, on_duplicate=on_duplicate)
    about = (path, importer.name, importer.title)
    return AnnotationFile(*about, crowd, found.question, found.gold, found.dropped, found.data)


def detect(path: Path) -> tuple[list[Importer], Head]:
    """The importers that recognise a file, one at most unless it is odd, and what its beginning shows."""
    head = read_head(path)
    known = map(importers.get, importers.names())
    return [importer for importer in known if head.kind in importer.kinds and importer.sniff(head)], head


def _importer(path: Path, format: str | None) -> Importer | None:  # noqa: A002
    """Which importer reads the file; None for a plain table or matrix."""
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if format in PLAIN:
        return None
    if not path.is_dir():
        tables.check_readable(path)
    found, head = detect(path)
    if format is not None:
        wanted = importers.get(format)
        if found and wanted not in found:
            wanted.unlike(path, f"{found[0].title} ({head.describe()})")
        if head.kind not in wanted.kinds:
            wanted.unlike(path, head.describe())
        return wanted
    plain = _plain_ending(path) in (*tables.ENDINGS, ".npy")  # whose readers say what is wrong
    if not found and not plain and (head.kind not in ("table", "parquet", "npy") or not path.suffix):
        _refuse_unknown(path, head)
    if len(found) > 1:
        raise InputError(
            f"{path}: could be {' or '.join(importer.title for importer in found)}; say which with format= (--format): "
            f"{', '.join(importer.name for importer in found)}"
        )
    return found[0] if found else None


def _refuse_unknown(path: Path, head: Head) -> NoReturn:
    if head.kind == "json" and head.record is None and path.stat().st_size <= RECORD_BYTES:
        load_json(path)  # which says where it was cut off, if it was
    raise InputError(
        f"{path}: is of no known format, found {head.describe()}; name it with format= (--format): "
        f"{', '.join((*PLAIN, *importers.names()))}"
    )


def _plain_ending(path: Path) -> str:
    """The ending that names the format: ``.csv`` of ``a.csv.gz``."""
    inner = path.with_suffix("") if path.suffix.lower() in tables.COMPRESSED else path
    return inner.suffix.lower()


def _read_plain(path: Path, format: str | None, options: Options, on_duplicate: OnDuplicate) -> Annotations:  # noqa: A002
    if options.question is not None:
        raise InputError(f"{path}: is a plain table and has no questions; name the labels' column with --label-column")
    if options.keep_rejected:
        raise InputError(f"{path}: is a plain table, in which nothing was rejected; leave out --keep-rejected")
    return tables.read_plain(
        path,
        format=format,
        task=options.task,
        worker=options.worker,
        label=options.label,
        classes=options.classes,
        on_duplicate=on_duplicate,
    )
