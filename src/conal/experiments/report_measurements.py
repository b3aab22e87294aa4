"""Measurements of what reports say, beside the truth: do intervals hold it, and are shared mistakes found?"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conal.aggregation import DawidSkene
from conal.datasets import CrowdDataset
from conal.estimator import CrowdClassifier
from conal.estimator.results import FittedResults
from conal.findings.evidence import MIN_LABELS_PER_CLASS
from conal.findings.shared_mistakes import SharedMistakesSection, figure_of
from conal.metrics import EffectiveNumber, co_direction, effective_number

__all__ = ["commonness", "coverage", "true_figures"]

FloatArray = npt.NDArray[np.float64]


def true_figures(data: CrowdDataset) -> tuple[FloatArray, FloatArray]:
    """(R,) P(right) of every annotator on what was labelled, and (C, C) P(observed l | true c) over all labels."""
    crowd, truth = data.annotations, data.truth
    assert truth is not None  # noqa: S101 - only simulated crowds are asked
    z = truth.z[crowd.tasks]
    omega = truth.omega[:, None]
    rows = omega * truth.pi_g[z] + (1 - omega) * truth.pi_r[crowd.annotators, z]
    right = np.bincount(crowd.annotators, weights=rows[np.arange(len(z)), z], minlength=crowd.n_annotators)
    shares = np.zeros_like(truth.pi_g)
    np.add.at(shares, z, rows)
    return right / np.maximum(crowd.labels_per_annotator(), 1), shares / shares.sum(1, keepdims=True)


def coverage(clf: CrowdClassifier, data: CrowdDataset) -> dict[str, float]:
    """How many of the intervals of a report contain the truth, for annotators and for confused pairs."""
    people = clf.tables_["annotators.csv"]
    given = data.annotations.labels_per_annotator() > 0
    low, high = (people[f"annotator_quality_{end}"].to_numpy(zero_copy_only=False)[given] for end in ("low", "high"))
    quality, shares = true_figures(data)
    pairs = clf.results_.report["common_confusion"]["pairs"]
    names = data.classes.tolist()
    truth = [shares[names.index(pair["true"]), names.index(pair["observed"])] for pair in pairs]
    return {
        "annotators": int(given.sum()),
        "annotators_held": int(((low <= quality[given]) & (quality[given] <= high)).sum()),
        "annotators_width": float((high - low).mean()),
        "pairs": len(pairs),
        "pairs_held": sum(pair["low"] <= share <= pair["high"] for pair, share in zip(pairs, truth, strict=True)),
        "pairs_width": float(np.mean([pair["high"] - pair["low"] for pair in pairs])),
    }


def commonness(clf: CrowdClassifier, data: CrowdDataset) -> dict[str, Any]:
    """Co-direction and the effective number, by true labels, and by those that the method and Dawid-Skene inferred."""
    crowd, certain = data.annotations, np.eye(len(data.classes))[data.y_true]
    assert isinstance(clf.results_, FittedResults)  # noqa: S101 - it comes from a fit
    findings = clf.results_.findings
    section: SharedMistakesSection = findings.section("shared_mistakes")  # not the slow intervals
    model = DawidSkene(verbose=False).fit(crowd)
    by_model = co_direction(
        crowd, model.probas_, confusion=model.confusion_, min_labels_per_class=MIN_LABELS_PER_CLASS
    ).overall
    of_method = {
        "label_accuracy": float((clf.labels_ == data.classes[data.y_true]).mean()),
        **_effective(effective_number(crowd, findings.evidence.posterior)),
    }
    of_model = {
        "label_accuracy": float((model.codes_ == data.y_true).mean()),
        **_effective(effective_number(crowd, model.probas_)),
    }
    return {
        "true": _finite(co_direction(crowd, certain).overall.value),
        "effective_true": _finite(effective_number(crowd, certain).value),
        clf.method: {**section["co_direction"], **of_method},
        "dawid-skene": {**figure_of(by_model), **of_model},
    }


def _effective(found: EffectiveNumber) -> dict[str, float | None]:
    """The effective number by inferred labels, and the upper bound that a report says."""
    return {"effective": _finite(found.value), "effective_at_most": _finite(found.high)}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
