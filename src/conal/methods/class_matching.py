"""Match inferred classes to the user's classes."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["aligned_with_people", "aligned_with_votes", "is_identity", "most_annotators_agree", "present_names"]

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


def aligned_with_people(counts: Tensor) -> Tensor:
    """(C,) the inferred class of each class name, such that most annotators are right; the present names if in doubt.

    A group who exchange classes and never slip can win the votes, although more people are right most of the time.
    Here every annotator says which label belongs to an inferred class: the one that the annotator gave most often.
    The names that most say so are taken if they are decided: annotators who clearly prefer them, by two standard errors
    of their own labels, have more than half of the labels of the classes that get another name.

    Parameters
    ----------
    counts : (R, C, C) tensor
        Expected votes ``[annotator, inferred class, observed label]``.

    Examples
    --------
    Three people are right in 60 of 100 tasks, two exchange the classes in all, and so the votes have named them.

    >>> honest, ring = torch.tensor([[40.0, 60.0], [60.0, 40.0]]), torch.tensor([[100.0, 0.0], [0.0, 100.0]])
    >>> counts = torch.stack([honest, honest, honest, ring, ring])
    >>> aligned_with_votes(counts.sum(0)).tolist(), aligned_with_people(counts).tolist()
    ([0, 1], [1, 0])
    """
    usual = torch.zeros_like(counts).scatter_(2, counts.argmax(2, keepdim=True), counts.sum(2, keepdim=True))
    order = aligned_with_votes(usual.sum(0))
    moved, new, old = _preferred(counts, order)
    weight = counts[:, moved].sum((1, 2))
    decided = new - old > 2 * (new + old).sqrt()
    is_clear = bool(weight[decided].sum() > weight.sum() / 2)
    return order if is_clear else present_names(order)


def present_names(like: Tensor) -> Tensor:
    """(C,) the order in which all classes keep their names."""
    return torch.arange(len(like), device=like.device)


def is_identity(order: Tensor) -> bool:
    """Whether all classes keep their names."""
    return torch.equal(order, present_names(order))


def most_annotators_agree(counts: Tensor, order: Tensor) -> bool:
    """Whether the labels of most annotators fit new names of the classes better than the present ones.

    All votes together are won by a group who exchange classes and never slip, also where they are fewer than those who
    are right most of the time. Annotators count by their labels of the classes that get another name.

    Parameters
    ----------
    counts : (R, C, C) tensor
        Expected votes ``[annotator, inferred class, observed label]``.
    order : (C,) tensor
        The inferred class of each class name, as :func:`aligned_with_votes` has it.

    Examples
    --------
    Three people are right in 6 of 10 tasks, two exchange the classes in all.

    >>> honest, ring = torch.tensor([[6.0, 4.0], [4.0, 6.0]]), torch.tensor([[0.0, 10.0], [10.0, 0.0]])
    >>> counts = torch.stack([honest, honest, honest, ring, ring])
    >>> order = aligned_with_votes(counts.sum(0))
    >>> order.tolist(), most_annotators_agree(counts, order)
    ([1, 0], False)
    """
    moved, new, old = _preferred(counts, order)
    weight = counts[:, moved].sum((1, 2))
    return bool((weight * (new - old).sign()).sum() >= 0)


def _preferred(counts: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The classes that get another name, and (R,) how many labels of each annotator fit the new and the old names."""
    moved = torch.nonzero(order != present_names(order)).flatten()
    return moved, counts[:, order[moved], moved].sum(1), counts[:, moved, moved].sum(1)
