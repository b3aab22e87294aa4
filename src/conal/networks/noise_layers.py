"""Noise adaptation layers, common and individual, and the auxiliary network that decides between them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import logsigmoid, normalize

from conal.errors import InputError

# Tables with one row per annotator, of which a batch uses few.

LAZY_ABOVE = 1000
"""Of longer tables only the rows in a batch are touched, by the optimiser too; of shorter ones all are, which is
faster."""


def row_table(values: Tensor) -> nn.Parameter:
    """A parameter with a row per annotator, of which a batch may use few (:class:`Present`)."""
    table = nn.Parameter(values)
    table.has_annotator_rows = True  # type: ignore[attr-defined]
    return table


def is_lazy(parameter: Tensor) -> bool:
    """Whether the gradient of a parameter is sparse."""
    return getattr(parameter, "has_annotator_rows", False) and len(parameter) > LAZY_ABOVE


class Present(NamedTuple):
    """Which rows a batch needs.

    Attributes
    ----------
    codes : (A,) int64 or None
        Different rows, in order; None stands for the whole table.
    place : (P,) int64
        Where among them the row of each pair is.
    """

    codes: Tensor | None
    place: Tensor

    @classmethod
    def of(cls, annotators: Tensor, n_annotators: int) -> Present:
        """The rows that P pairs need. Unknown annotators (-1) get the first row; callers must replace it.

        >>> Present.of(torch.tensor([7, 1500, 7]), 2000)
        Present(codes=tensor([   7, 1500]), place=tensor([0, 1, 0]))
        """
        annotators = annotators.clamp(min=0)
        if n_annotators <= LAZY_ABOVE:
            return cls(None, annotators)
        return cls(*torch.unique(annotators, return_inverse=True))

    def take(self, table: Tensor) -> Tensor:
        """(A, ...) the rows of a table."""
        return table if self.codes is None else take_rows(table, self.codes)


def take_rows(table: Tensor, index: Tensor) -> Tensor:
    """(A, ...) different rows of a long table in order, with a gradient of only these rows.

    >>> table = torch.zeros(2000, 3, requires_grad=True)
    >>> take_rows(table, torch.tensor([5, 7])).sum().backward()
    >>> table.grad.indices().tolist(), table.grad.values()[:, 0].tolist()
    ([[5, 7]], [1.0, 1.0])
    """
    if not (table.requires_grad and torch.is_grad_enabled()):
        return table.index_select(0, index)
    rows: Tensor = _SparseRows.apply(table, index)  # type: ignore[no-untyped-call]
    return rows


def spread(rows: Tensor, place: Tensor) -> Tensor:
    """(..., P) rows of a table for P pairs, along the last axis: there, arithmetic on few classes is much faster.

    >>> spread(torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 1, 0])).tolist()
    [[3, 3, 1], [4, 4, 2]]
    """
    columns = rows.flatten(1).T.contiguous().index_select(1, place)
    return columns.view(*rows.shape[1:], len(place))


def log_softmax(logits: Tensor) -> Tensor:
    """(N, C) log-softmax of every row, by way of the transpose: rows are short, columns are long.

    >>> log_softmax(torch.zeros(1, 2)).exp().tolist()
    [[0.5, 0.5]]
    """
    return logits.T.contiguous().log_softmax(0).T


class _SparseRows(Function):
    """Rows of a table; the gradient is a sparse table of them."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return table.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        (rows,) = gradients
        made = torch.sparse_coo_tensor(index.unsqueeze(0), rows, ctx.shape, is_coalesced=True, check_invariants=False)
        return made, None


