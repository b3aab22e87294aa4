"""Metrics of predictions, probabilities, confusion matrices and crowds."""

from conal.metrics.agreement import (
    Agreement,
    PairwiseAgreement,
    cohen_kappa,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
    pairwise_agreement,
)
from conal.metrics.classification import (
    ConfusionCounts,
    accuracy,
    annotation_nll,
    brier_score,
    calibration_error,
    confusion_counts,
    macro_f1,
    mean_absolute_error,
)
from conal.metrics.rates import GoldRates, Rate, gold_rate, gold_rates
from conal.metrics.recovery import annotator_recovery_errors, confusion_recovery_error
from conal.metrics.replacement import Replacement, replacement_test
from conal.metrics.shared_mistakes import CoDirection, EffectiveNumber, Estimate, co_direction, effective_number

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
