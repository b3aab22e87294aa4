"""What a fit says about its cleaned labels, beside what is true of them."""

from __future__ import annotations

import numpy as np

from conal import metrics
from conal.datasets import CrowdDataset
from conal.estimator import CrowdClassifier

__all__ = ["cleaned_labels"]


def cleaned_labels(clf: CrowdClassifier, data: CrowdDataset) -> dict[str, float]:
    """The claimed and the true share of right labels, over tasks with labels, and the calibration error."""
    labelled = data.annotations.labels_per_task() > 0
    probas, truth = clf.probas_[labelled], data.classes[data.y_true][labelled]
    return {
        "claimed": float(probas.max(1).mean()),
        "label_accuracy": float(np.mean(clf.classes_[probas.argmax(1)] == truth)),
        "calibration_error": metrics.calibration_error(truth, probas, classes=clf.classes_),
    }
