"""Predictions as annotation platforms import them: for tasks that a project has, or as new tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conal.errors import InputError
from conal.io.annotation_file import AnnotationFile
from conal.io.argilla_records import argilla_new_records, argilla_suggestions
from conal.io.doccano_documents import doccano_documents
from conal.io.label_studio_tasks import fill_label_studio, label_studio_predictions, label_studio_tasks
from conal.io.predictions import Predictions

__all__ = ["ENDINGS", "Prelabels", "fill_prelabels", "prelabels"]

ENDINGS = {"label-studio": ".json", "argilla": ".json", "doccano": ".jsonl"}
"""Platforms, and how the names of files end that they import."""


class Prelabels(NamedTuple):
    """Records for a platform, and what to do with them."""

    records: Iterator[dict[str, Any]]
    note: str


def prelabels(
    to: str,
    file: AnnotationFile,
    predictions: Predictions | None,
    *,
    new_tasks: bool = False,
    with_annotations: bool = False,
    only_predicted: bool = False,
) -> Prelabels:
    """What the platform ``to`` imports.

    Parameters
    ----------
    file : AnnotationFile
        The tasks.
    predictions : mapping or None
        Their predictions. Without any, Label Studio gets tasks, and other platforms have no use for the file.
    new_tasks : bool
        Write whole tasks, for another project, although the file is an export of that platform, so that a project has
        these tasks already.
    with_annotations : bool
        Label Studio: write the annotations of new tasks.
    only_predicted : bool
        Of new tasks, write those with a prediction, in the order of the predictions.
    """
    if predictions is None and to != "label-studio":
        raise InputError(f"--to {to} writes predictions; pass them with --labels")
    exists = file.format.startswith(to) and not new_tasks and predictions is not None
    return _WRITERS[to](file, predictions or {}, exists, with_annotations, only_predicted)


def _label_studio(
    file: AnnotationFile, predictions: Predictions, exists: bool, with_annotations: bool, only_predicted: bool
) -> Prelabels:
    if exists:
        note = "predictions for the project's own tasks; send them to its import/predictions"
        return Prelabels(label_studio_predictions(file, predictions), note)
    tasks = list(predictions) if only_predicted else None
    records = label_studio_tasks(file, predictions, with_annotations=with_annotations, only=tasks)
    return Prelabels(records, "tasks; import them into a project")


def _argilla(file: AnnotationFile, predictions: Predictions, exists: bool, *_: bool) -> Prelabels:
    if exists:
        note = "suggestions for the dataset's own records; log them with dataset.records.from_json"
        return Prelabels(argilla_suggestions(file, predictions), note)
    note = "records with suggestions; log them with dataset.records.from_json"
    return Prelabels(argilla_new_records(file, predictions), note)


def _doccano(file: AnnotationFile, predictions: Predictions, exists: bool, *_: bool) -> Prelabels:
    if exists:
        raise InputError(
            f"{file.path}: doccano cannot add labels to documents that it has; pass --new-tasks, and import the file "
            "into a new project"
        )
    return Prelabels(doccano_documents(file, predictions), "labelled documents; import them as JSONL into a project")


_WRITERS: dict[str, Callable[[AnnotationFile, Predictions, bool, bool, bool], Prelabels]] = {
    "label-studio": _label_studio,
    "argilla": _argilla,
    "doccano": _doccano,
}


def fill_prelabels(to: str, records: Iterable[dict[str, Any]], temporary: Path) -> int:
    """Write the records to a temporary place, as the platform reads them; returns how many there are."""
    if ENDINGS[to] == ".json":
        return fill_label_studio(records, temporary)
    count = 0
    with temporary.open("w", encoding="utf-8") as out:
        for record in records:
            out.write(json.dumps(record, ensure_ascii=False, default=_plain) + "\n")
            count += 1
    return count


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
