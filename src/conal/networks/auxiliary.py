r"""The auxiliary network: the probability that an annotation follows the common confusion."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from conal.networks.annotator_rows import Present, row_table

__all__ = ["AuxiliaryNetwork"]

EPS = 1e-6
"""Minimum norm of an embedding; smaller norms give unbounded gradients."""


class AuxiliaryNetwork(nn.Module):
    r"""Gate between common and individual confusion, from instance difficulty and annotator expertise.

    Instances and annotators are mapped to unit vectors, whose agreement decides:

    .. math::
        v_i = W_v x_i + b_v, \quad u_r = W_u e_r + b_u, \quad
        \omega_i^r = \sigma(k \, \bar u_r^\top \bar v_i) \qquad \text{Eq. (3)}

    with :math:`\bar u = u / \|u\|`. The paper has :math:`k = 1`, which confines omega to [0.27, 0.73]; another
    ``scale``, or ``scale="learn"``, lets the gate open and close further.

    Parameters
    ----------
    n_features : int
        Width of the flattened instance features.
    n_annotators : int
        One embedding each: a one-hot code times ``W_u`` is row r of a table, and the table is all that is kept.
    embedding_dim : int
        Dimension D of both embeddings.
    annotator_features : (R, F) tensor, optional
        Raw features of the annotators; ``u_r`` is then linear in them and no table is learned.
    scale : float or "learn"
        The factor k.
    """

    annotator_features: Tensor | None

    def __init__(
        self,
        n_features: int,
        n_annotators: int,
        *,
        embedding_dim: int = 20,
        annotator_features: Tensor | None = None,
        scale: float | str = 1.0,
    ) -> None:
        super().__init__()
        self.instance = nn.Linear(n_features, int(embedding_dim))
        self.register_buffer("annotator_features", annotator_features)
        if annotator_features is None:
            bound = n_annotators**-0.5  # as nn.Linear on one-hot codes would start
            self.annotator_table = row_table(torch.empty(n_annotators, int(embedding_dim)).uniform_(-bound, bound))
            self.annotator_bias = nn.Parameter(torch.empty(int(embedding_dim)).uniform_(-bound, bound))
        else:
            self.annotator = nn.Linear(annotator_features.shape[1], int(embedding_dim))
        self.learn_scale = scale == "learn"
        start = torch.tensor(1.0 if self.learn_scale else float(scale))
        if self.learn_scale:
            self.scale = nn.Parameter(start)
        else:
            self.register_buffer("scale", start)

    def annotator_embedding(self, present: Present) -> Tensor:
        """(A, D) unit vectors of the annotators that are present."""
        if self.annotator_features is None:
            return normalize(present.take(self.annotator_table) + self.annotator_bias, dim=-1, eps=EPS)
        return normalize(self.annotator(present.take(self.annotator_features)), dim=-1, eps=EPS)

    def instance_embedding(self, x: Tensor) -> Tensor:
        """(N, D) unit vectors of the given instances."""
        return normalize(self.instance(x.flatten(1)), dim=-1, eps=EPS)

    def forward(self, x: Tensor, rows: Tensor, present: Present) -> Tensor:
        """(P,) logits of omega for pairs of an instance (row of ``x``) and an annotator."""
        instances = self.instance_embedding(x).index_select(0, rows)
        annotators = self.annotator_embedding(present).index_select(0, present.place)
        return self.scale * (instances * annotators).sum(-1)
