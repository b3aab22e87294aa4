"""The ceiling: a classifier trained on true labels, which the user hands over as such."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from conal.errors import InputError
from conal.methods.base import Batch, CrowdMethod, register

__all__ = ["GoldMethod"]


@register("gold")
class GoldMethod(CrowdMethod):
    r"""Cross-entropy to true labels, :math:`\mathcal L = -\frac1N \sum_i \log f_{z_i}(x_i)`.

    ``fit(X, y_true)`` takes one label per instance. It shows what the backbone could reach if labels were free of
    errors, and so what there is to gain.
    """

    takes = "gold"

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy to the true labels, which arrive as the labels of one infallible annotator."""
        return cross_entropy(self.class_logits(batch.x)[batch.rows], batch.labels)

    def log_prob(self, batch: Batch) -> Tensor:
        """(P,) log f at the true labels."""
        log_class_proba = self.class_logits(batch.x).log_softmax(-1)[batch.rows]
        return log_class_proba.gather(-1, batch.labels[:, None]).squeeze(-1)

    @torch.no_grad()
    def infer(self, batch: Batch) -> Tensor:
        """Refused: nothing was learned about annotators."""
        raise InputError("method 'gold' learns nothing about annotators; use predict_proba, or a crowd method's infer")
