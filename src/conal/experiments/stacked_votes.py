"""Stacked votes: a classifier of the annotators' labels, trained on the tasks whose true label is known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from conal.data.annotations import Annotations

__all__ = ["stacked_votes"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def stacked_votes(crowd: Annotations, rows: IntArray, truth: IntArray) -> FloatArray:
    r"""(N, C) class probabilities of all tasks by logistic regression on their labels (stacking; Wolpert 1992).

    The features of task i are the shares of the classes among its votes, and an indicator
    :math:`[y_i^r = l]` for every annotator r and class l; the penalty is :math:`\tfrac12 \|w\|^2`. Classes that no true
    label has are never predicted.

    Parameters
    ----------
    crowd : Annotations
    rows : (n,)
        Tasks whose true label is known.
    truth : (n,)
        Their true classes.

    Examples
    --------
    >>> crowd = Annotations.from_matrix([[0, 1], [1, 0]] * 10)
    >>> stacked_votes(crowd, np.arange(4), np.array([1, 0, 1, 0])).argmax(1)[:4].tolist()
    [1, 0, 1, 0]
    """
    from sklearn.linear_model import LogisticRegression

    probas = np.zeros((crowd.n_tasks, crowd.n_classes))
    seen = np.unique(truth)
    if len(seen) == 1:
        probas[:, seen] = 1.0
        return probas
    features = _features(crowd)
    model = LogisticRegression(max_iter=1000).fit(features[rows], truth)
    probas[:, model.classes_] = model.predict_proba(features)
    return probas


def _features(crowd: Annotations) -> sparse.csr_matrix:
    """(N, C + R C) shares of the votes, and indicators of who said what."""
    N, R, C = crowd.n_tasks, crowd.n_annotators, crowd.n_classes
    votes = crowd.votes()
    shares = sparse.csr_matrix(votes / np.maximum(votes.sum(1, keepdims=True), 1))
    columns = crowd.annotators.astype(np.int64) * C + crowd.labels
    said = sparse.csr_matrix((np.ones(len(columns)), (crowd.tasks, columns)), shape=(N, R * C))
    return sparse.hstack([shares, said]).tocsr()
