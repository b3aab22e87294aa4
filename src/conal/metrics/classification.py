"""Predicted labels against true ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal.data.encoding import Names
from conal.errors import InputError
from conal.metrics.validation import Classes, label_pairs, numbers

__all__ = ["ConfusionCounts", "accuracy", "confusion_counts", "macro_f1", "mean_absolute_error"]


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
