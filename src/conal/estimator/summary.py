"""The tables of a model folder: cleaned labels, annotators, common confusion, training history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.annotations import Annotations
from conal.encoding import Names

if TYPE_CHECKING:
    from conal.estimator.base import CrowdClassifier

__all__ = ["summary_tables"]

FloatArray = npt.NDArray[np.float64]


def summary_tables(fitted: CrowdClassifier, crowd: Annotations, omega: FloatArray | None) -> dict[str, pa.Table]:
    """File name to table, for a fitted estimator and its training annotations."""
    return {
        "labels.csv": _labels(fitted),
        "annotators.csv": _annotators(fitted, crowd, omega),
        "common_confusion.csv": _common_confusion(fitted),
        "history.csv": _history(fitted),
    }


def _text_or_number(names: Names) -> pa.Array:
    """Names as a column; what Arrow has no type for becomes text."""
    try:
        column = pa.array(names.tolist())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([str(name) for name in names.tolist()])
    return pa.array([str(name) for name in names.tolist()]) if pa.types.is_nested(column.type) else column


def _labels(fitted: CrowdClassifier) -> pa.Table:
    return pa.table(
        {
            "task": _text_or_number(fitted.task_ids_),
            "label": _text_or_number(fitted.labels_),
            "probability": fitted.probas_.max(1),
        }
    )


def _annotators(fitted: CrowdClassifier, crowd: Annotations, omega: FloatArray | None) -> pa.Table:
    """Quality and character of each annotator; empty cells for those without labels.

    ``annotator_quality`` is the probability that the annotator's label is right, averaged over the inferred true
    labels of the tasks that he or she labelled; ``agreement_with_consensus`` is the share of labels equal to the
    inferred label; ``common_noise_rate`` is the mean omega.
    """
    count = crowd.labels_per_annotator()
    right = fitted.probas_[crowd.tasks, crowd.labels]
    equal = fitted.probas_.argmax(1)[crowd.tasks] == crowd.labels
    columns = {
        "worker": _text_or_number(crowd.annotator_ids),
        "num_examples_labeled": pa.array(count),
        "annotator_quality": _mean_by_annotator(crowd, right),
        "agreement_with_consensus": _mean_by_annotator(crowd, equal.astype(float)),
    }
    if omega is not None:
        columns["common_noise_rate"] = _mean_by_annotator(crowd, omega)
    return pa.table(columns)


def _mean_by_annotator(crowd: Annotations, values: FloatArray) -> pa.Array:
    count = crowd.labels_per_annotator()
    total = np.bincount(crowd.annotators, weights=values, minlength=crowd.n_annotators)
    return pa.array(total / np.maximum(count, 1), mask=count == 0)


def _common_confusion(fitted: CrowdClassifier) -> pa.Table:
    """Rows are true classes, columns observed ones; the first column names the true class."""
    confusion = fitted.common_confusion_
    observed = {str(name): confusion[:, k] for k, name in enumerate(fitted.classes_.tolist())}
    first = "true"
    while first in observed:  # a class may be called so
        first += "_"
    return pa.table({first: _text_or_number(fitted.classes_), **observed})


def _history(fitted: CrowdClassifier) -> pa.Table:
    names = list(dict.fromkeys(name for row in fitted.history_ for name in row))
    return pa.table({name: [row.get(name) for row in fitted.history_] for name in names})
