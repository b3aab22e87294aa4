"""Predictions and labels as Label Studio imports them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from conal.data.annotations import Annotations
from conal.data.encoding import spelling
from conal.errors import InputError, examples
from conal.io.annotation_file import AnnotationFile, Control
from conal.io.limits import VALUE_ERRORS, refusing
from conal.io.platforms.files import read_head
from conal.io.tables import blank_to_null, check_readable, read_table
from conal.io.true_labels import gold_from_table

# Predicted or inferred labels of tasks, on their way to an annotation platform.

Records = Iterator[dict[str, Any]]
"""What a platform imports, one after the other."""
MODEL = "conal"
"""What platforms call the source of a prediction."""

WORK_LIST = {"task", "worker", "expected_gain", "label"}
"""Columns of ``suggestions.csv``: which task to show to whom."""


class Prediction(NamedTuple):
    """The label of a task, its probability if it is known, and what the platform calls the source."""

    label: Any
    score: float | None = None
    source: str = MODEL


Predictions = Mapping[Any, Prediction]
"""Name of a task to its prediction."""


def read_predictions(path: Path, crowd: Annotations, task: str | None = None) -> tuple[dict[Any, Prediction], bool]:
    """The labels in a table (``task``, ``label``, ``probability``), and whether the table is a work list.

    The column of tasks may be called by a usual name, or ``task``, as the user named it for the files of labels. A work
    list (``suggestions.csv``) says whom to ask about a task. Its predictions are in the order of the list, and their
    source says whom to ask: platforms filter by it.
    """
    if _is_empty_list(path):
        return {}, True
    table = read_table(path, names=[task])
    if "label" in table.column_names:  # empty for tasks without any label
        table = table.filter(blank_to_null(table["label"]).is_valid())
    is_list = set(table.column_names) >= WORK_LIST
    named = task if task in table.column_names else None
    gold = gold_from_table(table, task=named, label="label", keep=crowd.classes, where=str(path))
    known = gold.for_tasks(crowd)
    names = [] if gold.task_ids is None else [spelling(task) for task in gold.task_ids.tolist()]
    scores = _by_task(names, table, "probability", str(path))
    people = _by_task(names, table, "worker" if is_list else None, str(path))
    found = {
        spelling(task): (task, Prediction(label, scores.get(spelling(task)), _source(people.get(spelling(task)))))
        for task, label in known.items()
    }
    order = [name for name in names if name in found] if is_list else list(found)
    return dict(found[name] for name in order), is_list


def _is_empty_list(path: Path) -> bool:
    """Whether this is a work list without a task: no answer is expected to change a label."""
    check_readable(path)
    head = read_head(path)
    return set(head.header) >= WORK_LIST and not head.rows and head.kind == "table"


def _by_task(names: list[Any], table: pa.Table, column: str | None, where: str) -> dict[Any, Any]:
    if column is None or column not in table.column_names or not names:
        return {}
    with refusing(VALUE_ERRORS, f"{where}: column {column!r} contains values that cannot be read: {{}}; correct them"):
        return dict(zip(names, table[column].to_pylist(), strict=True))


def _source(person: Any) -> str:
    return MODEL if person is None else f"{MODEL}: ask {person}"


def check_classes(classes: Sequence[Any], file: AnnotationFile) -> None:
    """Reject a model none of whose classes the annotators of the file gave: it answers another question."""
    known = [str(name) for name in file.annotations.classes.tolist()]
    if known and not set(known) & {str(name) for name in classes}:
        question = "the file" if file.question is None else repr(file.question)
        raise InputError(
            f"{file.path}: the model predicts {examples(classes)}, and the labels of {question} are {examples(known)}; "
            "choose the question that the model was trained on with --question"
        )


# Files that Label Studio imports: tasks with annotations and predictions, and predictions for tasks that it has.

NEW_CONTROL = Control(from_name="label", to_name="item", type="choices", key="choices")
"""The control of the labelling interface that results belong to, unless the file names one."""

OWN_FORMATS = ("label-studio", "label-studio-min")


def label_studio_predictions(file: AnnotationFile, predictions: Predictions) -> Records:
    """Predictions for tasks of the project that the file was exported from, as ``import/predictions`` takes them.

    A task is given by its number in the project. An import of whole tasks would add every task a second time.
    """
    control = file.control
    if control is None:
        raise InputError(
            f"{file.path}: nobody has labelled a task of this project, so that it names no control; label one task and "
            "export again, or write new tasks with --new-tasks"
        )
    if control.to_name is None:
        raise InputError(
            f"{file.where}: {file.title} does not say which object of the labelling interface the labels refer to; "
            "export the project as JSON, or write new tasks with --new-tasks"
        )
    for name, prediction in predictions.items():
        for number in control.tasks.get(str(name), ()):
            yield {"task": number, **_predicted(control, prediction)}


def label_studio_tasks(
    file: AnnotationFile,
    predictions: Predictions,
    *,
    with_annotations: bool,
    only: Sequence[Any] | None = None,
) -> Records:
    """One task after the other: ``data``, ``annotations`` by annotator, ``predictions`` with their probability.

    The data of a task are those in the file and, unless the file is Label Studio's own, its name as ``task``. With
    ``only``, these tasks are written, in this order.
    """
    crowd = file.all_tasks() if only is None else file.all_tasks().reindex(only)
    control = _control(file)
    shown = file.task_data()
    for i, name in enumerate(crowd.task_ids.tolist()):
        numbered = {"id": name} if isinstance(name, int) else {}  # Label Studio's tasks have numbers
        named = {} if file.format in OWN_FORMATS else {"task": name}
        task: dict[str, Any] = numbered | {"data": {**named, **shown.get(str(name), {})}}
        if with_annotations:
            at = range(crowd.indptr[i], crowd.indptr[i + 1])
            task["annotations"] = [
                {
                    "completed_by": _user(crowd.annotator_ids[crowd.annotators[k]]),
                    "result": _results(control, crowd.classes[crowd.labels[k]]),
                }
                for k in at
            ]
            if name in file.true_labels:
                task["annotations"].append({"ground_truth": True, "result": _results(control, file.true_labels[name])})
        if name in predictions:
            task["predictions"] = [_predicted(control, predictions[name])]
        yield task


def _control(file: AnnotationFile) -> Control:
    """The project's own control; for other files and for one choice of many, one that is called like the question."""
    own = file.control if file.format in OWN_FORMATS else None
    if own is not None and own.to_name is not None and own.from_name == file.question:
        return own
    to_name = own.to_name if own is not None and own.to_name is not None else NEW_CONTROL.to_name
    return replace(NEW_CONTROL, from_name=file.question or NEW_CONTROL.from_name, to_name=to_name)


