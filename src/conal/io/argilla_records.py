"""Records with suggestions, which Argilla's client logs: ``dataset.records.from_json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conal.errors import InputError
from conal.io.annotation_file import AnnotationFile, Control
from conal.io.predictions import Prediction, Predictions

__all__ = ["argilla_new_records", "argilla_suggestions"]

NEW_QUESTION = "label"
"""The question that suggestions belong to, unless the file names one."""


def argilla_suggestions(file: AnnotationFile, predictions: Predictions) -> Iterator[dict[str, Any]]:
    """Records of the dataset that the file was exported from, each with a suggestion.

    Argilla finds a record by its id, replaces its fields and metadata by those given, and keeps its responses. Records
    are therefore written as they were exported, but without responses.
    """
    control = file.control
    if control is None or not control.from_name:
        raise InputError(f"{file.path}: has no response, so that it names no question; name it with --question")
    if not control.tasks:
        raise InputError(
            f"{file.path}: does not tell fields from metadata; pass the nested export, which does: "
            "dataset.records.to_json('export.json')"
        )
    for name, prediction in predictions.items():
        suggestion = _suggestion(control, prediction)
        for record in control.tasks.get(str(name), ()) if suggestion else ():
            yield {**record, "suggestions": {control.from_name: suggestion}}


def argilla_new_records(file: AnnotationFile, predictions: Predictions) -> Iterator[dict[str, Any]]:
    """A record per predicted task, for a dataset with these fields and a label question."""
    question, shown = file.question or NEW_QUESTION, file.task_data()
    control = Control(question, None, "suggestion", "value")
    for name, prediction in predictions.items():
        fields = {field: str(value) for field, value in shown.get(str(name), {}).items()}
        yield {
            "id": str(name),
            "fields": fields or {"task": str(name)},
            "suggestions": {question: _suggestion(control, prediction)},
        }


def _suggestion(control: Control, prediction: Prediction) -> dict[str, Any] | None:
    """None if the prediction is that nothing was chosen: Argilla has no such suggestion."""
    value = control.answer(prediction.label)
    return None if value is None else {"value": value, "score": prediction.score, "agent": prediction.source}
