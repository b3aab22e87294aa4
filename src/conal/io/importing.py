"""Import annotation files: detect the format, unless it is given, and choose the reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

from conal._support.paths import real_path
from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.io import tables
from conal.io.annotation_file import AnnotationFile
from conal.io.arrow_files import splits_of
from conal.io.joining import join_files
from conal.io.plain import plain_reader
from conal.io.platforms.base import Importer, Reader, importers
from conal.io.platforms.head import RECORD_BYTES, Head, read_head
from conal.io.platforms.json_files import load_json
from conal.io.refusals import refusing
from conal.parameters import check_parameters
from conal.parameters.reading import PLAIN_FORMATS, ReadOptions

__all__ = ["Paths", "detect", "import_file", "read_annotations"]


Paths = str | PathLike[str] | Sequence[str | PathLike[str]]
"""One file, or several that are read as one."""


def read_annotations(path: Paths, options: ReadOptions | None = None, **keywords: Any) -> Annotations:
    """Read annotations from a table with one annotation per row, a matrix, or an export of an annotation platform.

    Parameters
    ----------
    path : path, or sequence of paths
        The file; for doccano and peerannot also a folder. Several files, also of different formats, are joined: the
        same id means the same task, and the same name the same annotator.
    options : ReadOptions, optional
        How to read it.
    **keywords
        The same, one by one, such as ``task="song"``: the parameters of :class:`~conal.io.ReadOptions`.
    """
    file = import_file(path, options, **keywords)
    file.warn_of_dropped()
    return file.annotations


def import_file(path: Paths, options: ReadOptions | None = None, **keywords: Any) -> AnnotationFile:
    """Annotations, true labels, data of the tasks, and dropped annotations; see :func:`read_annotations`."""
    if options is None or keywords:
        options = (options or ReadOptions()).replace(**keywords)
    check_parameters(options)
    paths = [Path(path)] if isinstance(path, str | PathLike) else [Path(each) for each in path]
    _refuse_repeats(paths)
    readers = [_reader(each, options) for each in paths]
    if len(paths) == 1:
        readers[0].check_options(options)
        return _on_scale(_read(readers[0], paths[0], options), options)
    takes = list(dict.fromkeys(name for reader in readers for name in reader.takes))
    options.refuse_unused(takes, "any of these files")
    parts = [_read(reader, each, options.only(reader.takes)) for reader, each in zip(readers, paths, strict=True)]
    return _on_scale(join_files(parts, options), options)


def _on_scale(file: AnnotationFile, options: ReadOptions) -> AnnotationFile:
    """The file, with the statement that its classes are a scale, if the user says so."""
    if not options.ordinal:
        return file
    listed = None if options.classes is None else file.annotations.classes  # in the order of the user
    return replace(file, annotations=file.annotations.as_ordinal(listed, where=file.where))


def _read(reader: Reader, path: Path, options: ReadOptions) -> AnnotationFile:
    # Escapes of JSON can write half of a surrogate pair, which no file can contain.
    with refusing((UnicodeEncodeError,), f"{path}: a name contains an incomplete character: {{}}; export it again"):
        return reader.read(path, options)


def _refuse_repeats(paths: Sequence[Path]) -> None:
    if not paths:
        raise InputError("no file of labels: pass at least one")
    times = Counter(real_path(path) for path in paths)
    twice = next((path for path in paths if times[real_path(path)] > 1), None)
    if twice is not None:
        raise InputError(f"{twice}: is given twice; name every file once")


def detect(path: Path) -> tuple[list[Importer], Head]:
    """The importers that recognise a file, usually at most one, and the beginning of the file."""
    head = read_head(path)
    known = map(importers.get, importers.names())
    return [importer for importer in known if importer.takes_kind(head.kind) and importer.sniff(head)], head


def _reader(path: Path, options: ReadOptions) -> Reader:
    """The reader for the file."""
    format = options.format  # noqa: A001
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if format in PLAIN_FORMATS:
        return plain_reader(path, format)
    if not path.is_dir():
        tables.check_readable(path)
    found, head = detect(path)
    if format is not None:
        return _named_importer(path, importers.get(format), found, head)
    if {options.worker, options.label} & set(head.header):  # of annotators, or of labels: a row is one label
        found = [importer for importer in found if importer.name != "wide"]
    if len(found) > 1:
        raise InputError(
            f"{path}: could be {' or '.join(importer.title for importer in found)}; choose one with format= "
            f"(--format): {', '.join(importer.name for importer in found)}"
        )
    if not found and not _may_be_plain(path, head):
        _refuse_unknown(path, head)
    return found[0] if found else plain_reader(path, None)


def _named_importer(path: Path, wanted: Importer, found: list[Importer], head: Head) -> Importer:
    """The importer that the user named, unless the file is clearly something else."""
    if found and wanted not in found:
        wanted.unlike(path, f"{found[0].title} ({head.describe()})")
    if not wanted.takes_kind(head.kind):
        wanted.unlike(path, head.describe())
    return wanted


def _may_be_plain(path: Path, head: Head) -> bool:
    """Whether to try a plain reader, which reports what is wrong with the file."""
    ending = tables.without_compression(path).suffix.lower()
    if ending in (*tables.ENDINGS, ".npy"):
        return True
    if head.kind in ("arrow", "damaged arrow", "xlsx"):
        return True
    return head.kind in ("table", "parquet", "npy") and bool(path.suffix)


def _refuse_unknown(path: Path, head: Head) -> NoReturn:
    splits = splits_of(path)
    if splits:
        raise InputError(
            f"{path}: is a saved dataset with several splits; pass the folder of one, or of several: "
            f"{', '.join(str(path / name) for name in splits)}"
        )
    if head.kind == "json" and head.record is None and path.stat().st_size <= RECORD_BYTES:
        load_json(path)  # raises an error if the file is cut off
    raise InputError(
        f"{path}: has no known format, found {head.describe()}; set it with format= (--format): "
        f"{', '.join((*PLAIN_FORMATS, *importers.names()))}"
    )
