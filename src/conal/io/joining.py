"""Several annotation files as one, and what they say differently about the same task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from conal.data.encoding import as_names, as_text, spelling
from conal.data.joining import join_annotations, refuse_different_spellings
from conal.data.matching import differ_in_type
from conal.errors import DataWarning, InputError, examples, warn
from conal.io.annotation_file import AnnotationFile, Control
from conal.io.platforms.collector import data_table
from conal.parameters.reading import ReadOptions

__all__ = ["join_files"]

MOSTLY = 0.5
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
    labels = join_annotations(crowds, classes=classes, on_duplicate=options.on_duplicate, where=where)
    rename = _rename_tasks(parts, where)
    gold, disputed = _join_gold(parts, rename, in_text=in_text)
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
        data=data_table(_join_data(parts, rename)),
        fields=_join_fields(parts),
        control=_join_controls([part.control for part in parts]),
        choice_question=next((part.choice_question for part in parts if part.choice_question is not None), None),
        people={who: name for part in parts for who, name in part.people.items()},
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
    shown = [as_names(part.data["task"].drop_null().to_pylist()) for part in parts if part.data is not None]
    refuse_different_spellings(shown, "tasks", where)
    return spelling if differ_in_type([*(part.annotations.task_ids for part in parts), *shown]) else lambda name: name


def _join_gold(parts: Sequence[AnnotationFile], rename: Rename, *, in_text: bool) -> tuple[dict[Any, Any], int]:
    """Task to true label, and how many tasks have different ones in different files."""
    found: dict[Any, set[Any]] = {}
    for part in parts:
        for task, label in part.true_labels.items():
            found.setdefault(rename(task), set()).add(spelling(label) if in_text else label)
    agreed = {task: next(iter(labels)) for task, labels in found.items() if len(labels) == 1}
    return agreed, len(found) - len(agreed)


def _join_data(parts: Sequence[AnnotationFile], rename: Rename) -> Rows:
    """Task to its fields; the first file that has a field counts."""
    joined: Rows = {}
    source: dict[Any, AnnotationFile] = {}
    for part in parts:
        own = dict(_rows(part, rename))
        shared = [task for task in own if task in joined]
        _tell_of_conflicts(joined, own, shared, source, part)
        for task, fields in own.items():
            joined[task] = fields | joined.get(task, {})
            source.setdefault(task, part)
    return joined


def _join_fields(parts: Sequence[AnnotationFile]) -> dict[str, dict[str, Any]]:
    """The data of each task as the exports have them, by its name as text; empty if no file has them so."""
    joined: dict[str, dict[str, Any]] = {}
    for part in parts if any(part.fields for part in parts) else ():
        for name, fields in part.task_data().items():
            joined[name] = {**fields, **joined.get(name, {})}
    return joined


def _rows(part: AnnotationFile, rename: Rename) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The fields of each task; one that a task does not have is no field."""
    for row in [] if part.data is None else part.data.to_pylist():
        task = row.pop("task")
        if task is not None:
            yield rename(task), {name: value for name, value in row.items() if value is not None}


def _tell_of_conflicts(
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
    if all(len(unlike.get(name, [])) > MOSTLY * known[name] for name in known):
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
    return known[0].replace(tasks=tasks, answers=answers)
