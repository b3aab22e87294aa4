"""Gold majority vote: votes weighted by how often an annotator is right where the truth is known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray
from conal.aggregation.base import register
from conal.aggregation.voting import VoteAggregator, agreement
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import DataWarning, warn

__all__ = ["GoldMajorityVote"]


@register("gold-majority-vote")
class GoldMajorityVote(VoteAggregator):
    r"""A vote weighted by accuracy on tasks of known truth, which ``true_labels`` supplies.

    With :math:`G_r` the tasks of known truth that annotator r labelled:

    .. math::
        w_r = \frac{1}{|G_r|} \sum_{i \in G_r} [y_i^r = z_i], \qquad \hat z_i = \arg\max_c \sum_r w_r [y_i^r = c]

    An annotator who labelled none of them counts as the average one, the share of right labels of all annotators.
    Without true labels all weights are equal: a majority vote, with a warning.

    Use it where most annotators answered several control questions, and mistakes have no pattern. Where control
    questions are few per annotator, ``dawid-skene`` with the same ``true_labels`` also learns from all other tasks.

    Attributes
    ----------
    probas_ : (n_tasks, n_classes)
        Shares of the weighted votes; they are no posterior probabilities. Tasks of known truth have it.
    skills_ : (n_annotators,)
        The weights w.
    confusion_ : (n_annotators, n_classes, n_classes)
        ``confusion_[r, c, l]`` = share of l among the labels that annotator r gave where c won.

    References
    ----------
    Ustalov, Pavlichenko and Tseitlin (2024). Learning from crowds with Crowd-Kit. Journal of Open Source Software 9.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([[0, 0, 1], [1, 0, 1], [1, 0, 0], [0, 1, 1]])
    >>> fitted = GoldMajorityVote().fit(labels, true_labels={0: 0, 1: 1})
    >>> fitted.skills_.tolist(), fitted.labels_.tolist()
    ([1.0, 0.5, 0.5], [0, 1, 0, 0])
    """

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        certain = known != MISSING
        if not certain.any() and crowd.n_classes > 1:
            warn(
                "gold-majority-vote: no true labels, so all annotators count the same; pass true_labels "
                "(--true-labels), or use 'wawa'",
                DataWarning,
            )
        self.skills_ = _accuracy(crowd, known, certain)
        return self._elect(crowd, self.skills_, known)[0]


def _accuracy(crowd: Annotations, known: npt.NDArray[np.int64], certain: npt.NDArray[np.bool_]) -> FloatArray:
    """(R,) share of right labels on tasks of known truth; of those of all annotators where there are none."""
    tested = certain[crowd.tasks]
    right = crowd.labels[tested] == known[crowd.tasks[tested]]
    overall = float(right.mean()) if len(right) else 1.0
    given = np.bincount(crowd.annotators[tested], minlength=crowd.n_annotators)
    return np.where(given > 0, agreement(crowd, known, certain), overall)
