"""Two-stage methods: aggregate the crowd's labels first, then train the classifier on the result."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from conal.aggregation import MajorityVote
from conal.annotations import Annotations
from conal.methods.base import Batch, CrowdMethod, register

__all__ = ["MajorityVoteMethod", "TwoStageMethod"]


class TwoStageMethod(CrowdMethod):
    r"""Cross-entropy to aggregated labels, :math:`\mathcal L = -\frac1N \sum_i \sum_c q_{ic} \log f_c(x_i)`."""

    targets: Tensor

    def aggregate(self, annotations: Annotations) -> Tensor:
        """(N, C) aggregated labels q."""
        raise NotImplementedError

    def prepare(self, annotations: Annotations) -> None:
        """Aggregate once; the targets are not part of the saved model."""
        self.register_buffer("targets", self.aggregate(annotations), persistent=False)

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy between the aggregated labels and the classifier's probabilities."""
        return cross_entropy(self.class_logits(batch.x), self.targets[batch.instances])


@register("dl-mv")
class MajorityVoteMethod(TwoStageMethod):
    """A classifier trained on majority votes (DL-MV), the baseline that everybody starts from.

    Ties go to the class that comes first; see :class:`conal.aggregation.MajorityVote`.
    """

    def aggregate(self, annotations: Annotations) -> Tensor:
        """One-hot winners of the vote."""
        winners = torch.as_tensor(MajorityVote().fit(annotations).codes_)
        return torch.nn.functional.one_hot(winners, annotations.n_classes).to(torch.float32)
