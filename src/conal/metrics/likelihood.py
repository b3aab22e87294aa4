"""Likelihood of annotations under a classifier and confusion matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.metrics.validation import confusion_matrices, probabilities

__all__ = ["annotation_nll"]

FloatArray = npt.NDArray[np.float64]


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
