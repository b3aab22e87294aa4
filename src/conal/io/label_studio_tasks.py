"""Files that Label Studio imports: tasks with annotations and predictions, and predictions for tasks that it has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conal._files import atomic_file
from conal.errors import InputError
from conal.io.annotation_file import AnnotationFile, Control
from conal.io.predictions import Prediction, Predictions

__all__ = [
    "NEW_CONTROL",
    "fill_label_studio",
    "label_studio_predictions",
    "label_studio_tasks",
    "write_label_studio",
]

NEW_CONTROL = Control(from_name="label", to_name="item", type="choices", key="choices")
"""The control of the labelling interface that results belong to, unless the file names one."""

OWN_FORMATS = ("label-studio", "label-studio-min")


def write_label_studio(records: Iterable[dict[str, Any]], path: Path) -> int:
    """Write a list of records atomically; returns how many there are."""
    with atomic_file(path) as temporary:
        return fill_label_studio(records, temporary)


def fill_label_studio(records: Iterable[dict[str, Any]], temporary: Path) -> int:
    """Write a list of records to a temporary place; returns how many there are."""
    count = 0
    with temporary.open("w", encoding="utf-8") as out:
        for record in records:
            out.write(",\n" if count else "[\n")
            out.write(json.dumps(record, ensure_ascii=False, default=str))
            count += 1
        out.write("\n]\n" if count else "[]\n")
    return count


def label_studio_predictions(file: AnnotationFile, predictions: Predictions) -> Iterator[dict[str, Any]]:
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
) -> Iterator[dict[str, Any]]:
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
    return NEW_CONTROL.replace(from_name=file.question or NEW_CONTROL.from_name, to_name=to_name)


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
