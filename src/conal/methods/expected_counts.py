"""Expected counts: how often each annotator gives each label, under the posterior of the true classes."""

from __future__ import annotations

from typing import Self

from torch import Tensor

__all__ = ["ExpectedCounts"]


class ExpectedCounts:
    r"""Sums over labels, :math:`n^r_{cl} = \sum_{i : y_i^r = l} q_i(c)`, added up batch by batch.

    Parameters
    ----------
    n_annotators, n_classes : int
        R and C.
    like : Tensor
        Counts have its precision and are on its device.

    Examples
    --------
    >>> import torch
    >>> certain = torch.tensor([[1.0, 0.0]])
    >>> counts = ExpectedCounts(1, 2, like=certain).add(certain, torch.tensor([0]), torch.tensor([1]))
    >>> counts.matrices().tolist()
    [[[0.0, 1.0], [0.0, 0.0]]]
    """

    def __init__(self, n_annotators: int, n_classes: int, like: Tensor) -> None:
        self.n_classes = n_classes
        self._by_label = like.new_zeros(n_annotators * n_classes, n_classes)  # [r observed, true]

    def add(self, posterior_of_pairs: Tensor, annotators: Tensor, labels: Tensor) -> Self:
        """Count P labels, each by the (P, C) probabilities of its instance's true class."""
        self._by_label.index_add_(0, annotators * self.n_classes + labels, posterior_of_pairs)
        return self

    def matrices(self) -> Tensor:
        """(R, C, C) ``[r, true, observed]``."""
        C = self.n_classes
        return self._by_label.view(-1, C, C).transpose(1, 2)
