"""Import annotation files: detect the format, unless it is given, and choose the reader; join several files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from conal._files import real_path
from conal.data.annotations import Annotations
from conal.data.encoding import as_names, as_text, spelling
from conal.data.joining import join_annotations, refuse_different_spellings
from conal.data.matching import differ_in_type
from conal.errors import DataWarning, InputError, examples, warn
from conal.io import tables
from conal.io.annotation_file import AnnotationFile, Control, agreed_labels, annotations_from
from conal.io.features import read_matrix
from conal.io.limits import refusing
from conal.io.platforms import Importer, Reader, importers
from conal.io.platforms.files import RECORD_BYTES, Head, load_json, read_head
from conal.io.tables import UNTYPED, coerce_classes, read_roles, table_kind
from conal.parameters import check_parameters
from conal.parameters.reading import PLAIN_FORMATS, ReadOptions

# Several annotation files as one, and what they say differently about the same task.

MAX_CONFLICT_SHARE = 0.5
"""If more than this share of the tasks in two files differ in all their data, the same ids mean different tasks."""

Rename = Callable[[Any], Any]
Rows = dict[Any, dict[str, Any]]


def join_files(parts: Sequence[AnnotationFile], options: ReadOptions) -> AnnotationFile:
    """The labels, true labels and data of all files. The same id means the same task, the same name the same annotator.

    Of two labels by one annotator for one task, that of the last file counts, unless ``options`` say otherwise. Of a
    field with different values for one task, that of the first file counts, with a warning.
    """
    where = ", ".join(str(part.path) for part in parts)
    _refuse_nameless(parts)
    crowds = [part.annotations for part in parts]
    in_text = differ_in_type(crowd.classes for crowd in crowds)
    classes = None if options.classes is None else crowds[0].classes  # which all files have, in the order of the user
    classes = as_text(classes) if in_text and classes is not None else classes
    kept: dict[str, Any] = {"merge_spelling": options.merge_spelling, "on_duplicate": options.on_duplicate}
    labels = join_annotations(crowds, classes=classes, **kept, where=where)
    rename = _rename_tasks(parts, where)
    known = ((rename(task), label) for part in parts for task, label in part.true_labels.items())
    gold, disputed = agreed_labels((task, spelling(label) if in_text else label) for task, label in known)
    if disputed:
        text = (
            f"{where}: left out the true labels of {disputed:,} tasks, which contradict each other in different files"
        )
        warn(text, DataWarning)
    dropped = sum((Counter(part.dropped) for part in parts), Counter[str]())
    titles = list(dict.fromkeys(part.title for part in parts))
    formats = list(dict.fromkeys(part.format for part in parts))
    questions = list(dict.fromkeys(part.question for part in parts if part.question is not None))
    return AnnotationFile(
        parts[0].path,
        ", ".join(formats),
        ", ".join(titles),
        labels,
        question=", ".join(questions) or None,
        true_labels=gold,
        dropped=dict(dropped),
        fields=_join_fields(parts, rename),
        control=_join_controls([part.control for part in parts]),
        choice_question=next((part.choice_question for part in parts if part.choice_question is not None), None),
        people={who: name for part in parts for who, name in part.people.items()},
        columns={role: name for part in reversed(parts) for role, name in part.columns.items()},
        parts=tuple(parts),
    )


def _refuse_nameless(parts: Sequence[AnnotationFile]) -> None:
    """Row 7 of one file is another task than row 7 of the next one, or the same; who knows?"""
    for part in parts:
        if part.numbered or part.annotations.by_position:
            raise InputError(
                f"{part.path}: has no names for its tasks, so that it cannot be joined with other files; add a column "
                "of task ids, or convert it to a table with one"
            )


def _rename_tasks(parts: Sequence[AnnotationFile], where: str) -> Rename:
    """How tasks of single files are called in all files together: as text, if some files have numbers."""
    shown = [as_names([task for task in part.fields if task is not None]) for part in parts if part.fields]
    refuse_different_spellings(shown, "tasks", where)
    return spelling if differ_in_type([*(part.annotations.task_ids for part in parts), *shown]) else lambda name: name


def _join_fields(parts: Sequence[AnnotationFile], rename: Rename) -> Rows:
    """Task to its fields; the first file that has a field counts. One that a task does not have is no field."""
    joined: Rows = {}
    source: dict[Any, AnnotationFile] = {}
    for part in parts:
        own = {
            rename(task): {name: value for name, value in fields.items() if value is not None}
            for task, fields in part.fields.items()
            if task is not None
        }
        _warn_of_conflicts(joined, own, [task for task in own if task in joined], source, part)
        for task, fields in own.items():
            joined[task] = fields | joined.get(task, {})
            source.setdefault(task, part)
    return joined


def _warn_of_conflicts(
    joined: Rows, own: Rows, shared: Sequence[Any], source: Mapping[Any, AnnotationFile], part: AnnotationFile
) -> None:
    """Warn of fields that differ; refuse files in which all that is known about a task differs, as a rule."""
    known: Counter[str] = Counter()
    unlike: dict[str, list[Any]] = {}
    for task in shared:
        for name in own[task].keys() & joined[task].keys():
            known[name] += 1
            if own[task][name] != joined[task][name]:
                unlike.setdefault(name, []).append(task)
    if not unlike:
        return
    worst = max(unlike, key=lambda name: (len(unlike[name]), name))
    task = unlike[worst][0]
    text = (
        f"{source[task].path}, {part.path}: {worst!r} of task {examples([task])} is {examples([joined[task][worst]])} "
        f"in one file and {examples([own[task][worst]])} in the other; so it is for {len(unlike[worst]):,} of "
        f"{known[worst]:,} tasks that both have"
    )
    if all(len(unlike.get(name, [])) > MAX_CONFLICT_SHARE * known[name] for name in known):
        raise InputError(
            f"{text}. The same id means different tasks: choose a field that names the tasks with task= "
            "(--task-column), or make the ids different"
        )
    warn(f"{text}; that of the first file counts. If these are different tasks, make their ids different", DataWarning)


def _join_controls(controls: Sequence[Control | None]) -> Control | None:
    """The control of a Label Studio project, if all files are exports with this control."""
    known = [control for control in controls if control is not None]
    about = {(control.from_name, control.to_name, control.type, control.key) for control in known}
    if len(known) < len(controls) or len(about) > 1:
        return None
    tasks: dict[str, list[Any]] = {}
    for control in known:
        for name, own in control.tasks.items():
            there = tasks.setdefault(name, [])
            there.extend(each for each in own if each not in there)
    answers = {label: answer for control in known for label, answer in control.answers.items()}
    return replace(known[0], tasks=tasks, answers=answers)


# Annotation files of no particular platform: a table with one annotation per row, or a matrix.

NPY = "npy"


class PlainTable(Reader):
    """One annotation per row, as CSV, TSV, Parquet, Arrow, Excel or JSON Lines.

    Columns are found by their usual names (:data:`conal.data.frames.ALIASES`), unless others are named.
    """

    title = "a table with one annotation per row"
    takes = ("task", "worker", "label")

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        named = {"task": options.task, "worker": options.worker, "label": options.label}
        kind = table_kind(path, options.format)
        columns, names = read_roles(path, options.format, named)
        crowd = annotations_from(
            columns.pop("task"),
            columns.pop("worker"),
            columns.pop("label"),
            options,
            where=path,
            untyped=kind in UNTYPED,
            times=columns.pop("time", None),
        )
        return AnnotationFile(path, kind, self.title, crowd, columns=names)


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


def _is_number(name: Any) -> bool:
    try:
        float(name)
    except (TypeError, ValueError):
        return False
    return True


def plain_reader(path: Path, format: str | None) -> Reader:  # noqa: A002 - the word that users expect
    """The reader of a plain file, by the format's name or the file name's ending."""
    return Matrix() if (format or path.suffix.lstrip(".").lower()) == NPY else PlainTable()


# Import annotation files: detect the format, unless it is given, and choose the reader.

EMPTY: Mapping[str, str] = MappingProxyType({})
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


def import_file(
    path: Paths, options: ReadOptions | None = None, *, usual: Mapping[str, str] = EMPTY, **keywords: Any
) -> AnnotationFile:
    """Annotations, true labels, data of the tasks, and dropped annotations; see :func:`read_annotations`.

    ``usual`` are the ``columns`` of an earlier file: where this one has them, options need not name them.
    """
    if options is None or keywords:
        options = replace(options or ReadOptions(), **keywords)
    check_parameters(options)
    with tables.decoding(options.encoding):
        return _import(path, options, usual)


def _import(path: Paths, options: ReadOptions, usual: Mapping[str, str]) -> AnnotationFile:
    paths = [Path(path)] if isinstance(path, str | PathLike) else [Path(each) for each in path]
    _refuse_repeats(paths)
    readers = [_reader(each, options, usual) for each in paths]
    if len(paths) == 1:
        options.refuse_unused(readers[0].takes, readers[0].title)
        return _finished(_read(readers[0], paths[0], options, usual), options)
    takes = list(dict.fromkeys(name for reader in readers for name in reader.takes))
    options.refuse_unused(takes, "any of these files")
    pairs = zip(readers, paths, strict=True)
    parts = [_read(reader, each, options.only(reader.takes), usual) for reader, each in pairs]
    return _finished(join_files(parts, options), options)


def _finished(file: AnnotationFile, options: ReadOptions) -> AnnotationFile:
    """The file without the annotators whom the user leaves out, and as a scale, if the user says so."""
    if options.without:
        file = replace(file, annotations=file.annotations.without(options.without, where=file.where))
    if not options.ordinal:
        return file
    listed = None if options.classes is None else file.annotations.classes  # in the order of the user
    return replace(file, annotations=file.annotations.as_ordinal(listed, where=file.where))


def _read(reader: Reader, path: Path, options: ReadOptions, usual: Mapping[str, str]) -> AnnotationFile:
    known: dict[str, Any] = {role: usual[role] for role in reader.takes if role in usual}
    known = {role: name for role, name in known.items() if getattr(options, role) is None}
    if known and usual.get("format") != getattr(reader, "name", None):  # fields of exports are not in every record
        known = {role: name for role, name in known.items() if name in read_head(path).fields}
    options = replace(options, **known) if known else options
    # Escapes of JSON can write half of a surrogate pair, which no file can contain.
    with refusing((UnicodeEncodeError,), f"{path}: a name contains an incomplete character: {{}}; export it again"):
        found = reader.read(path, options)
    named = {role: getattr(options, role) for role in reader.takes if isinstance(getattr(options, role), str)}
    return replace(found, columns={**found.columns, **named})


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


def _reader(path: Path, options: ReadOptions, usual: Mapping[str, str]) -> Reader:
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
        wanted = importers.get(format)
        if (found and wanted not in found) or not wanted.takes_kind(head.kind):  # clearly something else
            wanted.unlike(path, f"{found[0].title} ({head.describe()})" if found else head.describe())
        return wanted
    rows = {options.worker, options.label, usual.get("worker"), usual.get("label")}
    if rows & set(head.header):  # of annotators, or of labels: a row is one label
        found = [importer for importer in found if importer.name != "wide"]
    if len(found) > 1:
        raise InputError(
            f"{path}: could be {' or '.join(importer.title for importer in found)}; choose one with format= "
            f"(--set format=NAME): {', '.join(importer.name for importer in found)}"
        )
    if not found and not _may_be_plain(path, head):
        _refuse_unknown(path, head)
    return found[0] if found else plain_reader(path, None)


def _may_be_plain(path: Path, head: Head) -> bool:
    """Whether to try a plain reader, which reports what is wrong with the file."""
    ending = tables.without_compression(path).suffix.lower()
    if ending in (*tables.ENDINGS, ".npy"):
        return True
    return head.kind in ("arrow", "xlsx") or (head.kind in ("table", "parquet", "npy") and bool(path.suffix))


def _refuse_unknown(path: Path, head: Head) -> NoReturn:
    if any(name.endswith(".arrow") for name in head.members):
        raise InputError(
            f"{path}: is a folder of Arrow files; pass the file, or datasets.load_from_disk(...).to_parquet(...)"
        )
    if head.kind == "json" and head.record is None and path.stat().st_size <= RECORD_BYTES:
        load_json(path)  # raises an error if the file is cut off
    raise InputError(
        f"{path}: has no known format, found {head.describe()}; set it with format= (--set format=NAME): "
        f"{', '.join((*PLAIN_FORMATS, *importers.names()))}"
    )