# The noise adaptation layers: a common layer, and one per annotator.

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
    n_groups : int
        Number of common layers, K. With several, :meth:`weights_of_groups` says which an annotator has.
    """

    def __init__(
        self,
        n_classes: int,
        n_annotators: int,
        *,
        layer: Layer = "softmax",
        mixing: Mixing = "probability",
        start: float = 2.0,
        n_groups: int = 1,
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
        self.raw_pi_g = nn.Parameter(identity.clone() if n_groups == 1 else identity.repeat(n_groups, 1, 1))
        self.raw_pi_r = row_table(identity.repeat(n_annotators, 1, 1))

    @property
    def pi_g(self) -> Tensor:
        """(C, C) ``pi_g[c, l]`` = P(observe l | true c, common confusion), or (K, C, C) of every group."""
        return self.raw_pi_g.softmax(-1)

    @property
    def pi_r(self) -> Tensor:
        """(R, C, C) ``pi_r[r, c, l]`` = P(observe l | true c, confusion of annotator r)."""
        return self.raw_pi_r.softmax(-1)

    def weights_of_groups(self, membership: Tensor) -> Tensor:
        """(C, C, P) common weights of annotators, by (P, K) probabilities of their groups."""
        return torch.einsum("kcl,pk->clp", self.raw_pi_g, membership)

    def log_prob(
        self,
        log_class_proba: Tensor,
        omega_logits: Tensor,
        rows: Tensor,
        own: Tensor,
        labels: Tensor,
        common: Tensor | None = None,
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
        common : (C, C, P), optional
            Common weights of the pairs' annotators, where there are groups (:meth:`weights_of_groups`).
        """
        if self.layer == "row-stochastic":
            log_mixed = self._given_class(omega_logits, own, labels, common)
            return torch.logsumexp(log_class_proba.T.index_select(1, rows) + log_mixed, dim=0)  # Eq. (1)
        class_proba = log_class_proba.T.exp()  # (C, N): a class per row, as everything below
        of_pairs = class_proba.index_select(1, rows).unsqueeze(1)
        individual = (of_pairs * own).sum(0)
        # One common layer is computed once for an instance, those of groups for every pair.
        columns = rows if common is None else None
        shared = self.raw_pi_g.T @ class_proba if common is None else (of_pairs * common).sum(0)
        if self.mixing == "logit":
            shared = shared if columns is None else shared.index_select(1, columns)
            mixed = torch.lerp(individual, shared, omega_logits.sigmoid())
            return pick(mixed.log_softmax(0), labels)
        return mix(
            omega_logits,
            pick(shared.log_softmax(0), labels, columns),
            pick(individual.log_softmax(0), labels),
        )

    def log_prob_given_class(
        self, omega_logits: Tensor, own: Tensor, labels: Tensor, common: Tensor | None = None
    ) -> Tensor:
        """(P, C) log P(y | z = c) for every class c: the confusion that the posterior of the true label needs."""
        if self.mixing == "logit":
            shared = self.raw_pi_g.unsqueeze(-1) if common is None else common
            mixed = torch.lerp(own, shared, omega_logits.sigmoid())
            return label_columns(mixed.log_softmax(1), labels).T
        return self._given_class(omega_logits, own, labels, common).T

    def separation(self, weights: Tensor, common: Tensor | None = None) -> Tensor:
        """(A,) Frobenius distance between the common weights and (A, C, C) individual ones.

        ``common`` (C, C, A) has those of the annotators' groups, where there are groups.

        At the start the two are equal and the norm has no gradient; PyTorch takes 0 there, which is what we want.
        """
        shared = self.raw_pi_g if common is None else common.permute(2, 0, 1)
        distance: Tensor = torch.linalg.vector_norm(shared - weights, dim=(-2, -1))
        return distance

    def _given_class(self, omega_logits: Tensor, own: Tensor, labels: Tensor, common: Tensor | None) -> Tensor:
        """(C, P) log P(y | z = c) where probabilities are mixed."""
        if common is None:
            shared = self.raw_pi_g.log_softmax(-1).index_select(1, labels)
        else:
            shared = label_columns(common.log_softmax(1), labels)
        return mix(omega_logits, shared, label_columns(own.log_softmax(1), labels))


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


# Groups of annotators who share a common layer: who belongs to which.

DOUBT = 0.1
"""Probability that the first group of an annotator is chance, and says nothing."""


