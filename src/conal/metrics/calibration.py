"""Calibration of class probabilities."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from conal.errors import InputError
from conal.metrics.validation import Classes, label_codes, probabilities
from conal.parameters import one_of, whole

__all__ = ["brier_score", "calibration_error"]

FloatArray = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


def calibration_error(
    y_true: object,
    probas: object,
    classes: Classes | None = None,
    n_bins: int = 15,
    norm: Literal["l1", "max"] = "l1",
    strategy: Literal["uniform", "quantile"] = "uniform",
) -> float:
    r"""How far confidence is from accuracy (expected calibration error of the top label).

    Of the instances that a calibrated classifier is 80 % sure of, 80 % are right. Instances are put into bins
    :math:`B_m` by their confidence :math:`p_i = \max_c p_{ic}`:

    .. math::
        \mathrm{ECE} = \sum_m \frac{|B_m|}{N} \, | \mathrm{acc}(B_m) - \mathrm{conf}(B_m) |, \qquad
        \mathrm{MCE} = \max_{m : B_m \ne \emptyset} | \mathrm{acc}(B_m) - \mathrm{conf}(B_m) |

    Among equal probabilities the first class is the prediction.

    Parameters
    ----------
    y_true : (N,) labels
        Columns of ``probas`` (0 to C - 1), or labels if ``classes`` names the columns.
    probas : (N, C)
        Class probabilities; rows must sum to 1 within 0.001.
    classes : sequence, optional
        Names of the columns of ``probas``.
    n_bins : int
    norm : {"l1", "max"}
        "l1" for ECE, the mean gap; "max" for MCE, the largest.
    strategy : {"uniform", "quantile"}
        Bins of equal width, ((m - 1) / M, m / M] as in the paper; or between the quantiles of the confidences, with
        about as many instances in each. Equal confidences always share a bin, so that order does not matter.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017). On calibration of modern neural networks. ICML.

    Examples
    --------
    >>> calibration_error([0, 1], [[0.75, 0.25], [0.75, 0.25]])
    0.25
    """
    whole(1).check("n_bins", n_bins)
    one_of("l1", "max").check("norm", norm)
    one_of("uniform", "quantile").check("strategy", strategy)
    p, codes = _labelled_probabilities(y_true, probas, classes)
    confidence, right = p.max(1), p.argmax(1) == codes
    bins = np.searchsorted(_inner_edges(confidence, n_bins, strategy), confidence, side="left")
    size = np.bincount(bins, minlength=n_bins)
    gap = np.abs(np.bincount(bins, weights=right - confidence, minlength=n_bins))
    return float(gap.sum() / len(codes) if norm == "l1" else (gap / np.maximum(size, 1)).max())


def brier_score(y_true: object, probas: object, classes: Classes | None = None) -> float:
    r"""Squared distance between probabilities and true classes, between 0 and 2; lower is better.

    .. math::
        \frac1N \sum_i \sum_c (p_{ic} - [z_i = c])^2

    This is Brier's own sum over all classes: for two classes it is twice the score of the positive class alone.

    Parameters
    ----------
    y_true, probas, classes
        As for :func:`calibration_error`.

    References
    ----------
    Brier (1950). Verification of forecasts expressed in terms of probability. Monthly Weather Review 78, 1-3.

    Examples
    --------
    >>> brier_score(["cat", "dog"], [[1.0, 0.0], [0.5, 0.5]], classes=["cat", "dog"])
    0.25
    """
    p, codes = _labelled_probabilities(y_true, probas, classes)
    residual = p.copy()
    residual[np.arange(len(codes)), codes] -= 1
    return float(np.square(residual).sum(1).mean())


def _labelled_probabilities(y_true: object, probas: object, classes: Classes | None) -> tuple[FloatArray, Codes]:
    p = probabilities(probas, "probas")
    codes = label_codes(y_true, classes, p.shape[1])
    if len(codes) != len(p):
        raise InputError(f"y_true has {len(codes):,} labels and probas {len(p):,} rows; pass one of each per instance")
    return p, codes


def _inner_edges(confidence: FloatArray, n_bins: int, strategy: str) -> FloatArray:
    levels = np.arange(1, n_bins) / n_bins
    return levels if strategy == "uniform" else np.quantile(confidence, levels)
