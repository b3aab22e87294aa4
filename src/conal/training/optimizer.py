"""Torch's AdamW for networks, and its SparseAdam for long tables of annotators, of which a batch uses few rows."""

from __future__ import annotations

import inspect
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
    """As in torch: rows without a gradient stay where they are, moments included."""


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
    return {f"{k}/{name}": torch.as_tensor(value) for k, moments in state.items() for name, value in moments.items()}


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore :func:`optimizer_tensors`; SparseAdam counts its steps by an integer."""
    state: dict[int, dict[str, Tensor | int]] = {}
    for name, tensor in tensors.items():
        k, moment = name.split("/")
        state.setdefault(int(k), {})[moment] = tensor if tensor.is_floating_point() else int(tensor)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
