"""Doctor Net: a head per annotator on a shared trunk, and learned weights to average them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from conal.methods.base import Batch, CrowdMethod, Problem, register
from conal.networks.backbones import AnnotatorHeads, WeightedHeads, mean_of_heads, split_head

MAX_CELLS = 2**24
"""Probabilities of all heads that are made at a time."""


@register("doctor-net")
class DoctorNetMethod(CrowdMethod):
    r"""A head per annotator on a shared trunk, averaged by learned weights (Doctor Net; Guan et al. 2018).

    Every annotator has a softmax head on a shared trunk (the backbone without its last layer), trained on the
    annotator's own labels. A weighted mean of the heads is the classifier. Its weights :math:`w = \mathrm{softmax}(a)`
    learn to predict an annotator's label from the *other* heads, which are frozen in this term:

    .. math::
        \mathcal L = - \frac{1}{|\mathcal O|} \sum_{(i, r) \in \mathcal O} \Bigl[ \log p_r(y_i^r \mid x_i)
            + \log \frac{\sum_{j \neq r} w_j \bar p_j(y_i^r \mid x_i)}{1 - w_r} \Bigr], \qquad
        f(x) = \sum_j w_j p_j(x)

    where the bar stops the gradient. The two stages of the original run side by side, so that every epoch gives a
    complete model that can be selected. Annotators without labels have no weight. Averaging needs all heads: unlike
    with the other methods, cost grows with instances times annotators.

    References
    ----------
    Guan, Gulshan, Dai and Hinton (2018). Who said what: modeling individual labelers improves classification. AAAI.

    Examples
    --------
    >>> import conal
    >>> conal.make("doctor-net").method
    'doctor-net'
    """

    def __init__(self, problem: Problem, backbone: nn.Module) -> None:
        trunk, width = split_head(backbone, problem.shape, problem.n_classes)
        super().__init__(problem, trunk)
        self.heads = AnnotatorHeads(width, problem.n_classes, problem.n_annotators)
        self.raw_weights = nn.Parameter(torch.zeros(problem.n_annotators))

    def log_weights(self) -> Tensor:
        """(R,) log w; minus infinity for annotators without labels."""
        silent = self.labels_per_annotator == 0
        return self.raw_weights if silent.all() else self.raw_weights.masked_fill(silent, -torch.inf).log_softmax(0)

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of every head to its own labels, and of the mean of the others to the same labels."""
        features = self.backbone(batch.x)
        own = self.heads.of_pairs(features[batch.rows], batch.annotators)
        own_loss = cross_entropy(own, batch.labels, reduction="sum") * batch.label_weight
        return own_loss + self._averaging_loss(features.detach(), batch)

    def class_logits(self, x: Tensor) -> Tensor:
        """(N, C) log of the weighted mean of the heads' probabilities."""
        features = self.backbone(x)
        size = max(1, MAX_CELLS // (self.problem.n_annotators * self.problem.n_classes))
        return torch.cat([mean_of_heads(self.heads(piece), self.log_weights()) for piece in features.split(size)])

    def class_network(self) -> nn.Module:
        """The trunk with the heads of annotators who gave labels; the others have no weight."""
        counting = torch.nonzero(self.log_weights() > -torch.inf).squeeze(1)
        return WeightedHeads(self.backbone, self.heads.chosen(counting), self.log_weights()[counting].detach())

    def _averaging_loss(self, features: Tensor, batch: Batch) -> Tensor:
        if int((self.labels_per_annotator > 0).sum()) < 2:  # there are no others to average
            return features.new_zeros(())
        log_probas = self._log_probas_of_labels(features, batch)
        same = torch.arange(self.problem.n_annotators, device=features.device) == batch.annotators[:, None]
        log_weights = self.log_weights().masked_fill(same, -torch.inf)  # (P, R)
        others = torch.logsumexp(log_weights + log_probas, dim=1) - torch.logsumexp(log_weights, dim=1)
        return -others.sum() * batch.label_weight

    @torch.no_grad()
    def _log_probas_of_labels(self, features: Tensor, batch: Batch) -> Tensor:
        """(P, R) log-probability of every observed label by all heads, in pieces of bounded size."""
        cells = self.problem.n_annotators * self.problem.n_classes
        if len(features) * cells <= MAX_CELLS:
            log_probas: Tensor = self.heads(features).log_softmax(-1)
            return log_probas[batch.rows, :, batch.labels]
        pieces = zip(*(part.split(max(1, MAX_CELLS // cells)) for part in (batch.rows, batch.labels)), strict=True)
        found = [
            self.heads(features[rows]).log_softmax(-1)[torch.arange(len(rows)), :, labels] for rows, labels in pieces
        ]
        return torch.cat(found)
