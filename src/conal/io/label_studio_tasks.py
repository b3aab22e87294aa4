"""Tasks that Label Studio can import: task data, annotations, and inferred labels as predictions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from conal.io.annotation_file import AnnotationFile
from conal.io.atomic import atomic_file

__all__ = ["INTERFACE", "fill_label_studio", "label_studio_tasks", "write_label_studio"]

INTERFACE = {"from_name": "label", "to_name": "item", "type": "choices"}
"""The control of the labelling interface that results belong to, unless the file names one."""

Prediction = tuple[Any, float | None]


def write_label_studio(
    file: AnnotationFile, path: Path, predictions: Mapping[Any, Prediction], *, with_annotations: bool = True
) -> None:
    """Write a list of tasks atomically."""
    with atomic_file(path) as temporary:
        fill_label_studio(file, temporary, predictions, with_annotations=with_annotations)


def fill_label_studio(
    file: AnnotationFile, temporary: Path, predictions: Mapping[Any, Prediction], *, with_annotations: bool = True
) -> None:
    """Write a list of tasks to a temporary place."""
    with temporary.open("w", encoding="utf-8") as out:
        opening = "[\n"
        for task in label_studio_tasks(file, predictions, with_annotations=with_annotations):
            out.write(opening + json.dumps(task, ensure_ascii=False, default=str))
            opening = ",\n"
        out.write("\n]\n")


def label_studio_tasks(
    file: AnnotationFile, predictions: Mapping[Any, Prediction], *, with_annotations: bool
) -> Iterator[dict[str, Any]]:
    """One task after the other: ``data``, ``annotations`` by annotator, ``predictions`` with their probability.

    The data of a task contain its name as ``task``, and the data in the file.
    """
    crowd = file.annotations
    control = INTERFACE | ({"from_name": file.question} if file.question else {})
    shown = _data(file)
    for i, name in enumerate(crowd.task_ids.tolist()):
        numbered = {"id": name} if isinstance(name, int) else {}  # Label Studio's tasks have numbers
        task: dict[str, Any] = numbered | {"data": {"task": name} | shown.get(name, {})}
        if with_annotations:
            at = range(crowd.indptr[i], crowd.indptr[i + 1])
            task["annotations"] = [
                {
                    "completed_by": _user(crowd.annotator_ids[crowd.annotators[k]]),
                    "result": [_result(control, crowd.classes[crowd.labels[k]])],
                }
                for k in at
            ]
            if name in file.gold:
                task["annotations"].append({"ground_truth": True, "result": [_result(control, file.gold[name])]})
        if name in predictions:
            label, score = predictions[name]
            task["predictions"] = [{"model_version": "conal", "score": score, "result": [_result(control, label)]}]
        yield task


def _result(control: Mapping[str, str], label: Any) -> dict[str, Any]:
    return {**control, "value": {"choices": [str(label)]}}  # Label Studio's choices are text


def _user(worker: Any) -> Any:
    """Label Studio knows users by their number or by their e-mail address."""
    return int(worker) if isinstance(worker, int | np.integer) else {"email": str(worker)}


def _data(file: AnnotationFile) -> dict[Any, dict[str, Any]]:
    if file.data is None:
        return {}
    rows = file.data.to_pylist()
    return {row.pop("task"): row for row in rows}
