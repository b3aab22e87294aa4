"""Aggregation by several processes: each has a part of the tasks, and their expected counts are summed."""

from __future__ import annotations

import atexit
import math
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from conal._system import process_number
from conal.aggregation.base import Aggregator, aggregators
from conal.aggregation.counts import FloatArray, Votes
from conal.aggregation.em import EMAggregator
from conal.aggregation.engines import Engine, Expectation, Sums
from conal.data.annotations import Annotations
from conal.data.true_labels import inclusion_of, known_codes
from conal.errors import InputError
from conal.parameters import check_parameters

__all__ = ["SharedEngine", "fit_shared", "is_shared", "leave_at_exit"]

A = TypeVar("A", bound=Aggregator)
Parameters = TypeVar("Parameters", contravariant=True)
TIMEOUT = timedelta(seconds=60)
"""A process that sends nothing for this long is considered dead."""


def is_shared() -> bool:
    """Whether ``torchrun`` started this process with others."""
    return process_number() > 1


class SharedEngine(Engine[Parameters]):
    r"""The E-step over the tasks of all processes, from every process's E-step over its own.

    Evidence and expected counts are sums over tasks, so that those of the processes p are added:

    .. math:: n^r_{cl} = \sum_{p} n^{r, (p)}_{cl}

    These are R C^2 numbers per M-step. The posterior stays with the process that has the tasks.

    Parameters
    ----------
    own : Engine
        Of this process's tasks.
    """

    def __init__(self, own: Engine[Parameters]) -> None:
        super().__init__(own.votes, own.known)
        self.own = own
        self.n_annotations = int(_summed(np.array([own.n_annotations]))[0])

    def start(self, posterior: FloatArray) -> Expectation:
        """The expectation by every process's guess at its posterior."""
        return _shared(self.own.start(posterior))

    def expect(self, parameters: Parameters) -> Expectation:
        """The E-step under the parameters, which all processes have."""
        own = self.own.expect(parameters)
        return _shared(own, float(_summed(np.array([own.log_evidence]))[0]))


def fit_shared(aggregator: A, data: Any, *, true_labels: Any = None) -> A:
    r"""Fit an aggregator with the other processes that ``torchrun`` started.

    Task i belongs to process i modulo their number. Every process makes the E-step of its own tasks, expected counts
    are summed (:class:`SharedEngine`), and the M-step is the same in all. In the end every process has the whole
    result, equal to that of one process up to the order of sums.

    Parameters
    ----------
    aggregator : DawidSkene or OneCoinDawidSkene
        Others are refused: their M-steps need more than counts.
    data : Annotations, long DataFrame or matrix
        The whole crowd, the same in every process.
    true_labels : optional
        As for ``fit``.
    """
    if not (isinstance(aggregator, EMAggregator) and aggregator.sums_suffice):
        raise InputError(
            f"{aggregator.name} runs in one process only; only {' and '.join(_shareable())} can use several"
        )
    check_parameters(aggregator)
    start: str = aggregator.get_params().get("start", "votes")
    if start != "votes":
        raise InputError(f"{aggregator.name}: the start {start!r} needs all tasks in one process; use 'votes'")
    _join()
    rank, world = dist.get_rank(), dist.get_world_size()
    crowd = Annotations.of(data)
    aggregator._check_memory(crowd)
    mine = np.arange(rank, crowd.n_tasks, world)
    part = crowd[mine]
    aggregator.known_codes_ = known_codes(crowd, true_labels)
    aggregator.inclusion_ = inclusion_of(crowd, true_labels)
    own = aggregator.learn(SharedEngine(aggregator.engine(Votes(part), aggregator.known_codes_[mine])))
    probas = np.empty((crowd.n_tasks, crowd.n_classes))
    for other, rows in enumerate(_gathered(own, crowd.n_tasks, world)):
        probas[other::world] = rows
    aggregator.adopt_posterior(crowd, aggregator._with_abstentions(crowd, probas))
    return aggregator


def leave_at_exit() -> None:
    """Leave the process group at exit; otherwise its threads would crash the ending process."""
    atexit.register(_leave)


def _join() -> None:
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=TIMEOUT)
        leave_at_exit()


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _shareable() -> list[str]:
    """Names of the aggregators that several processes can fit."""
    found = ((name, aggregators.get(name)) for name in aggregators.names())
    return [name for name, cls in found if issubclass(cls, EMAggregator) and cls.sums_suffice]


def _shared(own: Expectation, log_evidence: float = -math.inf) -> Expectation:
    """An expectation whose sums are over all processes, in one message when the M-step asks for them."""

    def sums() -> Sums:
        counts, shares, n_tasks = own.sums
        total = _summed(np.concatenate([counts.ravel(), shares, [n_tasks]]))
        return Sums(total[: counts.size].reshape(counts.shape), total[counts.size : -1], int(total[-1]))

    return Expectation(log_evidence, sums, lambda: own.posterior)


def _summed(values: FloatArray) -> FloatArray:
    """The sum over all processes."""
    total = torch.from_numpy(np.array(values, dtype=np.float64))  # a copy, contiguous
    dist.all_reduce(total)
    return total.numpy()


def _gathered(values: FloatArray, n_tasks: int, world: int) -> list[FloatArray]:
    """Every process's rows; their numbers differ by one at most."""
    sizes = [len(range(rank, n_tasks, world)) for rank in range(world)]
    padded = np.zeros((max(sizes), values.shape[1]))
    padded[: len(values)] = values
    parts = [torch.empty(padded.shape, dtype=torch.float64) for _ in range(world)]
    dist.all_gather(parts, torch.from_numpy(padded))
    return [part.numpy()[:size] for part, size in zip(parts, sizes, strict=True)]
