"""The paper's two kinds of confusion as a torch module: matrices and omega, fitted in closed form."""

from __future__ import annotations

import math
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
    learned : bool
        Whether there are as many as the labels say, at most ``pooling``: :func:`learned_prior`.
    """

    common: float
    diagonal: float = 0.0
    individual: float = 0.0
    pooling: float = 0.0
    omega: float = 1.0
    learned: bool = False


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
        a, d, b, pooling, _, learned = self.pseudo
        self.pi_g.copy_(normalised(common + a + d * torch.eye(len(common), device=common.device)))
        if self.groups is not None:
            alpha = levels_of(individual.double().cpu().numpy(), self.groups).alpha
            drawn = torch.from_numpy(alpha[self.groups]).to(individual)
            self.row_pseudo = drawn.sum(2)
        elif learned:
            drawn = learned_prior(individual, self.pi_g, pooling)
            self.row_pseudo = drawn[0, 0].sum()
        else:
            drawn = pooling * self.pi_g
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


# Pseudo-labels of annotators' matrices, as many as the labels say (empirical Bayes).

LOWEST, HIGHEST = 0.1, 30.0
"""The range of a strength. By true labels, it is 16 to 70 in crowds of LabelMe, Music and CIFAR-10 features. Inferred
labels hide how annotators differ: with one or two labels per task, they often set no limit to it.
"""
HALVINGS = 15
MAX_CELLS = 100_000
"""Of a larger crowd, annotators with so many cells together tell the strength."""
LEAST_SHARE = 1e-3


def learned_prior(counts: Tensor, common: Tensor, highest: float) -> Tensor:
    r"""(R, C, C) pseudo-labels of every annotator: the common confusion at the annotator's own skill.

    .. math::
        \alpha^r_{cl} = A \, m^r_{cl}, \qquad m^r_{cl} \propto \pi^g_{cl} \, \theta_r^{[c \ne l]}

    One factor :math:`\theta_r` on the odds of a mistake is learned from far fewer labels than a matrix. It follows from
    the annotator's share of right labels, which is drawn to what the common confusion expects. How strongly, and A, are
    those under which the counts are most probable: annotators who are alike share much, others little.

    Parameters
    ----------
    counts : (R, C, C)
        Expected labels ``[annotator, true, observed]``.
    common : (C, C)
    highest : float
        The largest A.

    Examples
    --------
    >>> common = torch.tensor([[0.8, 0.2], [0.2, 0.8]])
    >>> alike, apart = 50 * common.expand(4, 2, 2), 50 * torch.stack([torch.eye(2), 1 - torch.eye(2)] * 2)
    >>> bool(learned_prior(alike, common, 30)[0, 0].sum() > 5 * learned_prior(apart, common, 30)[0, 0].sum())
    True
    """
    counts, common = counts.double(), common.double()
    total, right = counts.sum((1, 2)), counts.diagonal(dim1=1, dim2=2).sum(1)
    usual = (counts.sum(2) * common.diagonal()).sum(1) / total.clamp(min=LEAST_SHARE)
    usual = usual.clamp(LEAST_SHARE, 1 - LEAST_SHARE)
    given = torch.stack([right, (total - right).clamp(min=0)], 1)
    strength = prior_strength(given, torch.stack([usual, 1 - usual], 1))
    skill = ((right + strength * usual) / (total + strength)).clamp(LEAST_SHARE, 1 - LEAST_SHARE)
    factor = torch.where(total > 0, (1 / skill - 1) / (1 / usual - 1), 1.0)
    wrong = 1 - torch.eye(len(common), dtype=common.dtype, device=common.device)
    mean = normalised(common * factor[:, None, None] ** wrong)
    return (prior_strength(counts, mean, highest) * mean).float()


def highest_strength(labels_per_task: float) -> float:
    """The largest number of pseudo-labels: 30 for up to two labels per task, and from there to 1 for four or more.

    Several labels of a task check each other, so that EM finds how annotators differ, and shrinkage only blurs that.

    >>> [round(highest_strength(n), 1) for n in (1, 2, 3, 4, 10)]
    [30.0, 30.0, 5.5, 1.0, 1.0]
    """
    return math.pow(HIGHEST, min(max((4 - labels_per_task) / 2, 0.0), 1.0))


def prior_strength(counts: Tensor, mean: Tensor, highest: float = HIGHEST) -> float:
    r"""The number of pseudo-labels A under which (R, ..., L) counts from Dirichlet(A mean) are most probable.

    .. math::
        \sum_l m_l [\psi(A m_l + n_l) - \psi(A m_l)] - \psi(A + n) + \psi(A) = 0 \quad \text{summed over all rows}
    """
    some = slice(None, None, max(1, math.ceil(counts.numel() / MAX_CELLS)))
    counts, mean = counts[some], mean[some]
    totals = counts.sum(-1)
    low, high = (counts.new_tensor(each).log() for each in (LOWEST, highest))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        strength = middle.exp()
        alpha = strength * mean
        gained = (mean * (torch.digamma(alpha + counts) - torch.digamma(alpha))).sum()
        rises = gained > (torch.digamma(strength + totals) - torch.digamma(strength)).sum()
        low, high = (middle, high) if rises else (low, middle)
    return float(((low + high) / 2).exp())
