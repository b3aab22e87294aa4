"""Probabilities, likelihoods and confusion matrices against what is known; checks of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from conal._arrays import FloatArray
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, Encoded, Names, as_names, decode_position, encode
from conal.errors import InputError, examples
from conal.parameters import one_of, whole

# The inputs of metrics: labels, probabilities and confusion matrices.

Codes = npt.NDArray[np.int64]
Classes = Sequence[Any] | Names
"""The classes in the order of codes and columns."""

TOLERANCE = 1e-3
"""How far a row may be from a sum of 1: single precision and rounded files pass, counts and percentages do not."""


def label_codes(y_true: object, classes: Classes | None, n_classes: int) -> Codes:
    """True labels as columns of a probability matrix: they are codes already, unless ``classes`` names the columns."""
    codes, found = _read_labels(y_true)
    if classes is None and found.dtype.kind not in "iu":
        raise InputError(
            f"y_true: contains {examples(found)}, which are not positions of columns; "
            "name the columns of probas with classes="
        )
    names = np.arange(n_classes) if classes is None else as_names(classes)
    if len(names) != n_classes or len(set(names.tolist())) < n_classes:
        raise InputError(f"classes: expected {n_classes} distinct names, one for each column of probas, got {names}")
    column = decode_position(names, found)
    unknown = column == MISSING
    if unknown.any():
        raise InputError(
            f"y_true: {examples(found[unknown])} not among the {n_classes} columns of probas, the first at position "
            f"{int(np.flatnonzero(unknown[codes])[0])}; correct the labels, or name the columns with classes="
        )
    return column[codes]


def _read_labels(values: object) -> Encoded:
    try:
        codes, names = encode(_column(values))
    except InputError as error:
        raise InputError(f"y_true: {error}") from error
    missing = np.flatnonzero(codes == MISSING)
    if len(missing):
        raise InputError(
            f"y_true: {len(missing):,} labels are missing (None or NaN), the first at position {missing[0]}; "
            "leave these instances out"
        )
    return codes, names


def _column(values: Any) -> Any:
    # Sets have no order, and the letters of a text are no labels. Annotations cannot be iterated over.
    if isinstance(values, str | bytes | dict | set | frozenset) or not hasattr(values, "__iter__"):
        raise InputError(f"expected one label per instance, not {type(values).__name__}; pass a list, array or Series")
    if not hasattr(values, "__array__"):
        # Two tensors that contain the same number are different names to Python.
        return [item.item() if getattr(item, "ndim", None) == 0 else item for item in values]
    array = _array(values, None)
    if array.ndim != 1:
        raise InputError(f"expected one label per instance, got shape {array.shape}; for probabilities, take argmax(1)")
    return array


def probabilities(values: object, name: str) -> FloatArray:
    """(N, C) class probabilities, one distribution per row."""
    array = numbers(values, name)
    if array.ndim != 2 or not array.size:
        raise InputError(
            f"{name}: expected instances x classes, got shape {array.shape}; "
            "for the probability p of one of two classes, pass np.column_stack([1 - p, p])"
        )
    _check_rows(array, name)
    return array


def task_posterior(posterior: npt.ArrayLike, crowd: Annotations, name: str = "posterior") -> FloatArray:
    """(N, C) probability of every class for every task of a crowd; rows of zeros leave tasks out."""
    array = np.asarray(posterior, dtype=np.float64)
    if array.shape != (crowd.n_tasks, crowd.n_classes):
        raise InputError(
            f"{name} has shape {array.shape}, expected {(crowd.n_tasks, crowd.n_classes)}; pass a row per task and "
            "a column per class; if nobody chose some class, create Annotations with classes="
        )
    return array


def confusion_matrices(values: object, name: str) -> FloatArray:
    """(C, C) or (R, C, C) confusion matrices, true class before observed class, one distribution per row."""
    array = numbers(values, name)
    if array.ndim not in (2, 3) or not array.size or array.shape[-1] != array.shape[-2]:
        raise InputError(
            f"{name}: expected a (C, C) matrix or (R, C, C) matrices, true class before observed class, "
            f"got shape {array.shape}"
        )
    _check_rows(array, name)
    return array


def numbers(values: object, name: str) -> FloatArray:
    """A finite array in double precision."""
    try:
        array = _array(values, np.float64)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    if not np.isfinite(array).all():
        raise InputError(f"{name}: NaN or infinite at {_first(~np.isfinite(array))}; pass finite numbers")
    return array


def _array(values: Any, dtype: type | None) -> npt.NDArray[Any]:
    try:
        return np.asarray(values, dtype=dtype)
    except (TypeError, ValueError, RuntimeError) as error:  # the last is torch's, for tensors with a gradient
        raise InputError(f"cannot be read as an array ({error}); pass a plain array") from error


def _check_rows(array: FloatArray, name: str) -> None:
    negative = array < 0
    if negative.any():
        raise InputError(f"{name}: negative at {_first(negative)}; pass probabilities, after the softmax")
    total = array.sum(-1)
    off = np.abs(total - 1) > TOLERANCE
    if off.any():
        at = _first(off)
        raise InputError(
            f"{name}: row {at} sums to {total[tuple(at)]:.6g}, not 1; "
            "pass probabilities, or divide each row of counts by its sum"
        )


def _first(mask: npt.NDArray[np.bool_]) -> list[int]:
    return [int(k) for k in np.argwhere(mask)[0]]


# Likelihood of annotations under a classifier and confusion matrices.


def annotation_nll(probas: object, confusion: object, annotations: Any) -> float:
    r"""Mean negative log-likelihood of annotations, which needs no true label. Lower is better.

    .. math::
        -\frac{1}{|O|} \sum_{(i, r) \in O} \log \sum_c p_{ic} \, \pi^r_{c, y_i^r}

    A label that cannot happen, of probability 0 (below 1e-308) under every class that the task may have, gives
    infinity. The result is never NaN. Time and memory follow the number of annotations times classes.

    Parameters
    ----------
    probas : (N, C)
        ``probas[i]`` belongs to ``annotations.task_ids[i]``, columns to ``annotations.classes``. Rows must sum to 1
        within 0.001.
    confusion : (R, C, C) or (C, C)
        ``confusion[r, c, l]`` = P(observed l | true c), in the order of ``annotations.annotator_ids``; or one matrix
        that all annotators share.
    annotations : Annotations, long DataFrame or (N, R) matrix
        A matrix or frame has the classes that occur in it; make :class:`~conal.data.annotations.Annotations` with
        ``classes=`` where some never do.

    Examples
    --------
    >>> crowd = Annotations.from_matrix([[0, 1], [1, -1]])
    >>> round(annotation_nll([[1, 0], [0, 1]], [[0.8, 0.2], [0.5, 0.5]], crowd), 4)  # -log(0.8 * 0.2 * 0.5) / 3
    0.8419
    """
    p, pi = probabilities(probas, "probas"), confusion_matrices(confusion, "confusion")
    crowd = Annotations.of(annotations)
    _check_shapes(p, pi, crowd)
    pi_r = np.broadcast_to(pi, (crowd.n_annotators, *pi.shape[-2:]))  # a shared matrix is not copied
    likelihood = np.einsum("kc,kc->k", p[crowd.tasks], pi_r[crowd.annotators, :, crowd.labels])
    with np.errstate(divide="ignore"):  # an impossible label
        return 0.0 - float(np.log(likelihood).mean())  # not the negative, which would make -0.0 of certainty


def _check_shapes(p: FloatArray, pi: FloatArray, crowd: Annotations) -> None:
    if not crowd.n_annotations:
        raise InputError("annotations: contain no labels; pass at least one")
    task_posterior(p, crowd, "probas")
    if pi.shape[-1] != crowd.n_classes:
        raise InputError(f"confusion: {pi.shape[-1]} classes, but annotations and probas have {crowd.n_classes}")
    if pi.ndim == 3 and len(pi) != crowd.n_annotators:
        raise InputError(
            f"confusion: {len(pi):,} matrices for {crowd.n_annotators:,} annotators; "
            "pass one per annotator in the order of annotator_ids, or a single (C, C) matrix"
        )


# Calibration of class probabilities.


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
    levels = np.arange(1, n_bins) / n_bins
    edges = levels if strategy == "uniform" else np.quantile(confidence, levels)
    bins = np.searchsorted(edges, confidence, side="left")
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


# Estimated confusion matrices against known ones, known from a simulation or from true labels.


def confusion_recovery_error(true: object, estimated: object, weights: object = None) -> float:
    r"""Mean absolute error over the entries of confusion matrices, between 0 and 2 / C.

    .. math::
        \sum_r \frac{w_r}{\sum_{r'} w_{r'}} \, \frac{1}{C^2} \sum_{c, l} | \hat\pi^r_{cl} - \pi^r_{cl} |

    Parameters
    ----------
    true, estimated : (C, C) or (R, C, C)
        True class before observed class; rows must sum to 1 within 0.001.
    weights : (R,), optional
        How much each annotator counts; without it all count alike. With ``annotations.labels_per_annotator()``
        annotators are weighted by their number of labels; annotators without labels do not count.

    Examples
    --------
    >>> confusion_recovery_error([[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.0, 1.0]])
    0.25
    """
    a, b = confusion_matrices(true, "true"), confusion_matrices(estimated, "estimated")
    if a.shape != b.shape:
        raise InputError(
            f"true has shape {a.shape} and estimated {b.shape}; pass the same annotators and classes, "
            "and repeat a common matrix with np.broadcast_to"
        )
    errors = np.abs(a - b).mean((-2, -1))
    return float(np.average(errors, weights=None if weights is None else _check_weights(weights, errors.shape)))


def _check_weights(weights: object, shape: tuple[int, ...]) -> FloatArray:
    w = numbers(weights, "weights")
    if not shape or w.shape != shape:
        raise InputError(f"weights: shape {w.shape} for matrices of {shape or 'one'} annotators; pass one for each")
    if (w < 0).any() or not w.sum() > 0:
        raise InputError(
            "weights: expected numbers of at least 0, not all 0, such as the number of labels per annotator"
        )
    return w
