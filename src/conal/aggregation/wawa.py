"""Wawa: votes weighted by how often an annotator agrees with the majority."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray
from conal.aggregation.base import register
from conal.aggregation.voting import VoteAggregator
from conal.data.annotations import Annotations

__all__ = ["Wawa"]


@register("wawa")
class Wawa(VoteAggregator):
    r"""Worker agreement with aggregate: a majority vote, then a vote weighted by agreement with it.

    .. math::
        \hat z_i^{(0)} = \arg\max_c \sum_r [y_i^r = c], \qquad
        w_r = \frac{1}{n_r} \sum_i [y_i^r = \hat z_i^{(0)}], \qquad
        \hat z_i = \arg\max_c \sum_r w_r [y_i^r = c]

    Two passes over the labels, no randomness and nothing to tune. Use it as a better majority vote. Annotators at
    chance still count: with two classes a coin has weight one half. Where many annotators are bad, or are bad in the
    same way, a model of their mistakes (``dawid-skene``) is more accurate.

    Attributes
    ----------
    probas_ : (n_tasks, n_classes)
        Shares of the weighted votes; they are no posterior probabilities.
    skills_ : (n_annotators,)
        The weights w; 1 / C for an annotator without labels.
    confusion_ : (n_annotators, n_classes, n_classes)
        ``confusion_[r, c, l]`` = share of l among the labels that annotator r gave where c won.

    References
    ----------
    Appen. Calculating worker agreement with aggregate (Wawa). Success Center.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([[0, 0, 1, 1, -1], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0], [-1, -1, -1, 1, 0]])
    >>> fitted = Wawa().fit(labels)
    >>> fitted.skills_.tolist(), fitted.labels_.tolist()
    ([1.0, 1.0, 0.6666666666666666, 0.0, 0.3333333333333333], [0, 0, 1, 0])
    """

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        _, self.skills_ = self._elect(crowd, None, known)
        shares, _ = self._elect(crowd, self.skills_, known)
        return shares
