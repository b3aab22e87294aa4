"""The tables of a model folder: cleaned labels, annotators, common confusion, training history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.annotations import Annotations
from conal.io.results import annotator_table, label_table, mean_by_annotator, name_column

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


def _labels(fitted: CrowdClassifier) -> pa.Table:
    return label_table(fitted.task_ids_, fitted.probas_, fitted.classes_)


def _annotators(fitted: CrowdClassifier, crowd: Annotations, omega: FloatArray | None) -> pa.Table:
    """Quality and character of each annotator; empty cells for those without labels.

    ``annotator_quality`` is the probability of a right label by the learned confusion, averaged over the tasks that
    the annotator labelled; ``agreement_with_consensus`` is the share of his or her labels that equal the inferred
    label; ``common_noise_rate`` is the mean omega.
    """
    quality = mean_by_annotator(crowd, _expected_accuracy(fitted, crowd, omega))
    table = annotator_table(crowd, quality, fitted.probas_.argmax(1))
    return table if omega is None else table.append_column("common_noise_rate", mean_by_annotator(crowd, omega))


def _expected_accuracy(fitted: CrowdClassifier, crowd: Annotations, omega: FloatArray | None) -> FloatArray:
    """(n_annotations,) sum_c P(z = c) [omega pi_g + (1 - omega) pi_r]_cc of each annotation."""
    share = np.zeros(crowd.n_annotations) if omega is None else omega
    individual = np.diagonal(fitted.annotator_confusion_, axis1=1, axis2=2)[crowd.annotators]
    common = np.diagonal(fitted.common_confusion_)
    right = share[:, None] * common + (1 - share[:, None]) * individual
    return np.asarray((fitted.probas_[crowd.tasks] * right).sum(1))


def _common_confusion(fitted: CrowdClassifier) -> pa.Table:
    """Rows are true classes, columns observed ones; the first column names the true class."""
    confusion = fitted.common_confusion_
    observed = {str(name): confusion[:, k] for k, name in enumerate(fitted.classes_.tolist())}
    first = "true"
    while first in observed:  # a class may be called so
        first += "_"
    return pa.table({first: name_column(fitted.classes_), **observed})


def _history(fitted: CrowdClassifier) -> pa.Table:
    names = list(dict.fromkeys(name for row in fitted.history_ for name in row))
    return pa.table({name: [row.get(name) for row in fitted.history_] for name in names})
