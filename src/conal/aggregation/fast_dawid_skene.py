"""Fast Dawid-Skene: every task counts for its most probable class alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray
from conal.aggregation.base import register
from conal.aggregation.dawid_skene import Confusions, DawidSkene
from conal.aggregation.engines import Engine, Expectation, SparseEngine
from conal.aggregation.votes import Votes
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING

__all__ = ["FastDawidSkene"]


class HardEngine(SparseEngine[Confusions]):
    """E-steps that give every task its most probable class; the evidence is that of these classes."""

    def start(self, posterior: FloatArray) -> Expectation:
        """The expectation by a guess at the posterior."""
        return super().start(np.eye(posterior.shape[1])[posterior.argmax(1)])

    def expect(self, parameters: Confusions) -> Expectation:
        """The most probable classes under the parameters."""
        joint = self.log_joint(parameters)
        codes = np.where(self.known == MISSING, joint.argmax(1), self.known)
        evidence = joint[np.arange(len(joint)), codes].sum()
        return self._expectation(float(evidence), np.eye(joint.shape[1])[codes])


@register("fast-dawid-skene")
class FastDawidSkene(DawidSkene):
    r"""Dawid-Skene with hard assignments, which ends after a few iterations.

    Each iteration counts every task for its most probable class alone, from the majority vote on:

    .. math::
        \hat z_i = \arg\max_c \rho_c \prod_r \pi^r_{c, y_i^r}, \qquad
        \pi^r_{cl} = \frac{\sum_{i : y_i^r = l} [\hat z_i = c] + \alpha}{\sum_{i : r} [\hat z_i = c] + C \alpha},
        \qquad \rho_c = \tfrac1N \sum_i [\hat z_i = c]

    The objective is the likelihood of the labels together with the assigned classes,
    :math:`\sum_i \log \rho_{\hat z_i} \prod_r \pi^r_{\hat z_i, y_i^r}`, plus the log-prior; it never falls. It ends
    when no label changes any more.

    Labels stay nearer to the majority vote than those of ``dawid-skene``, which is rarely slow here: its steps are
    compiled and accelerated. Use it as a quick first look, not where annotators are weak, as on juries of language
    models.

    Attributes
    ----------
    probas_ : (n_tasks, n_classes)
        The posterior under the last parameters; its most probable classes are the assigned ones.
    confusion_, class_prior_, skills_
        As for :class:`DawidSkene`.

    References
    ----------
    Sinha, Rao and Balasubramanian (2018). Fast Dawid-Skene: a fast vote aggregation scheme for sentiment
    classification. KDD workshop on issues of sentiment discovery and opinion mining.

    Examples
    --------
    >>> from conal import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    >>> FastDawidSkene().fit(crowd).labels_.tolist()
    [0, 1, 0, 1]
    """

    sums_suffice = False
    updatable = False

    accelerate = False
    inferred_labels = None

    def engine(self, votes: Votes, known: npt.NDArray[np.int64]) -> Engine[Confusions]:
        """Hard assignments by sparse products."""
        return HardEngine(votes, known, partial(self._log_joint, votes))

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        super()._aggregate(crowd, known)
        votes = Votes(crowd)
        last = Confusions(self.class_prior_, self.confusion_)
        soft: Engine[Confusions] = SparseEngine(votes, known, partial(self._log_joint, votes))
        return soft.expect(last).posterior
