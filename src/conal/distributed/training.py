"""One fit by several processes, on one or several machines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from conal._system import process_number, process_rank
from conal.distributed.aggregation import TIMEOUT, leave_at_exit
from conal.errors import InputError, TrainingError
from conal.networks.noise_layers import is_lazy

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["OneCpu", "gathered", "guarded", "make_fabric", "setup"]


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


def setup(fabric: OneCpu | Fabric, module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Any, Any]:
    """The module and its optimiser, wrapped for the fabric; as they are on one CPU.

    Gradients are averaged by DistributedDataParallel, but for long tables of annotators, of which every process has
    other rows: these are left to the optimiser (:func:`gathered`).
    """
    if isinstance(fabric, OneCpu):
        return module, optimizer
    lazy = [name for name, parameter in module.named_parameters() if is_lazy(parameter)]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, lazy)
    wrapped, its_optimizer = fabric.setup(module, optimizer)
    return wrapped, its_optimizer


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
