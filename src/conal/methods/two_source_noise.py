"""The paper's two kinds of confusion as a torch module: matrices and omega, fitted in closed form."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from conal.aggregation.common_confusion import mixture, share_of_common, updated_omega
from conal.aggregation.counts import normalised
from conal.aggregation.group_confusion import levels_of

ATTRIBUTED = (
    "It is what the model attributes to everybody. Where omega hardly varies, the labels do not tell how mistakes "
    "divide between this matrix and the annotators' own."
)
"""What the common matrix of a model of two sources is, for readers of the report."""


class PseudoLabels(NamedTuple):
    """Pseudo-counts: the priors of the two kinds of confusion and of omega.

    Attributes
    ----------
    common, diagonal : float
        In every cell of the common matrix, and in its diagonal on top of that.
    individual : float
        In every cell of an annotator's own matrix.
    pooling : float
        In every row of an annotator's own matrix, spread as in the common one.
    omega : float
        From either source, for every annotator.
    """

    common: float
    diagonal: float = 0.0
    individual: float = 0.0
    pooling: float = 0.0
    omega: float = 1.0


class TwoSourceNoise(nn.Module):
    r"""Mixture of a common and an individual confusion matrix for every annotator.

    .. math::
        \mu^r_{cl} = \omega_r \pi^g_{cl} + (1 - \omega_r) \pi^r_{cl}, \qquad
        t^r_{cl} = \omega_r \pi^g_{cl} / \mu^r_{cl}

    A fit to expected counts :math:`n^r_{cl}` is one round of EM, with pseudo-labels a, d, b, :math:`\alpha` and k:

    .. math::
        \pi^g_{cl} \propto \sum_r n^r_{cl} t^r_{cl} + a + d [c = l], \quad
        \pi^r_{cl} \propto n^r_{cl} (1 - t^r_{cl}) + b + \alpha \pi^g_{cl}, \quad
        \omega_r = \frac{\sum_{cl} n^r_{cl} t^r_{cl} + k}{n_r + 2 k}

    Parameters
    ----------
    n_annotators, n_classes : int
    pseudo : PseudoLabels
    omega_start : float
        Omega before the first fit.
    uniform_start : bool
        Split the first counts by uniform matrices. Otherwise both sources first fit all labels.
    learn_omega : bool
        If false, all labels count for both matrices, and :math:`\omega_r` only says which share of an annotator's own
        matrix is due to the pseudo-labels from the common one.
    groups : (R,) tensor, optional
        The group of every annotator. Without a learned omega, an annotator's matrix is then drawn to the group's, and
        this to that of all, by as much as the labels say (:func:`conal.aggregation.group_confusion.levels_of`),
        not by :math:`\alpha`.
    """

    pi_g: Tensor
    pi_r: Tensor
    omega: Tensor
    started: Tensor

    def __init__(
        self,
        n_annotators: int,
        n_classes: int,
        pseudo: PseudoLabels,
        *,
        omega_start: float,
        uniform_start: bool = False,
        learn_omega: bool = True,
        groups: Tensor | None = None,
    ) -> None:
        super().__init__()
        C = n_classes
        self.pseudo = pseudo
        self.learn_omega = learn_omega
        self.groups = None if learn_omega or groups is None else groups.cpu().numpy()
        # Pseudo-labels in a row of an annotator's own matrix: one number, or (R, C) where there are groups.
        self.row_pseudo = torch.tensor(pseudo.pooling, dtype=torch.float64)
        self.register_buffer("pi_g", torch.full((C, C), 1.0 / C))
        self.register_buffer("pi_r", torch.full((n_annotators, C, C), 1.0 / C))
        self.register_buffer("omega", torch.full((n_annotators,), omega_start))
        self.register_buffer("started", torch.tensor(uniform_start))

    def fit(self, counts: Tensor) -> None:
        """Split expected counts (R, C, C) ``[r, true, observed]`` between the two sources, and fit both."""
        if not self.learn_omega:
            self.fit_matrices(counts.sum(0), counts)
            pooled = self.row_pseudo * len(self.pi_g) if self.groups is None else self.row_pseudo.sum(1)
            self.omega.copy_(pooled / (counts.sum((1, 2)) + pooled))
            return
        if not self.started:
            self.fit_matrices(counts.sum(0), counts)
            self.started.fill_(True)
        common = counts * share_of_common(self.omega, self.pi_g, self.pi_r)
        self.fit_matrices(common.sum(0), counts - common)
        self.omega.copy_(updated_omega(common, counts, self.pseudo.omega, self.pseudo.omega))

    def fit_matrices(self, common: Tensor, individual: Tensor) -> None:
        """Both kinds of matrices, from the (C, C) and (R, C, C) labels that came from each."""
        a, d, b, pooling, _ = self.pseudo
        self.pi_g.copy_(normalised(common + a + d * torch.eye(len(common), device=common.device)))
        if self.groups is None:
            drawn = pooling * self.pi_g
        else:
            alpha = levels_of(individual.double().cpu().numpy(), self.groups).alpha
            drawn = torch.from_numpy(alpha[self.groups]).to(individual)
            self.row_pseudo = drawn.sum(2)
        self.pi_r.copy_(normalised(individual + b + drawn))

    def reorder(self, order: Tensor) -> None:
        """Permute the true classes: class c becomes the former class ``order[c]``."""
        self.pi_g.copy_(self.pi_g[order])
        self.pi_r.copy_(self.pi_r[:, order])

    def log_prob(self, annotators: Tensor, labels: Tensor, known: Tensor) -> Tensor:
        """(P, C) log mu at the observed labels; the common confusion for unknown annotators."""
        # Without a learned omega, an annotator's own matrix has its share of the common one already.
        omega = self.rate(annotators, known) if self.learn_omega else (~known).to(self.omega.dtype)
        return mixture(omega, *self.columns(annotators, labels)).log()

    def log_matrices(self) -> Tensor:
        """(R, C, C) log mu of every annotator: :meth:`log_prob` of every label that each might give."""
        omega = self.omega if self.learn_omega else torch.zeros_like(self.omega)
        return mixture(omega, self.pi_g, self.pi_r).log()

    def columns(self, annotators: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(P, C) twice: the columns ``pi_g[:, y]`` and ``pi_r[r, :, y]`` of the observed labels."""
        return self.pi_g[:, labels].T, self.pi_r[annotators.clamp(min=0), :, labels]

    def rate(self, annotators: Tensor, known: Tensor) -> Tensor:
        """(P,) omega; 1 for unknown annotators."""
        return torch.where(known, self.omega[annotators.clamp(min=0)], 1.0)
