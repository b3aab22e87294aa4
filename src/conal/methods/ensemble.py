"""Several fits of one method, averaged."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from conal.methods.base import Batch, CrowdMethod

__all__ = ["Ensemble"]


class Ensemble(CrowdMethod):
    r"""The mean of several fits of one method from different seeds.

    .. math:: f(x) = \frac1M \sum_m f^{(m)}(x), \qquad p(y \mid x, r) = \frac1M \sum_m p^{(m)}(y \mid x, r)

    and likewise for posteriors, confusion matrices and omega. Averaging takes away what is due to chance in a single
    fit. It is trained member by member: see ``ensemble`` of :class:`conal.estimator.CrowdClassifier`.

    Parameters
    ----------
    members : sequence of CrowdMethod
    """

    def __init__(self, members: Sequence[CrowdMethod]) -> None:
        first = members[0]
        super().__init__(first.problem, nn.Identity())
        self.members = nn.ModuleList(members)
        self.takes = first.takes
        self.models_annotators = first.models_annotators
        self.separates_noise = first.separates_noise

    @property
    def each(self) -> list[CrowdMethod]:
        """The members."""
        return [member for member in self.members if isinstance(member, CrowdMethod)]

    @torch.no_grad()
    def predict_proba(self, x: Tensor) -> Tensor:
        """(N, C) mean of the members' class probabilities."""
        return torch.stack([member.predict_proba(x) for member in self.each]).mean(0)

    @torch.no_grad()
    def score_annotations(self, batch: Batch) -> Tensor:
        """(P,) log of the members' mean probability of each observed label."""
        scores = torch.stack([member.score_annotations(batch) for member in self.each])
        return scores.logsumexp(0) - math.log(len(scores))

    @torch.no_grad()
    def infer(self, batch: Batch) -> Tensor:
        """(N, C) mean of the members' posteriors."""
        return torch.stack([member.infer(batch) for member in self.each]).mean(0)

    @torch.no_grad()
    def common_noise_rate(self, batch: Batch) -> Tensor:
        """(P,) mean of the members' omega."""
        return torch.stack([member.common_noise_rate(batch) for member in self.each]).mean(0)

    def confusion(self) -> tuple[Tensor, Tensor]:
        """Means of the members' matrices."""
        common, own = zip(*(member.confusion() for member in self.each), strict=True)
        return torch.stack(common).mean(0), torch.stack(own).mean(0)

    def training_posterior(self) -> Tensor | None:
        """(N, C) mean of the members' posteriors of the training tasks, where they keep them."""
        found = [posterior for member in self.each if (posterior := member.training_posterior()) is not None]
        return torch.stack(found).mean(0) if found else None
