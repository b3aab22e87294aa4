"""What answers on a task are worth: how much surer its label is expected to be after them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal._support.arrays import row_slices

__all__ = ["Reduced", "answer_information", "classes_kept", "expected_gain", "reduced", "value_of_answers"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CHUNK = 8_000_000
"""Products that are computed at a time."""
MOST_OUTCOMES = 5_000
"""Numbers per task, answers times classes; with more classes, only the most probable ones are told apart."""
TINY = 1e-300


class Reduced(NamedTuple):
    """Tasks with their most probable classes only.

    ``posterior[i, k]`` is that of class ``classes[i, k]``; what other classes have is left out.
    """

    posterior: FloatArray
    classes: IntArray


def reduced(posterior: FloatArray, kept: int) -> Reduced:
    """The most probable classes of every task, at most ``kept``; all of them where there is one more.

    >>> reduced(np.array([[0.1, 0.6, 0.3, 0.0]]), kept=2).classes.tolist()
    [[1, 2]]
    """
    n_classes = posterior.shape[1]
    if n_classes <= kept + 1:
        return Reduced(posterior, np.broadcast_to(np.arange(n_classes), posterior.shape))
    classes = np.argsort(-posterior, axis=1, kind="stable")[:, :kept]
    return Reduced(np.take_along_axis(posterior, classes, 1), classes)


def reduced_matrices(tasks: Reduced, confusion: FloatArray, annotators: IntArray) -> FloatArray:
    """(n, k, K, L) matrices of k annotators each, rows and answers of the kept classes, all other answers last."""
    n_classes = confusion.shape[1]
    if tasks.classes.shape[1] == n_classes:
        return confusion[annotators]
    rows = confusion[annotators[:, :, None], tasks.classes[:, None, :]]  # (n, k, K, C)
    at = np.broadcast_to(tasks.classes[:, None, None, :], (*rows.shape[:3], tasks.classes.shape[1]))
    own = np.take_along_axis(rows, at, 3)
    rest = np.maximum(1 - own.sum(3, keepdims=True), 0.0)
    return np.concatenate([own, rest], axis=3)


def classes_kept(n_answers: int, n_classes: int) -> int:
    """How many classes of a task are told apart by so many answers.

    >>> classes_kept(1, 50), classes_kept(3, 8), classes_kept(3, 50)
    (50, 8, 7)
    """
    if n_classes ** (n_answers + 1) <= MOST_OUTCOMES:
        return n_classes
    return next((k for k in range(n_classes - 1, 2, -1) if k * (k + 1) ** n_answers <= MOST_OUTCOMES), 2)


def value_of_answers(
    posterior: FloatArray, confusion: FloatArray, annotators: IntArray, kept: int | None = None
) -> FloatArray:
    r"""(n, k) expected probability that a task's label is right, after the answers of its first 1, 2, ... annotators.

    All answers :math:`l_1, ..., l_k` are enumerated. The label is then the most probable class:

    .. math::
        V_i(r_1, ..., r_k) = \sum_{l_1, ..., l_k} \max_c q_i(c) \prod_j \mu^{r_j}_{c, l_j}

    One answer may be worth nothing where two are worth much: it cannot overrule a label that is 80 % sure. So values
    of several answers are looked at together, not one by one.

    Parameters
    ----------
    posterior : (n, C)
    confusion : (R, C, C)
        ``confusion[r, c, l]`` = P(annotator r says l | true c).
    annotators : (n, k) int
        Who is asked about each task, in this order; -1 where nobody is.
    kept : int, optional
        Of the classes, the most probable ones, which answers can tell apart. Answers of all others count as one, so
        that the value is a bound from below.

    Examples
    --------
    >>> good = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> value_of_answers(np.array([[0.5, 0.5]]), good, np.array([[0, 0]])).round(3).tolist()
    [[0.9, 0.9]]
    """
    n, k = annotators.shape
    tasks = reduced(posterior, classes_kept(k, posterior.shape[1]) if kept is None else kept)
    n_kept = tasks.posterior.shape[1]
    outcomes = (n_kept + (n_kept < posterior.shape[1])) ** k
    value = np.empty((n, k))
    best = posterior.max(1)
    for part in row_slices(n, cells=outcomes * n_kept, limit=CHUNK):
        joint = tasks.posterior[part][:, None, :]  # (m, outcomes so far, K)
        some = Reduced(tasks.posterior[part], tasks.classes[part])
        for j in range(k):
            who = annotators[part, j]
            matrix = reduced_matrices(some, confusion, np.maximum(who, 0)[:, None])[:, 0]  # (m, K, L)
            after = joint[:, :, None, :] * matrix.transpose(0, 2, 1)[:, None]
            joint = after.reshape(len(joint), -1, n_kept)
            before = best[part] if j == 0 else value[part, j - 1]
            value[part, j] = np.where(who < 0, before, np.maximum(joint.max(2).sum(1), before))  # rounding
    return value


def expected_gain(posterior: FloatArray, confusion: FloatArray) -> FloatArray:
    r"""(n, R) expected decrease of the probability that the label is wrong, after one more answer.

    The answer is l with probability :math:`\sum_c q_c \mu_{cl}`, and the label is then the class c with the largest
    :math:`q_c \mu_{cl}`:

    .. math::
        \sum_l \max_c q_c \mu^r_{cl} - \max_c q_c

    Parameters
    ----------
    posterior : (n, C)
    confusion : (R, C, C)
        ``confusion[r, c, l]`` = P(annotator r says l | true c).

    Examples
    --------
    >>> expected_gain(np.array([[0.5, 0.5]]), np.array([[[0.9, 0.1], [0.1, 0.9]]])).round(3).tolist()
    [[0.4]]
    """
    n, C = posterior.shape
    gain = np.empty((n, len(confusion)))
    for r, matrix in enumerate(confusion):
        for part in row_slices(n, cells=C * C, limit=CHUNK):
            q = posterior[part]
            after = (q[:, :, None] * matrix).max(1).sum(1)
            gain[part, r] = after - q.max(1)
    return np.maximum(gain, 0.0)  # rounding alone can make it negative


def answer_information(posterior: FloatArray, confusion: FloatArray, annotators: IntArray) -> FloatArray:
    r"""(n, k) bits that an answer of each annotator is expected to tell about the true class; -inf for nobody (-1).

    .. math::
        H\bigl(\textstyle\sum_c q_c \mu_{c \cdot}\bigr) - \sum_c q_c H(\mu_{c \cdot})

    Above 0 also where no single answer can change the label.

    >>> noisy, blind = [[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]
    >>> answer_information(np.array([[0.5, 0.5]]), np.array([noisy, blind]), np.array([[0, 1, -1]])).round(3).tolist()
    [[0.531, 0.0, -inf]]
    """
    spread = _bits(confusion)  # (R, C)
    found = np.empty(annotators.shape)
    for part in row_slices(len(annotators), cells=annotators.shape[1] * posterior.shape[1] ** 2, limit=CHUNK):
        who, q = np.maximum(annotators[part], 0), posterior[part]
        answers = np.einsum("nc,nkcl->nkl", q, confusion[who])
        found[part] = np.maximum(_bits(answers) - np.einsum("nc,nkc->nk", q, spread[who]), 0.0)
    return np.where(annotators < 0, -np.inf, found)


def _bits(shares: FloatArray) -> FloatArray:
    """Entropy along the last axis, in bits."""
    return np.asarray(-(shares * np.log2(np.maximum(shares, TINY))).sum(-1))
