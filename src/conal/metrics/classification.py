"""Predictions, probabilities and likelihoods against true labels; checks of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from conal._arrays import FloatArray
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, Encoded, Names, as_names, decode_position, encode
from conal.errors import InputError, examples
from conal.parameters import one_of, whole

# Read and check the inputs of metrics: labels, probabilities and confusion matrices.

Codes = npt.NDArray[np.int64]
Classes = Sequence[Any] | Names
"""The classes in the order of codes and columns."""

TOLERANCE = 1e-3
"""How far a row may be from a sum of 1: single precision and rounded files pass, counts and percentages do not."""


class LabelPairs(NamedTuple):
    """True and predicted labels as codes into one list of classes."""

    true: Codes
    predicted: Codes
    classes: Names


# ---------------------------------------------------------------- labels


def label_pairs(y_true: object, y_pred: object, classes: Classes | None) -> LabelPairs:
    """Two equally long sequences of labels, matched by position; the classes are all that occur, or those given."""
    true, predicted = _read_labels(y_true, "y_true"), _read_labels(y_pred, "y_pred")
    (true_codes, true_names), (predicted_codes, predicted_names) = true, predicted
    if len(true_codes) != len(predicted_codes):
        raise InputError(
            f"y_true has {len(true_codes):,} labels and y_pred {len(predicted_codes):,}; pass one of each per instance"
        )
    _refuse_text_against_numbers(true_names, predicted_names)
    # True and 1 are equal, as in scikit-learn's metrics; each sequence alone has been read already.
    found = list(dict.fromkeys([*true_names.tolist(), *predicted_names.tolist()]))
    names = encode(found)[1] if classes is None else _distinct(classes)
    return LabelPairs(_positions(true, names, "y_true"), _positions(predicted, names, "y_pred"), names)


def label_codes(y_true: object, classes: Classes | None, n_classes: int) -> Codes:
    """True labels as columns of a probability matrix: they are codes already, unless ``classes`` names the columns."""
    true, found = _read_labels(y_true, "y_true")
    if classes is not None:
        names = _distinct(classes)
        if len(names) != n_classes:
            raise InputError(f"classes: {len(names)} names for {n_classes} columns of probas; name each column once")
        return _positions((true, found), names, "y_true")
    if found.dtype.kind not in "iu":
        raise InputError(
            f"y_true: contains {examples(found)}, which are not positions of columns; "
            "name the columns of probas with classes="
        )
    outside = found[(found < 0) | (found >= n_classes)]
    if len(outside):
        raise InputError(
            f"y_true: {examples(outside)} not in range({n_classes}), the columns of probas; "
            "name the columns with classes= if these are labels"
        )
    codes: Codes = found[true].astype(np.int64)
    return codes


def _read_labels(values: object, name: str) -> Encoded:
    try:
        codes, names = encode(_column(values))
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    if not len(codes):
        raise InputError(f"{name}: contains no labels; pass one label per instance")
    missing = np.flatnonzero(codes == MISSING)
    if len(missing):
        raise InputError(
            f"{name}: {len(missing):,} labels are missing (None or NaN), the first at position {missing[0]}; "
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


def _positions(encoded: Encoded, classes: Names, name: str) -> Codes:
    found, names = encoded
    position = decode_position(classes, names)
    unknown = position == MISSING
    if unknown.any():
        first = int(np.flatnonzero(unknown[found])[0])
        raise InputError(
            f"{name}: {examples(names[unknown])} not among the {len(classes)} classes, the first at position "
            f"{first}; correct the labels or add them to classes"
        )
    codes: Codes = position[found]
    return codes


def _distinct(classes: Classes) -> Names:
    names = as_names(classes)
    if not len(names) or len(set(names.tolist())) < len(names):
        raise InputError(f"classes: expected distinct names, got {names.tolist()}; name each class once")
    return names


def _refuse_text_against_numbers(true: Names, predicted: Names) -> None:
    """Reject 0 against '0', which would count every prediction as wrong."""
    text = [{isinstance(name, str) for name in names.tolist()} for names in (true, predicted)]
    if text in ([{True}, {False}], [{False}, {True}]):
        raise InputError(
            f"y_true contains {examples(true)} and y_pred {examples(predicted)}: text against numbers; "
            "use the same names in both"
        )


# ---------------------------------------------------------------- numbers


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


def task_posterior(posterior: npt.ArrayLike, crowd: Annotations) -> FloatArray:
    """(N, C) probability of every class for every task of a crowd; rows of zeros leave tasks out."""
    array = np.asarray(posterior, dtype=np.float64)
    if array.shape != (crowd.n_tasks, crowd.n_classes):
        raise InputError(
            f"posterior has shape {array.shape}, expected {(crowd.n_tasks, crowd.n_classes)}; pass a row per task and "
            "a column per class"
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
    if p.shape != (crowd.n_tasks, crowd.n_classes):
        raise InputError(
            f"probas: shape {p.shape} for {crowd.n_tasks:,} tasks and {crowd.n_classes} classes; pass a row per task "
            "and a column per class; if nobody chose some class, create Annotations with classes="
        )
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


# Predicted labels against true ones.


class ConfusionCounts(NamedTuple):
    """``counts[c, l]`` = how many instances of class ``classes[c]`` were predicted as ``classes[l]``."""

    counts: npt.NDArray[np.int64]
    classes: Names


def accuracy(y_true: object, y_pred: object) -> float:
    r"""Share of instances whose label is predicted: :math:`\frac1N \sum_i [\hat z_i = z_i]`.

    Parameters
    ----------
    y_true, y_pred : sequences of labels
        Text, numbers, any hashable names, as list, array or Series; matched by position. Missing labels are an error,
        and so are numbers on one side and text on the other.

    Examples
    --------
    >>> accuracy(["cat", "dog", "dog"], ["cat", "dog", "cat"])
    0.6666666666666666
    """
    from sklearn.metrics import accuracy_score  # slow to import

    pairs = label_pairs(y_true, y_pred, None)
    return float(accuracy_score(pairs.true, pairs.predicted))


def macro_f1(y_true: object, y_pred: object, classes: Classes | None = None) -> float:
    r"""Mean over classes of F1, the harmonic mean of precision and recall, with equal weight for rare classes.

    .. math::
        F_1(c) = \frac{2\, \mathrm{TP}_c}{n_c + \hat n_c}, \qquad
        n_c = \sum_i [z_i = c], \quad \hat n_c = \sum_i [\hat z_i = c]

    Parameters
    ----------
    y_true, y_pred : sequences of labels
        As for :func:`accuracy`.
    classes : sequence, optional
        The mean runs over these, and a label outside them is an error. Without it the mean runs over the classes that
        occur among true or predicted labels, as in scikit-learn. A class that does not occur at all counts only if
        it is named here, and then its F1 is 0.

    Examples
    --------
    >>> macro_f1([0, 0, 1, 1], [0, 0, 1, 0])
    0.7333333333333334
    """
    from sklearn.metrics import f1_score

    pairs = label_pairs(y_true, y_pred, classes)
    codes = np.arange(len(pairs.classes))
    return float(f1_score(pairs.true, pairs.predicted, labels=codes, average="macro", zero_division=0))


def confusion_counts(y_true: object, y_pred: object, classes: Classes | None = None) -> ConfusionCounts:
    r"""How often each class was predicted as each other: :math:`n_{cl} = \sum_i [z_i = c][\hat z_i = l]`.

    Parameters
    ----------
    y_true, y_pred : sequences of labels
        As for :func:`accuracy`.
    classes : sequence, optional
        The classes in the order you want; without it all that occur, sorted. A label outside them is an error.

    Examples
    --------
    >>> confusion_counts(["a", "a", "b"], ["a", "b", "b"]).counts.tolist()
    [[1, 1], [0, 1]]
    """
    from sklearn.metrics import confusion_matrix

    pairs = label_pairs(y_true, y_pred, classes)
    counts = confusion_matrix(pairs.true, pairs.predicted, labels=np.arange(len(pairs.classes)))
    return ConfusionCounts(np.asarray(counts, dtype=np.int64), pairs.classes)


def mean_absolute_error(y_true: object, y_pred: object, classes: Classes | None = None) -> float:
    r"""Mean distance of predictions from true labels on a scale: :math:`\frac1N \sum_i |\hat z_i - z_i|`.

    Parameters
    ----------
    y_true, y_pred : sequences of numbers, or of labels if ``classes`` are given
        Numbers may be predictions between the classes, such as means.
    classes : sequence, optional
        The classes from the lowest to the highest, for classes that are no numbers; the distance is that of their
        places.

    Examples
    --------
    >>> mean_absolute_error([1, 2, 5], [1, 4, 4.5])
    0.8333333333333334
    >>> mean_absolute_error(["bad", "good"], ["fair", "good"], classes=["bad", "fair", "good"])
    0.5
    """
    if classes is not None:
        pairs = label_pairs(y_true, y_pred, classes)
        return float(np.abs(pairs.true - pairs.predicted).mean())
    true, predicted = numbers(y_true, "y_true"), numbers(y_pred, "y_pred")
    if true.ndim != 1 or true.shape != predicted.shape or not len(true):
        raise InputError(
            f"y_true has shape {true.shape} and y_pred {predicted.shape}; pass one number of each per instance"
        )
    return float(np.abs(true - predicted).mean())
