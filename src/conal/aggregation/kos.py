"""KOS: annotators and tasks exchange messages about who is reliable and what is true."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from conal.aggregation.arrays import FloatArray, normalised
from conal.aggregation.base import register
from conal.aggregation.votes import clamped
from conal.aggregation.voting import VoteAggregator
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.parameters import parameter, whole

__all__ = ["KOS"]

Codes = npt.NDArray[np.int64]

NOTHING = 1e-14
"""A message of this size is what rounding leaves of zero."""


@register("kos")
class KOS(VoteAggregator):
    r"""Message passing between tasks and annotators, after Karger, Oh and Shah.

    For two classes, :math:`A_{ir} = \pm 1` is the label. A task tells annotator r what the other annotators say about
    it, weighted by their reliability. An annotator tells task i how well the labels agree with the other tasks:

    .. math::
        x_{i \to r} = \sum_{r' \ne r} A_{ir'}\, y_{r' \to i}, \qquad
        y_{r \to i} = \sum_{i' \ne i} A_{i'r}\, x_{i' \to r}, \qquad
        \hat z_i = \operatorname{sign} \sum_r A_{ir}\, y_{r \to i}

    Leaving out the receiver's own message is what separates it from power iteration on A. For more classes, each is
    told apart from all others, and the class with the largest share of reliability wins; for two classes that is the
    same.

    Messages are scaled to a largest one of 1, separately where parts of the crowd share no task. All reliabilities
    start at 1, the mean of the original's random start, so that the result does not depend on the order of the
    data. A task of known truth sends the largest message.

    With a handful of labels, messages may change sign in every round; the result is then arbitrary. Use it for what it
    was made for: tasks assigned at random, annotators with one accuracy each, two classes, few labels. On public
    crowds it is only as accurate as a majority vote on average: a few annotators who agree can draw all reliability to
    themselves.

    Attributes
    ----------
    probas_ : (n_tasks, n_classes)
        For each class, the share of the reliability of a task's annotators that speaks for it, scaled to sum 1. They
        are no posterior probabilities.
    skills_ : (n_annotators,)
        Share of the annotator's labels that agree with the winner.
    confusion_ : (n_annotators, n_classes, n_classes)
        ``confusion_[r, c, l]`` = share of l among the labels that annotator r gave where c won.

    References
    ----------
    Karger, Oh and Shah (2014). Budget-optimal task allocation for reliable crowdsourcing systems. Operations
    Research 62, 1-24.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([[0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 1, 1]])
    >>> KOS().fit(labels).labels_.tolist()
    [0, 1, 0, 1, 1]
    """

    n_iter: int = parameter(default=100, must_be=whole(1), help="Number of rounds of messages.")

    def _aggregate(self, crowd: Annotations, known: Codes) -> FloatArray:
        N, C = crowd.n_tasks, crowd.n_classes
        support = np.empty((N, C))
        for c in range(C):
            truth = np.where(known == MISSING, 0.0, np.where(known == c, 1.0, -1.0))
            A = np.where(crowd.labels == c, 1.0, -1.0)
            y = self._reliabilities(crowd, A, truth)
            said, most = (np.bincount(crowd.tasks, weights=w, minlength=N) for w in (A * y, np.abs(y)))
            support[:, c] = (1 + said / np.where(most > 0, most, 1.0)) / 2
        return clamped(normalised(support), known)

    def _reliabilities(self, crowd: Annotations, A: FloatArray, truth: FloatArray) -> FloatArray:
        """(n_annotations,) messages y from annotators to tasks; ``truth`` (N,) is 1 or -1 where known, else 0."""
        y = np.ones(len(A))
        certain, island = truth[crowd.tasks], _islands(crowd)
        for _ in range(self.n_iter):
            x = _scaled(_from_others(crowd.tasks, A * y, crowd.n_tasks), island, 0.0)
            x = np.where(certain != 0, certain, x)
            y = _scaled(_from_others(crowd.annotators, A * x, crowd.n_annotators), island, 1.0)
        return y


def _islands(crowd: Annotations) -> npt.NDArray[np.int32]:
    """(n_annotations,) which part of the crowd a label is in; no annotator of one part labelled a task of another."""
    N, R = crowd.shape
    edges = scipy.sparse.csr_array(
        (np.ones(len(crowd.tasks)), (crowd.tasks, crowd.annotators + N)), shape=(N + R, N + R)
    )
    return np.asarray(scipy.sparse.csgraph.connected_components(edges, directed=False)[1])[crowd.tasks]


def _from_others(groups: npt.NDArray[np.int32], values: FloatArray, size: int) -> FloatArray:
    """For every label, the sum of the values of its group without its own."""
    return np.bincount(groups, weights=values, minlength=size)[groups] - values


def _scaled(messages: FloatArray, island: npt.NDArray[np.int32], empty: float) -> FloatArray:
    """Messages with a largest one of 1 on every island; ``empty`` on one whose messages are all zero.

    Messages grow at a different rate on every island. With one scale for all, those of all but one would vanish.
    """
    largest = np.zeros(island.max(initial=0) + 1)
    np.maximum.at(largest, island, np.abs(messages))
    scale = largest[island]
    scaled = np.where(scale > 0, messages / np.where(scale > 0, scale, 1.0), empty)
    return np.where(np.abs(scaled) < NOTHING, 0.0, scaled)
