"""Metrics of predictions, probabilities, confusion matrices and crowds."""

from conal.metrics.agreement import Agreement, cohen_kappa, fleiss_kappa, gwet_ac1, krippendorff_alpha
from conal.metrics.calibration import brier_score, calibration_error
from conal.metrics.classification import ConfusionCounts, accuracy, confusion_counts, macro_f1
from conal.metrics.likelihood import annotation_nll
from conal.metrics.pairwise import PairwiseAgreement, pairwise_agreement
from conal.metrics.recovery import annotator_recovery_errors, confusion_recovery_error

__all__ = [
    "Agreement",
    "ConfusionCounts",
    "PairwiseAgreement",
    "accuracy",
    "annotation_nll",
    "annotator_recovery_errors",
    "brier_score",
    "calibration_error",
    "cohen_kappa",
    "confusion_counts",
    "confusion_recovery_error",
    "fleiss_kappa",
    "gwet_ac1",
    "krippendorff_alpha",
    "macro_f1",
    "pairwise_agreement",
]
