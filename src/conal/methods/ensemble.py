"""Several fits of one method, averaged."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from conal.methods.base import Batch, BatchPrediction, CrowdMethod
from conal.networks.deployed import MeanProbabilities


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
        self.separates_noise, self.common_meaning = first.separates_noise, first.common_meaning

    @property
    def each(self) -> list[CrowdMethod]:
        """The members."""
        return [member for member in self.members if isinstance(member, CrowdMethod)]

    @torch.no_grad()
    def predict_batch(self, batch: Batch, class_logits: Tensor | None = None) -> BatchPrediction[Tensor]:
        """Means of the members' predictions; ``class_logits`` are (N, M, C), those of every member."""
        given = [None] * len(self.members) if class_logits is None else class_logits.unbind(1)
        each = [member.predict_batch(batch, logits) for member, logits in zip(self.each, given, strict=True)]
        omega = [found.omega for found in each if found.omega is not None]
        return BatchPrediction(
            mean([found.class_proba for found in each]),
            mean([found.posterior for found in each]),
            mean(omega) if self.separates_noise else None,
        )

    @torch.no_grad()
    def predict_proba(self, x: Tensor) -> Tensor:
        """(N, C) mean of the members' class probabilities."""
        return mean([member.predict_proba(x) for member in self.each])

    def predictor(self) -> nn.Module:
        """The mean of the members' probabilities."""
        return MeanProbabilities(member.predictor() for member in self.each)

    @torch.no_grad()
    def score_annotations(self, batch: Batch) -> Tensor:
        """(P,) log of the members' mean probability of each observed label."""
        scores = torch.stack([member.score_annotations(batch) for member in self.each])
        return scores.logsumexp(0) - math.log(len(scores))

    @torch.no_grad()
    def infer(self, batch: Batch) -> Tensor:
        """(N, C) mean of the members' posteriors."""
        return mean([member.infer(batch) for member in self.each])

    @torch.no_grad()
    def common_noise_rate(self, batch: Batch) -> Tensor:
        """(P,) mean of the members' omega."""
        return mean([member.common_noise_rate(batch) for member in self.each])

    def confusion_matrices(self) -> tuple[Tensor, Tensor]:
        """Means of the members' matrices."""
        common, own = zip(*(member.confusion_matrices() for member in self.each), strict=True)
        return mean(common), mean(own)

    def common_of_annotators(self) -> Tensor:
        """Mean of the members' matrices."""
        return mean([member.common_of_annotators() for member in self.each])

    @property
    def tempered(self) -> bool:
        """Whether that was so for a member."""
        return any(member.tempered for member in self.each)

    def training_posterior(self) -> Tensor | None:
        """(N, C) mean of the members' posteriors of the training tasks, where they keep them."""
        found = [posterior for member in self.each if (posterior := member.training_posterior()) is not None]
        return mean(found) if found else None

    def training_class_proba(self) -> Tensor | None:
        """(N, C) mean of the members' held-out class probabilities, where they have them."""
        found = [probas for member in self.each if (probas := member.training_class_proba()) is not None]
        return mean(found) if found else None

    def unseen_posterior(self) -> tuple[Tensor, Tensor] | None:
        """Means of the members' posteriors of tasks whose true label was supplied, where they have them."""
        found = [each for member in self.each if (each := member.unseen_posterior()) is not None]
        return (found[0][0], mean([posterior for _, posterior in found])) if found else None


def mean(tensors: Sequence[Tensor]) -> Tensor:
    """Mean of tensors of one shape."""
    return torch.stack(list(tensors)).mean(0)
