"""Aggregation by several processes: each has its tasks, and what they count is summed."""

from __future__ import annotations

import atexit
import os
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from conal.aggregation.base import Aggregator
from conal.aggregation.dawid_skene import DawidSkene
from conal.data.annotations import Annotations
from conal.errors import InputError

__all__ = ["fit_shared", "is_shared", "leave_at_exit"]

A = TypeVar("A", bound=Aggregator)
TIMEOUT = timedelta(seconds=60)
"""A process that has not been heard of for so long is taken for dead."""


def is_shared() -> bool:
    """Whether ``torchrun`` started this process with others."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def fit_shared(aggregator: A, data: Any, *, true_labels: Any = None) -> A:
    r"""Fit an aggregator with the other processes that ``torchrun`` started.

    Task i belongs to process i modulo their number. Every process goes through its own tasks, and the expected counts

    .. math:: n^r_{cl} = \sum_{p} n^{r, (p)}_{cl}

    are summed over all, R C^2 numbers per iteration, so that the M-step is everywhere the same. In the end every
    process has the whole result, equal to that of one process but for the order of sums.

    Parameters
    ----------
    aggregator : DawidSkene or OneCoinDawidSkene
        Others are refused: their M-steps need more than counts.
    data : Annotations, long DataFrame or matrix
        The whole crowd, the same in every process.
    true_labels : optional
        As for ``fit``.
    """
    if not isinstance(aggregator, DawidSkene):
        raise InputError(
            f"{aggregator.name} cannot be shared between processes; dawid-skene and one-coin can, run others by one"
        )
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=TIMEOUT)
        leave_at_exit()
    rank, world = dist.get_rank(), dist.get_world_size()
    crowd = Annotations.of(data)
    mine = np.arange(rank, crowd.n_tasks, world)
    aggregator.share = _summed
    try:
        aggregator.fit(crowd[mine], true_labels=_of_tasks(true_labels, crowd, mine))
    finally:
        aggregator.share = None
    probas = np.empty((crowd.n_tasks, crowd.n_classes))
    for other, part in enumerate(_gathered(aggregator.probas_, crowd.n_tasks, world)):
        probas[other::world] = part
    aggregator.adopt_posterior(crowd, probas)
    return aggregator


def leave_at_exit() -> None:
    """Take leave of the other processes when this one ends: their threads would outlive it, and bring it down."""
    atexit.register(_leave)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _of_tasks(true_labels: Any, crowd: Annotations, mine: npt.NDArray[np.int64]) -> dict[Any, Any] | None:
    """The true labels among those of this process, which alone it knows the tasks of."""
    if true_labels is None:
        return None
    own = set(crowd.task_ids[mine].tolist())
    return {task: label for task, label in dict(true_labels).items() if task in own}


def _summed(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The sum over all processes."""
    total = torch.from_numpy(np.array(values, dtype=np.float64))  # a copy, contiguous
    dist.all_reduce(total)
    return total.numpy()


def _gathered(values: npt.NDArray[np.float64], n_tasks: int, world: int) -> list[npt.NDArray[np.float64]]:
    """Every process's rows; all have as many but for one."""
    sizes = [len(range(rank, n_tasks, world)) for rank in range(world)]
    padded = np.zeros((max(sizes), values.shape[1]))
    padded[: len(values)] = values
    parts = [torch.empty(padded.shape, dtype=torch.float64) for _ in range(world)]
    dist.all_gather(parts, torch.from_numpy(padded))
    return [part.numpy()[:size] for part, size in zip(parts, sizes, strict=True)]
