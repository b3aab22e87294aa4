"""AggNet: Dawid and Skene's model with a network in place of the class prior, by EM."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from conal.aggregation.two_sources import rows
from conal.methods.base import Problem, register
from conal.methods.em import SingleNetworkEM

__all__ = ["AggNetMethod"]


@register("aggnet")
class AggNetMethod(SingleNetworkEM):
    r"""Dawid-Skene with the classifier in place of the class prior, by EM (AggNet; Albarqouni et al. 2016).

    .. math::
        q_i(c) \propto f_c(x_i) \prod_r \pi^r_{c, y_i^r}, \qquad
        \pi^r_{cl} = \frac{\sum_{i : y_i^r = l} q_i(c) + \alpha}{\sum_{i, l'} q_i(c) [y_i^r = l'] + C \alpha}

    and the network is trained on q by cross-entropy. The first q are the vote shares.

    References
    ----------
    Albarqouni, Baur, Achilles, Belagiannis, Demirci and Navab (2016). AggNet: deep learning from crowds for mitosis
    detection in breast cancer histology images. IEEE Transactions on Medical Imaging 35, 1313-1321.

    Examples
    --------
    >>> import conal
    >>> conal.make("aggnet", epochs_per_round=5).epochs_per_round
    5
    """

    pi_r: Tensor

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        C = problem.n_classes
        self.register_buffer("pi_r", torch.full((problem.n_annotators, C, C), 1.0 / C))

    def update_confusion(self, counts: Tensor) -> None:
        """Expected counts, smoothed."""
        self.pi_r.copy_(rows(counts, self.smoothing))

    def confusion(self) -> tuple[Tensor, Tensor]:
        """The annotators' matrices, and their mean for those without labels."""
        pi_g = self.pooled(self.pi_r)
        return pi_g, self.known_or_common(pi_g, self.pi_r)
