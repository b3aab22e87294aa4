"""Match inferred classes to the user's classes."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["aligned_with_votes"]

TRUTH_WEIGHT = 0.3


def aligned_with_votes(agreement: Tensor, truth: Tensor | None = None) -> Tensor:
    """(C,) the inferred class of each class name, such that the diagonal of the confusion is largest.

    Mistakes and truth can change places without any change in the likelihood, for two classes or for a cycle of
    several. The tie is broken by the assumption that annotators are right more often than they make any one mistake.

    Parameters
    ----------
    agreement : (C, C) tensor
        Expected votes ``[inferred class, observed label]``.
    truth : (C, C) tensor, optional
        Expected numbers of known true labels ``[inferred class, true label]``. Every one counts as much as
        :data:`TRUTH_WEIGHT` of all votes of a class: where true labels are known, they name the classes.

    Examples
    --------
    >>> aligned_with_votes(torch.tensor([[1.0, 9.0], [8.0, 2.0]])).tolist()
    [1, 0]
    >>> aligned_with_votes(torch.tensor([[1.0, 9.0], [8.0, 2.0]]), truth=3 * torch.eye(2)).tolist()
    [0, 1]
    """
    from scipy.optimize import linear_sum_assignment

    confusion = agreement.double() / agreement.double().sum(1, keepdim=True).clamp(min=1e-9)
    if truth is not None:
        confusion = confusion + TRUTH_WEIGHT * truth.double()
    inferred, names = linear_sum_assignment(confusion.cpu().numpy(), maximize=True)
    order = torch.empty(len(names), dtype=torch.int64)
    order[torch.from_numpy(names)] = torch.from_numpy(inferred)
    return order.to(agreement.device)
