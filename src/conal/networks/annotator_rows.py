"""Tables with one row per annotator, of which a batch uses few."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

__all__ = ["LAZY_ABOVE", "Present", "is_lazy", "log_softmax", "row_table", "spread", "take_rows"]

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
