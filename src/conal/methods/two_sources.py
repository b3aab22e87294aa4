"""The paper's two kinds of confusion with closed-form updates: labels from everybody's matrix or from one's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["TwoSources", "from_common"]

OMEGA_PRIOR = 1.0
"""Pseudo-labels from either source in every annotator's omega."""
OMEGA_START = 0.2
"""Labels are their annotators' own until the data say otherwise."""
COMMON_PRIOR = (0.5, 1.5)
"""Pseudo-labels in every cell of the common matrix, and what the diagonal has more."""


def from_common(counts: Tensor, omega: Tensor, pi_g: Tensor, pi_r: Tensor) -> Tensor:
    """(R, C, C) how many of the expected labels ``counts[r, true, observed]`` came from the common confusion."""
    omega = omega[:, None, None]
    return counts * omega * pi_g / (omega * pi_g + (1 - omega) * pi_r)


class TwoSources(nn.Module):
    r"""Mixture of a common and an individual confusion matrix for every annotator.

    .. math::
        \mu^r_{cl} = \omega_r \pi^g_{cl} + (1 - \omega_r) \pi^r_{cl}, \qquad
        t^r_{cl} = \omega_r \pi^g_{cl} / \mu^r_{cl}

    and, with expected counts :math:`n^r_{cl}`,

    .. math::
        \pi^g_{cl} \propto \sum_r n^r_{cl} t^r_{cl} + \tfrac12 + \tfrac32 [c = l], \quad
        \pi^r_{cl} \propto n^r_{cl} (1 - t^r_{cl}) + \alpha \pi^g_{cl}, \quad
        \omega_r = \frac{\sum_{cl} n^r_{cl} t^r_{cl} + 1}{n_r + 2}

    Parameters
    ----------
    n_annotators, n_classes : int
    pooling : float
        :math:`\alpha`, pseudo-labels that every row of an annotator's own matrix takes from the common one.
    learn_omega : bool
        If not, all labels count for both matrices, and :math:`\omega_r` only says which share of an annotator's
        pooled matrix is the common one's.
    """

    pi_g: Tensor
    pi_r: Tensor
    omega: Tensor
    started: Tensor

    def __init__(self, n_annotators: int, n_classes: int, pooling: float, *, learn_omega: bool = True) -> None:
        super().__init__()
        C = n_classes
        self.pooling = float(pooling)
        self.learn_omega = learn_omega
        self.register_buffer("pi_g", torch.full((C, C), 1.0 / C))
        self.register_buffer("pi_r", torch.full((n_annotators, C, C), 1.0 / C))
        self.register_buffer("omega", torch.full((n_annotators,), OMEGA_START))
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def fit(self, counts: Tensor) -> None:
        """Split expected counts (R, C, C) ``[r, true, observed]`` between the two sources, and fit both."""
        if not self.learn_omega:
            self._adopt(counts.sum(0), counts)
            total = self.pooling * len(self.pi_g)
            self.omega.copy_(total / (counts.sum((1, 2)) + total))
            return
        if not self.started:  # both sources start from what all labels say
            self._adopt(counts.sum(0), counts)
            self.started.fill_(True)
        common = from_common(counts, self.omega, self.pi_g, self.pi_r)
        self._adopt(common.sum(0), counts - common)
        self.omega.copy_((common.sum((1, 2)) + OMEGA_PRIOR) / (counts.sum((1, 2)) + 2 * OMEGA_PRIOR))

    def reorder(self, order: Tensor) -> None:
        """Give the true classes other names: class c takes the place of what was ``order[c]``."""
        self.pi_g.copy_(self.pi_g[order])
        self.pi_r.copy_(self.pi_r[:, order])

    def log_prob(self, annotators: Tensor, labels: Tensor, known: Tensor) -> Tensor:
        """(P, C) log mu at the observed labels; the common confusion for annotators who are not known."""
        omega = self.rate(annotators, known)[:, None]
        own = self.pi_r[annotators.clamp(min=0), :, labels]
        if not self.learn_omega:  # the common matrix is in their own already
            omega = (~known).to(omega.dtype)[:, None]
        return (omega * self.pi_g[:, labels].T + (1 - omega) * own).log()

    def rate(self, annotators: Tensor, known: Tensor) -> Tensor:
        """(P,) omega; 1 where the annotator is not known."""
        return torch.where(known, self.omega[annotators.clamp(min=0)], 1.0)

    def _adopt(self, common: Tensor, individual: Tensor) -> None:
        everywhere, diagonal = COMMON_PRIOR
        total = common + everywhere + diagonal * torch.eye(len(common), device=common.device)
        self.pi_g.copy_(total / total.sum(-1, keepdim=True))
        own = individual + self.pooling * self.pi_g
        self.pi_r.copy_(own / own.sum(-1, keepdim=True))
