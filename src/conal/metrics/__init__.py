"""Metrics of predictions, probabilities, confusion matrices and crowds."""

from conal.metrics.agreement import Agreement, cohen_kappa, fleiss_kappa, gwet_ac1, krippendorff_alpha
from conal.metrics.calibration import brier_score, calibration_error
from conal.metrics.classification import ConfusionCounts, accuracy, confusion_counts, macro_f1, mean_absolute_error
from conal.metrics.co_direction import CoDirection, Estimate, co_direction
from conal.metrics.crowd_rates import GoldRates, gold_rates
from conal.metrics.difference_estimator import Rate, gold_rate
from conal.metrics.effective_number import EffectiveNumber, effective_number
from conal.metrics.likelihood import annotation_nll
from conal.metrics.pairwise import PairwiseAgreement, pairwise_agreement
from conal.metrics.recovery import annotator_recovery_errors, confusion_recovery_error
from conal.metrics.replacement import Replacement, replacement_test

__all__ = [
    "Agreement",
    "CoDirection",
    "ConfusionCounts",
    "EffectiveNumber",
    "Estimate",
    "GoldRates",
    "PairwiseAgreement",
    "Rate",
    "Replacement",
    "accuracy",
    "annotation_nll",
    "annotator_recovery_errors",
    "brier_score",
    "calibration_error",
    "co_direction",
    "cohen_kappa",
    "confusion_counts",
    "confusion_recovery_error",
    "effective_number",
    "fleiss_kappa",
    "gold_rate",
    "gold_rates",
    "gwet_ac1",
    "krippendorff_alpha",
    "macro_f1",
    "mean_absolute_error",
    "pairwise_agreement",
    "replacement_test",
]
