"""Base of methods with a layer per annotator after the classifier, and no common layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from conal.methods.base import Batch, CrowdMethod, Problem
from conal.networks.annotator_rows import Present, log_softmax, row_table, spread
from conal.parameters import number, parameter

__all__ = ["AnnotatorLayersMethod"]


class AnnotatorLayersMethod(CrowdMethod):
    r"""Base of methods that explain a label by the classifier and the annotator's own layer.

    .. math::
        \mathcal L = - \frac{1}{|\mathcal O|} \sum_{(i, r) \in \mathcal O} \log p_{W^r}(y_i^r \mid f(x_i))

    Only the layers of the batch's annotators are touched. An annotator without training labels gets the mean of the
    others' confusion matrices, weighted by their labels.
    """

    models_annotators = True
    depth = 1
    """Layers per annotator."""

    start: float = parameter(
        default=1.0,
        must_be=number(),
        help="Every layer starts at this multiple of the identity, since annotators are mostly right.",
    )

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        identity = float(self.start) * torch.eye(problem.n_classes)
        self.raw_pi_r = row_table(identity.repeat(problem.n_annotators, self.depth, 1, 1))

    # ---------------------------------------------------------------- what a subclass supplies

    def label_log_prob(self, log_class_proba: Tensor, own: Tensor, labels: Tensor) -> Tensor:
        """(P,) log p(y | f) by (depth, C, C, P) layers of the pairs' annotators, from (C, P) log f."""
        raise NotImplementedError

    def label_confusion(self, weights: Tensor) -> Tensor:
        """(A, C, C) confusion matrices equivalent to (A, depth, C, C) layers."""
        raise NotImplementedError

    # ---------------------------------------------------------------- what follows from it

    def loss(self, batch: Batch) -> Tensor:
        """Negative log-likelihood per annotation."""
        present = self.present(batch)
        return self._loss(batch, present, present.take(self.raw_pi_r))

    def log_prob(self, batch: Batch) -> Tensor:
        """(P,) log p(y | x)."""
        log_class_proba = self._of_pairs(batch)
        present = self.present(batch)
        own = self.label_log_prob(log_class_proba, spread(present.take(self.raw_pi_r), present.place), batch.labels)
        common = torch.logsumexp(log_class_proba + self.confusion()[0][:, batch.labels].log(), dim=0)
        return torch.where(self.is_known(batch.annotators), own, common)

    def confusion(self) -> tuple[Tensor, Tensor]:
        """The annotators' matrices, and their mean for those without labels."""
        pi_r = self.label_confusion(self.raw_pi_r)
        pi_g = self.pooled(pi_r)
        return pi_g, self.known_or_common(pi_g, pi_r)

    def _loss(self, batch: Batch, present: Present, weights: Tensor) -> Tensor:
        log_prob = self.label_log_prob(self._of_pairs(batch), spread(weights, present.place), batch.labels)
        return -log_prob.sum() * batch.label_weight

    def _of_pairs(self, batch: Batch) -> Tensor:
        """(C, P) log f of each pair's instance."""
        return log_softmax(self.class_logits(batch.x)).T.index_select(1, batch.rows)
