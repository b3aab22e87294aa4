"""Torch's AdamW for networks, and its SparseAdam for long tables of annotators, of which a batch uses few rows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from conal.methods.base import CrowdMethod
from conal.networks.noise_layers import is_lazy

Kind = TypeVar("Kind", bound=type[Optimizer])


def undecorated(kind: Kind) -> Kind:
    """The optimiser without PyTorch's decorators for its compiler, which the first call imports.

    That takes two seconds, more than a small fit takes. Nothing here is compiled.
    """
    for name in ("add_param_group", "state_dict", "load_state_dict"):
        setattr(kind, name, inspect.unwrap(getattr(kind, name)))
    kind.step = torch.no_grad()(inspect.unwrap(kind.step))  # type: ignore[method-assign]
    return kind


@undecorated
class AdamW(torch.optim.AdamW):
    """As in torch."""


@undecorated
class SparseAdam(torch.optim.SparseAdam):
    """As in torch: rows without a gradient stay where they are, moments included.

    It computes by rows, where torch adds sparse tensors to dense ones, which takes twice as long
    (`make bench-components`).
    """

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step of the rows that have gradients."""
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for table in group["params"]:
                if table.grad is None:
                    continue
                state = self.state[table]
                if not state:
                    state["step"] = torch.zeros(())
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(table), torch.zeros_like(table)
                state["step"] += 1
                steps = int(state["step"])
                rows, g = _rows_and_values(table.grad)
                mean = state["exp_avg"].index_select(0, rows).lerp_(g, 1 - beta1)
                square = state["exp_avg_sq"].index_select(0, rows).lerp_(g * g, 1 - beta2)
                state["exp_avg"].index_copy_(0, rows, mean)
                state["exp_avg_sq"].index_copy_(0, rows, square)
                rate = group["lr"] * math.sqrt(1 - beta2**steps) / (1 - beta1**steps)
                moved = mean.mul_(-rate).div_(square.sqrt_().add_(group["eps"]))
                table.index_copy_(0, rows, moved.add_(table.index_select(0, rows)))


def _rows_and_values(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Different rows and their gradients; they are already sorted if the table was used once."""
    rows = gradient._indices()[0]
    if bool((rows[1:] > rows[:-1]).all()):
        return rows, gradient._values()
    whole = gradient.coalesce()
    return whole.indices()[0], whole.values()


def make_optimizers(method: CrowdMethod, lr: float, weight_decay: float = 0.0) -> list[Optimizer]:
    r"""The optimisers of all that a method learns.

    Weights of networks decay, :math:`w \leftarrow w - \eta \lambda w` in every step. Biases, layers of noise and what
    is learned about annotators do not.
    """
    networks = method.trained_weights() if weight_decay else set()
    tables, decaying, others = list[Tensor](), list[Tensor](), list[Tensor]()
    for name, parameter in method.named_parameters():
        if parameter.requires_grad:
            decays = name in networks and parameter.dim() > 1
            (tables if is_lazy(parameter) else decaying if decays else others).append(parameter)
    groups = [{"params": others, "weight_decay": 0.0}, {"params": decaying, "weight_decay": weight_decay}]
    made: list[Optimizer] = [AdamW([group for group in groups if group["params"]], lr=lr, fused=True)]
    return [*made, SparseAdam(tables, lr=lr)] if tables else made


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimiser's state as named tensors: ``<parameter number>/<moment>``."""
    state = optimizer.state_dict()["state"]
    return {f"{k}/{name}": value for k, moments in state.items() for name, value in moments.items()}


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore :func:`optimizer_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        k, moment = name.split("/")
        state.setdefault(int(k), {})[moment] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