def _predicted(control: Control, prediction: Prediction) -> dict[str, Any]:
    names = {"model_version": prediction.source, "score": prediction.score}
    return {**names, "result": _results(control, prediction.label)}


def _results(control: Control, label: Any) -> list[dict[str, Any]]:
    label = label.item() if isinstance(label, np.generic) else label
    answer = control.answer(label)
    if answer is None:
        return []
    names = {"from_name": control.from_name, "to_name": control.to_name, "type": control.type}
    return [{**names, "value": {control.key: answer}}]


def _user(worker: Any) -> Any:
    """Label Studio knows users by their number or by their e-mail address."""
    return int(worker) if isinstance(worker, int | np.integer) else {"email": str(worker)}


# Predictions as Label Studio imports them: for tasks that a project has, or as new tasks.

ENDING = ".json"


def prelabels(
    file: AnnotationFile,
    predictions: Predictions | None,
    *,
    new_tasks: bool = False,
    with_annotations: bool = False,
    only_predicted: bool = False,
) -> tuple[Records, str]:
    """Records that Label Studio imports, and what to do with them.

    Parameters
    ----------
    file : AnnotationFile
        The tasks.
    predictions : mapping or None
        Their predictions.
    new_tasks : bool
        Write whole tasks, for another project, although the file is an export of Label Studio, so that a project has
        these tasks already.
    with_annotations : bool
        Write the annotations of new tasks.
    only_predicted : bool
        Of new tasks, write those with a prediction, in the order of the predictions.
    """
    if file.format in OWN_FORMATS and not new_tasks and predictions is not None:
        note = "predictions for the project's own tasks; send them to its import/predictions"
        return label_studio_predictions(file, predictions), note
    found = predictions or {}
    only = list(found) if only_predicted else None
    records = label_studio_tasks(file, found, with_annotations=with_annotations, only=only)
    return records, "tasks; import them into a project"


def fill_prelabels(records: Iterable[dict[str, Any]], temporary: Path) -> int:
    """Write the records to a temporary place as a JSON list; returns how many there are."""
    count = 0
    with temporary.open("w", encoding="utf-8") as out:
        for record in records:
            out.write((",\n" if count else "[\n") + json.dumps(record, ensure_ascii=False, default=_plain))
            count += 1
        out.write("\n]\n" if count else "[]\n")
    return count


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
