"""Work shared by several processes: sums of counts for aggregators, gradients for networks."""

from __future__ import annotations

import atexit
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from conal._arrays import FloatArray
from conal._system import process_number, process_rank
from conal.aggregation.base import Aggregator, aggregators
from conal.aggregation.counts import Votes
from conal.aggregation.em import EMAggregator
from conal.aggregation.engines import Engine, Expectation, Sums
from conal.data.annotations import Annotations
from conal.data.true_labels import inclusion_of, known_codes
from conal.errors import InputError, TrainingError
from conal.networks.noise_layers import is_lazy
from conal.parameters import check_parameters

if TYPE_CHECKING:
    from lightning_fabric import Fabric


# Aggregation by several processes: each has a part of the tasks, and their expected counts are summed.

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
    _join()
    crowd = Annotations.of(data)
    aggregator._check_memory(crowd)
    mine = np.arange(dist.get_rank(), crowd.n_tasks, dist.get_world_size())
    part = crowd[mine]
    aggregator.known_codes_ = known_codes(crowd, true_labels)
    aggregator.inclusion_ = inclusion_of(crowd, true_labels)
    probas = np.zeros((crowd.n_tasks, crowd.n_classes))
    probas[mine] = aggregator.learn(SharedEngine(aggregator.engine(Votes(part), aggregator.known_codes_[mine])))
    aggregator.adopt_posterior(crowd, aggregator._with_abstentions(crowd, _summed(probas)))
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


# One fit by several processes, on one or several machines.


class OneCpu:
    """What training uses of Fabric, for one process on the CPU in single precision: there is nothing to move or share.

    Most fits need no more, and Fabric with what it imports takes longer to load than a small fit takes to train.
    """

    device = torch.device("cpu")
    world_size = 1
    global_rank = 0

    def backward(self, loss: Tensor) -> None:
        """Gradients of the loss."""
        loss.backward()

    def all_reduce(self, total: Tensor, reduce_op: str) -> Tensor:
        """The total of one process."""
        return total


def make_fabric(accelerator: str, precision: str, devices: int = 1, num_nodes: int = 1) -> OneCpu | Fabric:
    """Fabric for as many processes as there are devices on all nodes, or what stands for it where one CPU will do.

    Under ``torchrun`` the launcher sets these numbers, and other numbers are an error.
    """
    process_rank()  # an impossible one is an error
    if "LOCAL_WORLD_SIZE" in os.environ and "WORLD_SIZE" in os.environ:
        here, everywhere = process_number("LOCAL_WORLD_SIZE"), process_number()
        if (devices, num_nodes) not in ((1, 1), (here, everywhere // here)):
            raise InputError(
                f"devices={devices}, num_nodes={num_nodes}, but torchrun started {here} processes on each of "
                f"{everywhere // here} nodes; remove both, because torchrun sets them"
            )
        devices, num_nodes = here, everywhere // here
    if _is_one_cpu(accelerator, precision, devices * num_nodes):
        return OneCpu()
    return _launched(accelerator, precision, devices, num_nodes)


def _is_one_cpu(accelerator: str, precision: str, n_processes: int) -> bool:
    has_other = torch.cuda.is_available() or torch.backends.mps.is_available()
    here = accelerator == "cpu" or (accelerator == "auto" and not has_other)
    return here and precision == "32-true" and n_processes == 1


def _launched(accelerator: str, precision: str, devices: int, num_nodes: int) -> Fabric:
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    several = devices * num_nodes > 1
    strategy: Any = DDPStrategy(timeout=TIMEOUT, broadcast_buffers=False)
    if several and "WORLD_SIZE" not in os.environ:  # nobody started this process as one of several
        for leftover in ("RANK", "LOCAL_RANK"):
            os.environ.pop(leftover, None)  # Fabric would wait for others, and its processes would inherit it
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=devices,
            num_nodes=num_nodes,
            strategy=strategy if several else "auto",
            precision=precision,  # type: ignore[arg-type]
        )
        if several:
            fabric.launch()
            leave_at_exit()
    except (ValueError, RuntimeError) as error:
        raise InputError(
            f"accelerator {accelerator!r} with precision {precision!r} on {devices} devices of {num_nodes} nodes "
            f"cannot be used here: {error}"
        ) from error
    return fabric


def setup(
    fabric: OneCpu | Fabric, module: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> tuple[Any, list[Any]]:
    """The module and its optimisers, wrapped for the fabric; as they are on one CPU.

    Gradients are averaged by DistributedDataParallel, but for long tables of annotators, of which every process has
    other rows (:func:`average_tables`).
    """
    if isinstance(fabric, OneCpu):
        return module, list(optimizers)
    lazy = [name for name, parameter in module.named_parameters() if is_lazy(parameter)]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, lazy)
    wrapped, *its_optimizers = fabric.setup(module, *optimizers)
    return wrapped, its_optimizers


def average_tables(parameters: Iterable[nn.Parameter]) -> None:
    """Replace the sparse gradients of long tables by their means over the processes."""
    for table in filter(is_lazy, parameters):
        none = torch.empty(1, 0, dtype=torch.int64, device=table.device)  # this process may have no row of the batch
        empty = torch.sparse_coo_tensor(none, table.new_empty(0, *table.shape[1:]), table.shape)
        table.grad = gathered(empty if table.grad is None else table.grad)


def gathered(gradient: Tensor) -> Tensor:
    """Mean over the processes of sparse gradients of a table, each of which may contain different rows."""
    world = dist.get_world_size()
    gradient = gradient.coalesce()
    rows, values = gradient.indices()[0], gradient.values()
    sizes = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(world)]
    dist.all_gather(sizes, torch.tensor([len(rows)], device=rows.device))
    longest = max(int(size) for size in sizes)
    all_rows = [torch.zeros(longest, dtype=rows.dtype, device=rows.device) for _ in range(world)]
    all_values = [torch.zeros(longest, *values.shape[1:], dtype=values.dtype, device=rows.device) for _ in range(world)]
    dist.all_gather(all_rows, _padded(rows, longest))
    dist.all_gather(all_values, _padded(values, longest))
    kept = [int(size) for size in sizes]
    index = torch.cat([part[:n] for part, n in zip(all_rows, kept, strict=True)])
    whole = torch.cat([part[:n] for part, n in zip(all_values, kept, strict=True)]) / world
    return torch.sparse_coo_tensor(index.unsqueeze(0), whole, gradient.shape).coalesce()


def _padded(values: Tensor, length: int) -> Tensor:
    return torch.cat([values, values.new_zeros(length - len(values), *values.shape[1:])])


@contextmanager
def guarded(several: bool) -> Iterator[None]:
    """Explain the error if other processes can no longer be reached."""
    try:
        yield
    except RuntimeError as error:
        if several and _is_lost_connection(error):
            raise TrainingError(
                "another process of this run has ended or cannot be reached, so this one ends too; its own message "
                "says why. Start all of them again with --resume to continue from the last checkpoint"
            ) from error
        raise


def _is_lost_connection(error: RuntimeError) -> bool:
    words = ("gloo", "nccl", "connection", "process group", "timed out", "socket")
    return isinstance(error, dist.DistError) or any(word in str(error).lower() for word in words)