class AnnotatorGroups(nn.Module):
    r"""Probabilities that annotators belong to groups, :math:`q_r(k)`.

    With the shares :math:`\rho_k` of the groups and the first groups :math:`q^0`, which labels alone suggest, groups
    follow the labels of annotator r as the layers explain them:

    .. math::
        q_r(k) \propto \bigl[ 0.9 \, q^0_r(k) + 0.1 \, \rho_k \bigr]
            \prod_{i : (i, r) \in \mathcal O} p_{W^k}(y_i^r \mid f(x_i)), \qquad
        \rho_k = \frac{\sum_r q_r(k) + 1}{R + K}

    Parameters
    ----------
    n_annotators, n_groups : int
        R and K.
    """

    membership: Tensor
    shares: Tensor
    first: Tensor

    def __init__(self, n_annotators: int, n_groups: int) -> None:
        super().__init__()
        even = torch.full((n_groups,), 1.0 / n_groups)
        self.register_buffer("membership", even.repeat(n_annotators, 1))
        self.register_buffer("shares", even.clone())
        self.register_buffer("first", self.membership.clone(), persistent=False)

    def start(self, membership: Tensor) -> None:
        """Everybody is in the groups (R, K) that are suggested or given; of the last ones there may be no columns."""
        self.first.zero_()[:, : membership.shape[1]] = membership
        self._set(self.first)

    def forget_start(self) -> None:
        """Let the layers alone say who is in which group."""
        self.first.copy_(self.shares.expand_as(self.first))

    def infer(self, log_likelihood: Tensor) -> None:
        """The groups by (R, K) log-likelihoods of everybody's labels."""
        prior = (1 - DOUBT) * self.first + DOUBT * self.shares
        self._set((log_likelihood + prior.log()).softmax(1))

    def of(self, annotators: Tensor) -> Tensor:
        """(P, K) groups of annotators; an unknown one (-1) is in each as often as others are."""
        return torch.where((annotators >= 0)[:, None], self.membership[annotators.clamp(min=0)], self.shares)

    def _set(self, membership: Tensor) -> None:
        self.membership.copy_(membership)
        self.shares.copy_((self.membership.sum(0) + 1) / (len(membership) + len(self.shares)))


# The auxiliary network: the probability that an annotation follows the common confusion.

EPS = 1e-6
"""Minimum norm of an embedding; smaller norms give unbounded gradients."""
LEVEL_MOMENTUM = 0.1
"""Share of a batch in the running mean of the agreement."""


class AuxiliaryNetwork(nn.Module):
    r"""Gate between common and individual confusion, from instance difficulty and annotator expertise.

    Instances and annotators are mapped to unit vectors, whose agreement decides:

    .. math::
        v_i = W_v x_i + b_v, \quad u_r = W_u e_r + b_u, \quad
        \omega_i^r = \sigma(k \, \bar u_r^\top \bar v_i) \qquad \text{Eq. (3)}

    with :math:`\bar u = u / \|u\|`. The paper has :math:`k = 1`, which confines omega to [0.27, 0.73]. Another
    ``scale``, or ``scale="learn"``, lets the gate open and close further. ``scale="spread"`` learns how much omega
    varies, and keeps its level within the paper's bounds:

    .. math:: \omega_i^r = \sigma(k \, (\bar u_r^\top \bar v_i - m) + m)

    where m is the mean agreement of instances and annotators, in training that of the batch, and otherwise a running
    mean.

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
    scale : float, "learn" or "spread"
        The factor k.
    """

    annotator_features: Tensor | None
    level: Tensor

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
        self.keeps_level = scale == "spread"
        if isinstance(scale, str):
            self.scale = nn.Parameter(torch.ones(()))
        else:
            self.register_buffer("scale", torch.tensor(float(scale)))
        if self.keeps_level:
            self.register_buffer("level", torch.tensor(torch.nan))

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
        agreement = (instances * annotators).sum(-1)
        if not self.keeps_level:
            return self.scale * agreement
        level = self._batch_level(agreement) if self.training else self.level.nan_to_num()
        return self.scale * (agreement - level) + level

    def _batch_level(self, agreement: Tensor) -> Tensor:
        """The mean agreement of a batch, of all processes together, which the running mean follows."""
        total = torch.stack([agreement.sum(), agreement.new_tensor(len(agreement))])
        if dist.is_available() and dist.is_initialized():
            total = _SumOfProcesses.apply(total)  # type: ignore[no-untyped-call]
        mean = total[0] / total[1].clamp(min=1)
        with torch.no_grad():
            self.level.copy_(torch.where(self.level.isnan(), mean, torch.lerp(self.level, mean, LEVEL_MOMENTUM)))
        return mean


class _SumOfProcesses(Function):
    """The sum over all processes, whose gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone()
        dist.all_reduce(total)
        return total
