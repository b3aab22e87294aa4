"""Metrics of probabilities, confusion matrices and crowds; those of predicted labels are scikit-learn's."""

from conal.metrics.agreement import (
    Agreement,
    cohen_kappa,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
)
from conal.metrics.classification import (
    annotation_nll,
    brier_score,
    calibration_error,
    confusion_recovery_error,
)
from conal.metrics.measurement import Measurement, drift, measure
from conal.metrics.rates import GoldRates, Rate, gold_rate, gold_rates
from conal.metrics.replacement import Replacement, replacement_test
from conal.metrics.shared_mistakes import CoDirection, EffectiveNumber, Estimate, co_direction, effective_number

__all__ = [
    "Agreement",
    "CoDirection",
    "EffectiveNumber",
    "Estimate",
    "GoldRates",
    "Measurement",
    "Rate",
    "Replacement",
    "annotation_nll",
    "brier_score",
    "calibration_error",
    "co_direction",
    "cohen_kappa",
    "confusion_recovery_error",
    "drift",
    "effective_number",
    "fleiss_kappa",
    "gold_rate",
    "gold_rates",
    "gwet_ac1",
    "krippendorff_alpha",
    "measure",
    "replacement_test",
]
