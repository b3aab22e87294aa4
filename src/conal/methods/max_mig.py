"""Max-MIG: a classifier and a label aggregator with maximal mutual information."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from conal.aggregation.counts import Votes, normalised, vote_shares
from conal.data.annotations import Annotations
from conal.methods.base import Batch, CrowdMethod, Problem, register
from conal.parameters import Doc, parameters

SMOOTHING = 1.0
"""Pseudo-labels per row of the confusion that the aggregator starts from, spread evenly; and per class of its prior."""


@parameters
class MaxMIGParameters:
    """Parameters of :class:`MaxMIGMethod`."""

    learn_prior: Annotated[bool, Doc("Learn the class prior p; otherwise it stays at the smoothed vote shares.")] = True


@register("max-mig")
class MaxMIGMethod(CrowdMethod, MaxMIGParameters):
    r"""Classifier and label aggregator with maximal mutual information (Max-MIG; Cao et al. 2019).

    A classifier h sees the features and an aggregator g sees the labels. Both are trained to share as much information
    as possible, by the f-mutual information gain of their outputs in its KL form. Given the truth, features and labels
    are independent, so that all they can share is information about the truth.

    .. math::
        g(y_i) = \mathrm{softmax} \Bigl( \sum_r W^r_{y_i^r} + \log p \Bigr), \qquad
        K_{ij} = \sum_c \frac{h_c(x_i) \, g_c(y_j)}{p_c}, \qquad
        \mathcal L = - \frac1B \sum_i (1 + \log K_{ii}) + \frac{1}{B (B - 1)} \sum_{i \neq j} K_{ij}

    over the pairs of a batch. :math:`W^r` starts at the log of annotator r's smoothed confusion with the vote shares.

    References
    ----------
    Cao, Xu, Kong and Wang (2019). Max-MIG: an information theoretic approach for joint learning from crowds. ICLR.

    Examples
    --------
    >>> import conal
    >>> conal.make("max-mig", learn_prior=False).learn_prior
    False
    """

    raw_prior: Tensor

    divisible = False

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        R, C = problem.n_annotators, problem.n_classes
        self.raw_votes = nn.Parameter(torch.zeros(R, C, C))  # [r, observed, true]
        if self.learn_prior:
            self.raw_prior = nn.Parameter(torch.zeros(C))
        else:
            self.register_buffer("raw_prior", torch.zeros(C))

    @torch.no_grad()
    def prepare(self, annotations: Annotations) -> None:
        """Start the aggregator from the vote shares, and from every annotator's confusion with them."""
        shares = vote_shares(annotations)
        counts = Votes(annotations).counts(shares)
        log_confusion = np.log(normalised(counts + SMOOTHING / annotations.n_classes))
        self.raw_votes.copy_(torch.from_numpy(log_confusion.transpose(0, 2, 1).copy()))
        smoothed = normalised(shares[annotations.labels_per_task() > 0].sum(0) + SMOOTHING)
        self.raw_prior.copy_(torch.from_numpy(np.log(smoothed)))

    def loss(self, batch: Batch) -> Tensor:
        """The negative mutual information gain on the batch's pairs."""
        log_h = self.class_logits(batch.x).log_softmax(-1)
        log_ratio = self._log_ratio(batch)
        matched = torch.logsumexp(log_h + log_ratio, dim=-1)
        h, ratio = log_h.exp(), log_ratio.exp()
        # The sum of K over all pairs is a product of sums: no matrix of pairs is needed, and nothing in half precision.
        mismatched = (h.sum(0) * ratio.sum(0)).sum() - (h * ratio).sum()
        n_pairs = max(len(h) * (len(h) - 1), 1)
        return mismatched / n_pairs - (1 + matched).mean()

    def truth_loss(self, batch: Batch) -> Tensor:
        """As for every method, but counting as a task: this loss is a mean over tasks."""
        return super().truth_loss(batch) * (batch.instance_weight / batch.label_weight)

    def posterior_given(self, class_logits: Tensor, batch: Batch) -> Tensor:
        """(N, C) P(z | x, labels) proportional to h g / p, the two views that share only the truth."""
        evidence = torch.where(
            self.is_known(batch.annotators)[:, None],
            self.raw_votes[batch.annotators.clamp(min=0), batch.labels],
            self.log_prob_given_class(batch),  # an unknown annotator, by the common confusion
        )
        return class_logits.log_softmax(-1).index_add(0, batch.rows, evidence).softmax(-1)

    def _log_ratio(self, batch: Batch) -> Tensor:
        """(N, C) log g_c / p_c, without a division by a small p."""
        votes = self.raw_votes[batch.annotators, batch.labels]
        evidence = votes.new_zeros(len(batch.x), votes.shape[-1]).index_add(0, batch.rows, votes)
        return evidence - torch.logsumexp(evidence + self.raw_prior.log_softmax(0), dim=-1, keepdim=True)
