"""The training history: one row of figures per epoch."""

from __future__ import annotations

__all__ = ["Row", "figures"]

Row = dict[str, float]
"""One line of the history: epoch, loss, learning rate, seconds and the selection score."""


def figures(row: Row) -> str:
    """The figures of an epoch as text.

    >>> figures({"epoch": 3, "loss": 1.25, "seconds": 0.1, "validation_accuracy": 0.875})
    'loss 1.2500  validation accuracy 87.5 %'
    """
    text = f"loss {row['loss']:.4f}"
    if "validation_accuracy" in row:
        text += f"  validation accuracy {100 * row['validation_accuracy']:.1f} %"
    if "holdout_log_likelihood" in row:
        text += f"  held-out log-likelihood {row['holdout_log_likelihood']:.4f}"
    return text
