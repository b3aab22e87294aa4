"""Predicted or inferred labels of tasks, on their way to an annotation platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from conal.data.annotations import Annotations
from conal.data.encoding import spelling
from conal.errors import InputError, examples
from conal.io.annotation_file import AnnotationFile
from conal.io.gold import gold_from_table
from conal.io.platforms.head import read_head
from conal.io.refusals import VALUE_ERRORS, refusing
from conal.io.tables import blank_to_null, check_readable, read_table

__all__ = ["MODEL", "Prediction", "Predictions", "check_classes", "read_predictions"]

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


def read_predictions(path: Path, crowd: Annotations) -> tuple[dict[Any, Prediction], bool]:
    """The labels in a table (``task``, ``label``, ``probability``), and whether the table is a work list.

    A work list (``suggestions.csv``) says whom to ask about a task. Its predictions are in the order of the list, and
    their source says whom to ask: platforms filter by it.
    """
    if _is_empty_list(path):
        return {}, True
    table = read_table(path)
    if "label" in table.column_names:  # empty for tasks without any label
        table = table.filter(blank_to_null(table["label"]).is_valid())
    is_list = set(table.column_names) >= WORK_LIST
    gold = gold_from_table(table, label="label", keep=crowd.classes, where=str(path))
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
