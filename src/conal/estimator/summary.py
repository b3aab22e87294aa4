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

__all__ = ["label_table", "summary_tables"]

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
    return label_table(_text_or_number(fitted.task_ids_), fitted.probas_, fitted.classes_)


def label_table(tasks: pa.Array, probas: FloatArray, classes: Names) -> pa.Table:
    """One row per task: its most probable label, the label's probability, and ``proba_<class>`` for every class."""
    columns = {
        "task": tasks,
        "label": _text_or_number(classes[probas.argmax(1)]),
        "probability": probas.max(1),
    }
    return pa.table(columns | {f"proba_{name}": probas[:, k] for k, name in enumerate(classes.tolist())})


def _annotators(fitted: CrowdClassifier, crowd: Annotations, omega: FloatArray | None) -> pa.Table:
    """Quality and character of each annotator; empty cells for those without labels.

    ``annotator_quality`` is the probability of a right label by the learned confusion, averaged over the tasks that
    the annotator labelled; ``agreement_with_consensus`` is the share of his or her labels that equal the inferred
    label; ``common_noise_rate`` is the mean omega.
    """
    equal = fitted.probas_.argmax(1)[crowd.tasks] == crowd.labels
    columns = {
        "worker": _text_or_number(crowd.annotator_ids),
        "num_examples_labeled": pa.array(crowd.labels_per_annotator()),
        "annotator_quality": _mean_by_annotator(crowd, _expected_accuracy(fitted, crowd, omega)),
        "agreement_with_consensus": _mean_by_annotator(crowd, equal.astype(float)),
    }
    if omega is not None:
        columns["common_noise_rate"] = _mean_by_annotator(crowd, omega)
    return pa.table(columns)


def _expected_accuracy(fitted: CrowdClassifier, crowd: Annotations, omega: FloatArray | None) -> FloatArray:
    """(n_annotations,) sum_c P(z = c) [omega pi_g + (1 - omega) pi_r]_cc of each annotation."""
    share = np.zeros(crowd.n_annotations) if omega is None else omega
    individual = np.diagonal(fitted.annotator_confusion_, axis1=1, axis2=2)[crowd.annotators]
    common = np.diagonal(fitted.common_confusion_)
    right = share[:, None] * common + (1 - share[:, None]) * individual
    return np.asarray((fitted.probas_[crowd.tasks] * right).sum(1))


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
