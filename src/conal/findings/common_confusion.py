"""What everybody confuses: the common confusion, and its largest mistakes with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conal.findings.evidence import Evidence, plain_names
from conal.findings.intervals import Interval

__all__ = ["MAX_PAIRS", "confusion_findings", "label_shares", "shown_classes"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_PAIRS = 20
MAX_CLASSES = 25
"""A matrix with more rows cannot be read; of more classes, those with the most mistakes are shown."""


def label_shares(evidence: Evidence) -> FloatArray:
    r"""(C, C) share of label l among the labels that tasks of true class c got, over all annotators.

    .. math::
        \kappa_{cl} = \sum_{i, r : y_i^r = l} q_i(c) \Big/ \sum_{i, r} q_i(c)

    This is what the data identify whatever the method; the common confusion that a method learned may differ. A class
    without labels has the learned row.
    """
    counts = evidence.posterior.T @ evidence.votes
    total = counts.sum(1, keepdims=True)
    return np.where(total > 0, counts / np.maximum(total, 1e-300), evidence.common)


def shown_classes(evidence: Evidence) -> IntArray:
    """Codes of the classes that matrices show: all, or those that the most mistakes begin or end with."""
    C = len(evidence.common)
    if C <= MAX_CLASSES:
        return np.arange(C)
    mistakes = evidence.posterior.T @ evidence.votes
    np.fill_diagonal(mistakes, 0)
    return np.sort(np.argsort(-(mistakes.sum(0) + mistakes.sum(1)), kind="stable")[:MAX_CLASSES])


def confusion_findings(evidence: Evidence, interval: Interval) -> dict[str, Any]:
    """The matrix as learned, for the classes that are shown, and the mistakes that most labels go into."""
    shown = shown_classes(evidence)
    return {
        "classes_shown": shown.tolist(),
        "matrix": evidence.common[np.ix_(shown, shown)].tolist(),
        "pairs": _pairs(evidence, interval),
    }


def _pairs(evidence: Evidence, interval: Interval) -> list[dict[str, Any]]:
    """Largest shares first; only what is expected to have happened at least once."""
    shares = label_shares(evidence)
    counts = evidence.posterior.T @ evidence.votes
    mistakes = np.where((counts >= 1) & ~np.eye(len(shares), dtype=bool), shares, 0.0)
    order = np.argsort(-mistakes, axis=None, kind="stable")[:MAX_PAIRS]
    names = plain_names(evidence.annotations.classes)
    pairs = []
    for true, observed in (divmod(int(k), len(shares)) for k in order if mistakes.flat[k] > 0):
        made, met = _who(evidence, true, observed)
        pairs.append(
            {
                "true": names[true],
                "observed": names[observed],
                "share": float(shares[true, observed]),
                "low": float(min(interval.low[true, observed], shares[true, observed])),
                "high": float(max(interval.high[true, observed], shares[true, observed])),
                "learned": float(evidence.common[true, observed]),
                "expected_count": float(counts[true, observed]),
                "annotators_who_made_it": made,
                "annotators_who_met_it": met,
            }
        )
    return pairs


def _who(evidence: Evidence, true: int, observed: int) -> tuple[int, int]:
    """How many annotators probably made a mistake at least once, and how many met the class at least once."""
    crowd = evidence.annotations
    such = crowd.labels == observed
    weights = evidence.posterior[crowd.tasks[such], true]
    made = np.bincount(crowd.annotators[such], weights=weights, minlength=crowd.n_annotators)
    met = evidence.classes_met[:, true]
    return int((made >= 0.5).sum()), int((met >= 0.5).sum())
