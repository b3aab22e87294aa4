"""Estimated confusion matrices against known ones, known from a simulation or from gold labels."""

from __future__ import annotations

import numpy as np

from conal._arrays import FloatArray
from conal.errors import InputError
from conal.metrics.classification import confusion_matrices, numbers


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
    errors = _mean_entry_errors(true, estimated)
    if weights is None:
        return float(errors.mean())
    return float(np.average(errors, weights=_check_weights(weights, errors.shape)))


def annotator_recovery_errors(true: object, estimated: object) -> FloatArray:
    r"""(R,) mean absolute error over entries of each annotator's matrix; see :func:`confusion_recovery_error`.

    .. math::
        \frac{1}{C^2} \sum_{c, l} | \hat\pi^r_{cl} - \pi^r_{cl} |

    Parameters
    ----------
    true, estimated : (R, C, C)

    Examples
    --------
    >>> identity, spammer = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]
    >>> annotator_recovery_errors([identity, spammer], [identity, identity]).tolist()
    [0.0, 0.5]
    """
    errors = _mean_entry_errors(true, estimated)
    if errors.ndim != 1:
        raise InputError("true: one (C, C) matrix, not one per annotator; use confusion_recovery_error")
    return errors


def _mean_entry_errors(true: object, estimated: object) -> FloatArray:
    """One number per matrix: (R,), or () for a single one."""
    a, b = confusion_matrices(true, "true"), confusion_matrices(estimated, "estimated")
    if a.shape != b.shape:
        raise InputError(
            f"true has shape {a.shape} and estimated {b.shape}; pass the same annotators and classes, "
            "and repeat a common matrix with np.broadcast_to"
        )
    return np.asarray(np.abs(a - b).mean((-2, -1)))


def _check_weights(weights: object, shape: tuple[int, ...]) -> FloatArray:
    w = numbers(weights, "weights")
    if not shape or w.shape != shape:
        raise InputError(f"weights: shape {w.shape} for matrices of {shape or 'one'} annotators; pass one for each")
    if (w < 0).any() or not w.sum() > 0:
        raise InputError(
            "weights: expected numbers of at least 0, not all 0, such as the number of labels per annotator"
        )
    return w
