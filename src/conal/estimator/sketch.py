"""What a configuration describes, compared with the weights that are there, before the model is built.

A model folder can come from anywhere. Its configuration says how large the networks are, and building them would
allocate whatever it says. So they are sketched first: small ones as they are, and large ones on torch's "meta" device,
on which networks have shapes but no memory (its first use takes two seconds, which most models need not wait for).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from conal import methods
from conal.errors import ModelFolderError, examples
from conal.estimator.preparation import build_members
from conal.methods import CrowdMethod, Problem
from conal.methods.ensemble import Ensemble
from conal.networks import build_backbone
from conal.networks.draws import drawing_from
from conal.parameters.constraints import is_whole

if TYPE_CHECKING:
    from conal.estimator.base import CrowdClassifier

__all__ = ["SCALER", "check_shapes", "checked_instance_shape", "scaled"]

SCALER = ("shift", "factor", "limit", "root")
"""Tensors of a scaler. The first two have a value for every feature, or one for all."""
MAX_FEATURES = 2**31
"""Numbers in one instance."""
SMALL = 2**26
"""Numbers in a tensor that may be allocated to see whether it fits: 256 MB."""
Shapes = Mapping[str, tuple[int, ...]]


def checked_instance_shape(shape: Any, where: str) -> tuple[int, ...]:
    """The shape of an instance, if it can be one."""
    whole = isinstance(shape, list) and len(shape) <= 8 and all(is_whole(size) and size >= 1 for size in shape)
    if not whole or prod(shape) > MAX_FEATURES:
        raise ModelFolderError(f"{where}: instance_shape is {examples([shape])}, which no instance has; fit again")
    return tuple(shape)


def check_shapes(made: CrowdClassifier, problem: Problem, shapes: Shapes, where: str) -> None:
    """Reject weights that are not those of the networks that an estimator's parameters describe.

    Parameters
    ----------
    problem : Problem
        The sizes; its tensors are on the meta device.
    shapes : mapping
        Name to shape of all tensors of the model, from the header of the file.
    """
    wanted = {
        name: tuple(tensor.shape)
        for name, tensor in _sketch(made, problem, shapes, where).state_dict().items()
        if not _is_of_scaler(name)
    }
    wanted |= {name: _scaler_shape(name, shape, problem.shape) for name, shape in shapes.items() if _is_of_scaler(name)}
    wanted["labels_per_annotator"] = (problem.n_annotators,)
    different = [name for name in wanted.keys() | shapes.keys() if wanted.get(name) != shapes.get(name)]
    if different:
        name = min(different)
        raise ModelFolderError(
            f"{where}: does not match this version of {made.method!r}: the tensor {name!r} has shape "
            f"{shapes.get(name, 'missing')}, its configuration describes {wanted.get(name, 'none')}; fit again"
        )


def scaled(method: CrowdMethod) -> list[tuple[CrowdMethod, str]]:
    """The parts of the method that have a scaler, and the prefixes of their tensors."""
    if isinstance(method, Ensemble):
        each = ((member, f"members.{k}.scaler.") for k, member in enumerate(method.each))
        return [(method, "scaler."), *each]
    return [(method, "scaler.")]


def _sketch(made: CrowdClassifier, problem: Problem, shapes: Shapes, where: str) -> CrowdMethod:
    """The method, of which only the shapes are right."""
    sketch = copy.copy(made)
    is_small = _largest(made, problem) <= SMALL
    if not is_small and not isinstance(made.backbone, str):  # the user's own, and real: only its shapes are needed
        sketch.backbone = build_backbone(made.backbone, problem.shape, problem.n_classes).to("meta")
    if is_small:
        real = [
            None if tensor is None else torch.zeros(tensor.shape)
            for tensor in (problem.labels_per_annotator, problem.annotator_features)
        ]
        problem = problem._replace(labels_per_annotator=real[0], annotator_features=real[1])  # type: ignore[arg-type]
    with (
        drawing_from(torch.Generator(), torch_too=True),
        torch.device("cpu" if is_small else "meta"),
        _at_most(100 + 10 * len(shapes), 2 * sum(map(prod, shapes.values())) + SMALL, where),
    ):
        return build_members(sketch, methods.get(made.method), problem)


def _largest(made: CrowdClassifier, problem: Problem) -> int:
    """At least as many numbers as any tensor has: none has more than three of these sizes."""
    own = (getattr(made, name) for name in methods.get(made.method).declared)
    numbers = [int(value) for value in (*made.hidden, *own) if is_whole(value)]
    sizes: list[int] = sorted(
        [*numbers, prod(problem.shape), problem.n_classes, problem.n_classes, problem.n_annotators]
    )
    if isinstance(made.backbone, str) and made.backbone not in ("mlp", "linear"):
        return prod(sizes[-3:]) + SMALL // 2  # its own sizes, whatever the configuration says
    return prod(sizes[-3:])


def _is_of_scaler(name: str) -> bool:
    return name.startswith("scaler.") or (name.startswith("members.") and name.split(".")[2:3] == ["scaler"])


def _scaler_shape(name: str, found: tuple[int, ...], instance: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that a scaler's tensor must have, which is the one found where several are possible."""
    per_feature = name.endswith((".shift", ".factor")) and len(found) <= len(instance)
    fits = all(size in (1, wanted) for size, wanted in zip(reversed(found), reversed(instance), strict=False))
    return found if per_feature and fits else ()


@contextmanager
def _at_most(count: int, size: int, where: str) -> Iterator[None]:
    """Stop when more parts or weights are made than there can be: a number may stand for a million networks."""
    made, thread = [0, 0], get_ident()

    def enter(module: nn.Module, name: str, part: nn.Module | Tensor | None) -> None:
        if get_ident() == thread:
            made[0] += 1
            made[1] += part.numel() if isinstance(part, Tensor) else 0
            if made[0] > count or made[1] > size:
                raise ModelFolderError(
                    f"{where}: does not match its weights: it describes more networks than there are weights for; "
                    "fit again"
                )

    hooks = [register_module_module_registration_hook(enter), register_module_parameter_registration_hook(enter)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
