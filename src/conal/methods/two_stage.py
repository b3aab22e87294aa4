"""Two-stage methods: aggregate the crowd's labels first, then train the classifier on the result."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from conal.aggregation import DawidSkene, MajorityVote
from conal.aggregation.base import Aggregator
from conal.annotations import Annotations
from conal.methods.base import Batch, CrowdMethod, Problem, register

__all__ = ["DawidSkeneMethod", "MajorityVoteMethod", "TwoStageMethod"]


class TwoStageMethod(CrowdMethod):
    r"""Cross-entropy to aggregated labels, :math:`\mathcal L = -\frac1N \sum_i \sum_c q_{ic} \log f_c(x_i)`.

    Parameters
    ----------
    soft : bool
        Train on the aggregator's probabilities q instead of its most probable labels.
    """

    targets: Tensor

    def __init__(self, problem: Problem, backbone: nn.Module, *, soft: bool = False) -> None:
        super().__init__(problem, backbone)
        self.soft = soft

    def aggregator(self) -> Aggregator:
        """What turns the crowd's labels into one per task."""
        raise NotImplementedError

    def prepare(self, annotations: Annotations) -> None:
        """Aggregate once; the targets are not part of the saved model."""
        fitted = self.aggregator().fit(annotations)
        hard = one_hot(torch.as_tensor(fitted.codes_), annotations.n_classes)
        targets = torch.as_tensor(fitted.probas_) if self.soft else hard
        self.register_buffer("targets", targets.to(torch.float32), persistent=False)

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy between the aggregated labels and the classifier's probabilities."""
        return cross_entropy(self.class_logits(batch.x), self.targets[batch.instances])


@register("dl-mv")
class MajorityVoteMethod(TwoStageMethod):
    """A classifier trained on majority votes (DL-MV), the baseline that everybody starts from.

    Ties go to the class that comes first; see :class:`conal.aggregation.MajorityVote`.

    Parameters
    ----------
    soft : bool
        Train on the shares of the votes.
    """

    def aggregator(self) -> Aggregator:
        """One vote per annotator."""
        return MajorityVote()


@register("dl-ds")
class DawidSkeneMethod(TwoStageMethod):
    """A classifier trained on the labels that Dawid and Skene's model infers from the annotations alone (DL-DS).

    See :class:`conal.aggregation.DawidSkene`.

    Parameters
    ----------
    soft : bool
        Train on the posterior probabilities.
    """

    def aggregator(self) -> Aggregator:
        """Maximum likelihood, from the vote shares."""
        return DawidSkene(n_iter=1000)
