"""The upper bound: a classifier trained on true labels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from conal.methods.base import Batch, CrowdMethod, register

__all__ = ["GoldMethod"]


@register("gold")
class GoldMethod(CrowdMethod):
    r"""A classifier trained on true labels, the upper bound: ``fit(X, y_true)``.

    .. math:: \mathcal L = -\frac1N \sum_i \log f_{z_i}(x_i)

    ``fit`` takes one label per instance. It shows what the backbone could reach with labels free of errors,
    and so how much a better method could gain.
    """

    takes = "gold"
    models_annotators = True  # a single one, who is always right

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy to the true labels, which arrive as the labels of one infallible annotator."""
        logits = self.class_logits(batch.x)[batch.rows]
        return cross_entropy(logits, batch.labels, reduction="sum") * batch.label_weight

    def log_prob(self, batch: Batch) -> Tensor:
        """(P,) log f at the true labels."""
        log_class_proba = self.class_logits(batch.x).log_softmax(-1)[batch.rows]
        return log_class_proba.gather(-1, batch.labels[:, None]).squeeze(-1)

    def posterior_given(self, class_logits: Tensor, batch: Batch) -> Tensor:
        """(N, C) certainty where a true label is given, the classifier's probabilities elsewhere."""
        probas = self.log_class_proba(class_logits).exp()
        probas[batch.rows] = one_hot(batch.labels, self.problem.n_classes).to(probas.dtype)
        return probas

    def confusion(self) -> tuple[Tensor, Tensor]:
        """The identity: a true label is not confused."""
        identity = torch.eye(self.problem.n_classes)
        return identity, identity.repeat(self.problem.n_annotators, 1, 1)
