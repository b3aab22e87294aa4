r"""The noise adaptation layers: one that all annotators share, and one for each of them."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from conal.errors import InputError

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
    """

    def __init__(
        self,
        n_classes: int,
        n_annotators: int,
        *,
        layer: Layer = "softmax",
        mixing: Mixing = "probability",
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
        # Annotators are mostly right: every layer starts at twice the identity, as in published code.
        start = 2.0 * torch.eye(n_classes)
        self.raw_pi_g = nn.Parameter(start.clone())
        self.raw_pi_r = nn.Parameter(start.repeat(n_annotators, 1, 1))

    @property
    def pi_g(self) -> Tensor:
        """(C, C) ``pi_g[c, l]`` = P(observe l | true c, common confusion)."""
        return self.raw_pi_g.softmax(-1)

    @property
    def pi_r(self) -> Tensor:
        """(R, C, C) ``pi_r[r, c, l]`` = P(observe l | true c, confusion of annotator r)."""
        return self.raw_pi_r.softmax(-1)

    def log_prob(
        self, log_class_proba: Tensor, omega_logits: Tensor, rows: Tensor, annotators: Tensor, labels: Tensor
    ) -> Tensor:
        """(P,) log p(y) of P observed labels.

        Parameters
        ----------
        log_class_proba : (N, C)
            log f of the batch's instances.
        omega_logits : (P,)
            Logits of omega for each pair.
        rows, annotators, labels : (P,) integers
            The observed triples; ``rows`` points into the batch.
        """
        if self.layer == "row-stochastic":
            return self._row_stochastic(log_class_proba, omega_logits, rows, annotators, labels)
        class_proba = log_class_proba.exp()
        common = (class_proba @ self.raw_pi_g)[rows]
        individual = torch.bmm(class_proba[rows].unsqueeze(1), self.raw_pi_r[annotators]).squeeze(1)
        if self.mixing == "logit":
            omega = omega_logits.sigmoid().unsqueeze(-1)
            return pick((omega * common + (1 - omega) * individual).log_softmax(-1), labels)
        return mix(omega_logits, pick(common.log_softmax(-1), labels), pick(individual.log_softmax(-1), labels))

    def log_prob_given_class(self, omega_logits: Tensor, annotators: Tensor, labels: Tensor) -> Tensor:
        """(P, C) log P(y | z = c) for every class c: the confusion that the posterior of the true label needs."""
        if self.mixing == "logit":
            omega = omega_logits.sigmoid()[:, None, None]
            mixed = omega * self.raw_pi_g + (1 - omega) * self.raw_pi_r[annotators]
            return label_columns(mixed.log_softmax(-1), labels)
        common, individual = self._label_columns(annotators, labels)
        return mix(omega_logits.unsqueeze(-1), common, individual)

    def separation(self, annotators: Tensor) -> Tensor:
        """(A,) Frobenius distance between the common and the individual weights of some annotators.

        At the start the two are equal and the norm has no gradient; PyTorch takes 0 there, which is what we want.
        """
        distance: Tensor = torch.linalg.vector_norm(self.raw_pi_g - self.raw_pi_r[annotators], dim=(-2, -1))
        return distance

    def _row_stochastic(
        self, log_class_proba: Tensor, omega_logits: Tensor, rows: Tensor, annotators: Tensor, labels: Tensor
    ) -> Tensor:
        common, individual = self._label_columns(annotators, labels)
        log_mixed = mix(omega_logits.unsqueeze(-1), common, individual)
        return torch.logsumexp(log_class_proba[rows] + log_mixed, dim=-1)  # Eq. (1)

    def _label_columns(self, annotators: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(P, C) log of the columns pi_g[:, y] and pi_r[:, y]."""
        common = self.raw_pi_g.log_softmax(-1).T[labels]
        individual = label_columns(self.raw_pi_r[annotators].log_softmax(-1), labels)
        return common, individual


def mix(omega_logits: Tensor, log_common: Tensor, log_individual: Tensor) -> Tensor:
    """log(omega p_common + (1 - omega) p_individual), from logs and without leaving them."""
    return torch.logaddexp(logsigmoid(omega_logits) + log_common, logsigmoid(-omega_logits) + log_individual)


def pick(table: Tensor, labels: Tensor) -> Tensor:
    """(P,) entry ``labels[p]`` of row p."""
    return table.gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def label_columns(matrices: Tensor, labels: Tensor) -> Tensor:
    """(P, C) column ``labels[p]`` of matrix p."""
    index = labels[:, None, None].expand(-1, matrices.shape[1], 1)
    return matrices.gather(-1, index).squeeze(-1)
