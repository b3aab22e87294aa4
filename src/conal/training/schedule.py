"""The learning rate: a linear warm-up, then constant or along half a cosine."""

from __future__ import annotations

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from conal.parameters.plan import Plan

__all__ = ["make_scheduler"]

LAST = 0.02
"""What the cosine leaves of the learning rate at the end."""


def make_scheduler(optimizer: Optimizer, lr: float, plan: Plan, n_batches: int, epochs_done: int = 0) -> LambdaLR:
    r"""A scheduler that is stepped after every batch.

    .. math:: \eta_t = \eta \, \phi \min(1, t / T_w) \, [\tfrac12 (1 + \cos(\pi e / E)) + 0.02]

    in step t of epoch e; :math:`\phi` is the plan's factor, and the cosine is there only where the user asks for it and
    on large data. Adam's first step has the size of the learning rate in every weight, however small the gradient is.
    With non-negative features these steps add up over hundreds of inputs, and a class's logit can fall so far that its
    gradient vanishes and the class is never predicted again. Small first steps prevent that.

    Parameters
    ----------
    plan : Plan
        The number of epochs, of those of the warm-up, what follows it, and a factor of the learning rate.
    n_batches : int
        Batches in an epoch.
    epochs_done : int
        Epochs before an interruption.
    """
    warmup = plan.warmup_epochs * n_batches

    def factor(step: int) -> float:
        decay = 1.0
        if plan.schedule == "cosine":
            decay = 0.5 * (1 + math.cos(math.pi * (step // n_batches) / plan.epochs)) + LAST
        return plan.lr_factor * decay * (min(1.0, (step + 1) / warmup) if warmup else 1.0)

    for group in optimizer.param_groups:
        group["initial_lr"] = lr
    return LambdaLR(optimizer, factor, last_epoch=epochs_done * n_batches - 1)
