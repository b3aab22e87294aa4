r"""The noise adaptation layers: a common layer, and one per annotator."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from conal.errors import InputError
from conal.networks.annotator_rows import row_table

__all__ = ["Layer", "Mixing", "NoiseAdaptation", "label_columns", "pick"]

Layer = Literal["softmax", "row-stochastic"]
Mixing = Literal["probability", "logit"]


class NoiseAdaptation(nn.Module):
    r"""From the classifier's class probabilities to the label that an annotator gives.

    With :math:`f` the classifier's softmax output, the label of annotator r on instance i is drawn from

    .. math::
        p(y_i^r) = \omega_i^r \, p_{W^g}(y_i^r \mid f_i) + (1 - \omega_i^r) \, p_{W^r}(y_i^r \mid f_i)

    where a layer with weights W computes

    * ``layer="softmax"``: :math:`p_W = \mathrm{softmax}(f W)`, the text of the paper's method section;
    * ``layer="row-stochastic"``: :math:`p_W = f \pi` with :math:`\pi = \mathrm{softmax}` of each row of W: a true
      confusion matrix, Eq. (1).

    ``mixing="logit"`` mixes the two vectors :math:`f W` before one softmax, as published code does, instead of the
    two distributions. Either way the confusion matrices are read as the paper reads them, by a softmax on each row.

    Only observed (instance, annotator, label) triples are touched: cost and memory follow the number of annotations.

    Parameters
    ----------
    n_classes, n_annotators : int
        C and R.
    layer : {"softmax", "row-stochastic"}
    mixing : {"probability", "logit"}
        "logit" needs ``layer="softmax"``.
    start : float
        Every layer starts at this multiple of the identity.
    """

    def __init__(
        self,
        n_classes: int,
        n_annotators: int,
        *,
        layer: Layer = "softmax",
        mixing: Mixing = "probability",
        start: float = 2.0,
    ) -> None:
        super().__init__()
        if layer not in ("softmax", "row-stochastic"):
            raise InputError(f"layer must be 'softmax' or 'row-stochastic', not {layer!r}")
        if mixing not in ("probability", "logit"):
            raise InputError(f"mixing must be 'probability' or 'logit', not {mixing!r}")
        if mixing == "logit" and layer != "softmax":
            raise InputError("mixing='logit' mixes the inputs of a softmax; use it with layer='softmax'")
        self.layer = layer
        self.mixing = mixing
        identity = start * torch.eye(n_classes)
        self.raw_pi_g = nn.Parameter(identity.clone())
        self.raw_pi_r = row_table(identity.repeat(n_annotators, 1, 1))

    @property
    def pi_g(self) -> Tensor:
        """(C, C) ``pi_g[c, l]`` = P(observe l | true c, common confusion)."""
        return self.raw_pi_g.softmax(-1)

    @property
    def pi_r(self) -> Tensor:
        """(R, C, C) ``pi_r[r, c, l]`` = P(observe l | true c, confusion of annotator r)."""
        return self.raw_pi_r.softmax(-1)

    def log_prob(
        self, log_class_proba: Tensor, omega_logits: Tensor, rows: Tensor, own: Tensor, labels: Tensor
    ) -> Tensor:
        """(P,) log p(y) of P observed labels.

        Parameters
        ----------
        log_class_proba : (N, C)
            log f of the batch's instances.
        omega_logits : (P,)
            Logits of omega for each pair.
        rows, labels : (P,) integers
            Instances and labels; ``rows`` points into the batch.
        own : (C, C, P)
            Weights of the pairs' annotators: rows of ``raw_pi_r``, spread over the pairs.
        """
        if self.layer == "row-stochastic":
            log_mixed = self._given_class(omega_logits, own, labels)
            return torch.logsumexp(log_class_proba.T.index_select(1, rows) + log_mixed, dim=0)  # Eq. (1)
        class_proba = log_class_proba.T.exp()  # (C, N): a class per row, as everything below
        common = self.raw_pi_g.T @ class_proba
        individual = (class_proba.index_select(1, rows).unsqueeze(1) * own).sum(0)
        if self.mixing == "logit":
            mixed = torch.lerp(individual, common.index_select(1, rows), omega_logits.sigmoid())
            return pick(mixed.log_softmax(0), labels)
        return mix(
            omega_logits,
            pick(common.log_softmax(0), labels, rows),
            pick(individual.log_softmax(0), labels),
        )

    def log_prob_given_class(self, omega_logits: Tensor, own: Tensor, labels: Tensor) -> Tensor:
        """(P, C) log P(y | z = c) for every class c: the confusion that the posterior of the true label needs."""
        if self.mixing == "logit":
            mixed = torch.lerp(own, self.raw_pi_g.unsqueeze(-1), omega_logits.sigmoid())
            return label_columns(mixed.log_softmax(1), labels).T
        return self._given_class(omega_logits, own, labels).T

    def separation(self, weights: Tensor) -> Tensor:
        """(A,) Frobenius distance between the common weights and (A, C, C) individual ones.

        At the start the two are equal and the norm has no gradient; PyTorch takes 0 there, which is what we want.
        """
        distance: Tensor = torch.linalg.vector_norm(self.raw_pi_g - weights, dim=(-2, -1))
        return distance

    def _given_class(self, omega_logits: Tensor, own: Tensor, labels: Tensor) -> Tensor:
        """(C, P) log P(y | z = c) where probabilities are mixed."""
        common = self.raw_pi_g.log_softmax(-1).index_select(1, labels)
        return mix(omega_logits, common, label_columns(own.log_softmax(1), labels))


def mix(omega_logits: Tensor, log_common: Tensor, log_individual: Tensor) -> Tensor:
    """log(omega p_common + (1 - omega) p_individual), computed in log space."""
    return torch.logaddexp(logsigmoid(omega_logits) + log_common, logsigmoid(-omega_logits) + log_individual)


def pick(table: Tensor, labels: Tensor, columns: Tensor | None = None) -> Tensor:
    """(P,) entry ``labels[p]`` of column p of a (C, P) table, or of column ``columns[p]`` of a (C, N) table."""
    if columns is None:
        return table.gather(0, labels.unsqueeze(0)).squeeze(0)
    return table.reshape(-1).index_select(0, labels * table.shape[1] + columns)


def label_columns(matrices: Tensor, labels: Tensor) -> Tensor:
    """(C, P) column ``labels[p]`` of matrix p of (C, C, P)."""
    return matrices.gather(1, labels.expand(len(matrices), 1, -1)).squeeze(1)
