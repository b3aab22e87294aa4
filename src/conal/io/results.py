"""The tables that results are written as: labels of tasks, what is known about annotators, their confusion."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.annotations import Annotations
from conal.data.encoding import Names

__all__ = [
    "annotator_table",
    "confusion_table",
    "label_table",
    "mean_by_annotator",
    "name_column",
    "proba_columns",
    "where_labelled",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def label_table(tasks: Names, probas: FloatArray, classes: Names, codes: IntArray | None = None) -> pa.Table:
    """One row per task: its label, the label's probability, and ``proba_<class>`` for every class.

    The label is the most probable class, unless ``codes`` say which class won, as where ties were drawn by lot.
    """
    winners = probas.argmax(1) if codes is None else codes
    columns = {
        "task": name_column(tasks),
        "label": name_column(classes).take(pa.array(winners)),
        "probability": probas[np.arange(len(probas)), winners],
    }
    return pa.table(columns | dict(zip(proba_columns(classes), probas.T, strict=True)))


def proba_columns(classes: Names) -> list[str]:
    """``proba_<class>`` for every class; classes that look the same, such as 1 and "1", get underscores.

    >>> proba_columns(np.array([1, "1"], dtype=object))
    ['proba_1', 'proba_1_']
    """
    columns: list[str] = []
    for name in classes.tolist():
        column = f"proba_{name}"
        while column in columns:
            column += "_"
        columns.append(column)
    return columns


def annotator_table(crowd: Annotations, quality: pa.Array, codes: IntArray) -> pa.Table:
    """One row per annotator: labels given, quality, and the share of labels that equal the inferred ``codes``."""
    return pa.table(
        {
            "worker": name_column(crowd.annotator_ids),
            "num_examples_labeled": pa.array(crowd.labels_per_annotator()),
            "annotator_quality": quality,
            "agreement_with_consensus": mean_by_annotator(crowd, (codes[crowd.tasks] == crowd.labels).astype(float)),
        }
    )


def confusion_table(crowd: Annotations, confusion: FloatArray) -> pa.Table:
    """One row per annotator, true and observed class: ``confusion[r, c, l]`` = P(r says l | true c)."""
    workers, true, observed = np.unravel_index(np.arange(confusion.size), confusion.shape)
    classes = name_column(crowd.classes)
    silent = np.repeat(crowd.labels_per_annotator() == 0, confusion[0].size)
    return pa.table(
        {
            "worker": name_column(crowd.annotator_ids).take(pa.array(workers)),
            "true": classes.take(pa.array(true)),
            "observed": classes.take(pa.array(observed)),
            "probability": pa.array(confusion.ravel(), mask=silent),
        }
    )


def mean_by_annotator(crowd: Annotations, values: FloatArray) -> pa.Array:
    """The mean of a figure of each annotation over those of every annotator; empty for those without labels."""
    total = np.bincount(crowd.annotators, weights=values, minlength=crowd.n_annotators)
    return where_labelled(crowd, total / np.maximum(crowd.labels_per_annotator(), 1))


def where_labelled(crowd: Annotations, values: FloatArray) -> pa.Array:
    """A figure of each annotator; empty for those without labels, of whom nothing is known."""
    return pa.array(values, mask=crowd.labels_per_annotator() == 0)


def name_column(names: Names) -> pa.Array:
    """Names as a column; what Arrow has no type for becomes text."""
    try:
        column = pa.array(names.tolist())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([str(name) for name in names.tolist()])
    return pa.array([str(name) for name in names.tolist()]) if pa.types.is_nested(column.type) else column
