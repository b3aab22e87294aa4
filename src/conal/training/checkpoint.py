"""Checkpoints without pickle, and warm starts from an earlier training."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from conal._files import atomic_file
from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.methods.base import CrowdMethod

# Warm starts: a training that goes on from what an earlier one has learned on fewer tasks and annotators.

OF_THE_DATA = "labels_per_annotator"
"""A tensor that says what the labels are, and not what was learned from them."""
KEPT = 0.5
"""How much of the weights of networks is kept."""


class WarmStart(NamedTuple):
    """What an earlier training has left.

    Attributes
    ----------
    state : mapping
        The tensors of the trained method. Tables with a row per annotator may be shorter than now.
    working : mapping
        Its :meth:`~conal.methods.base.CrowdMethod.working_state`.
    """

    state: Mapping[str, Tensor]
    working: Mapping[str, Tensor]

    @torch.no_grad()
    def load(self, method: CrowdMethod, annotations: Annotations) -> None:
        """Take over what was learned; rows of new annotators stay as they are at the start of any training.

        Weights of networks are taken half way, between where they were and where a training starts: networks that
        have learned few data by heart do not find what more data say (Ash and Adams 2020, On warm-starting neural
        network training).
        """
        weights = method.trained_weights()
        for name, tensor in method.state_dict().items():
            old = self.state.get(name)
            if old is None or name == OF_THE_DATA:
                continue
            part = tensor[tuple(slice(size) for size in old.shape)]
            part.copy_(torch.lerp(part, old, KEPT) if name in weights and old.is_floating_point() else old)
        method.load_previous(self.working, annotations)


# Checkpoints without pickle: all state that training needs to continue exactly where it stopped.
#
# One safetensors file contains the weights, the best weights so far, the optimiser's moments and the state of the
# random generators; its metadata contains the history, a fingerprint of the settings and data, so that a checkpoint is
# never continued with others, and a digest of all this, so that a damaged one is not continued at all.

MAX_OVERHEAD = 0.05
"""At most this share of the time goes into writing checkpoints."""


@dataclass
class State:
    """The content of a checkpoint: tensors by name, and plain values."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]

    def group(self, prefix: str) -> dict[str, Tensor]:
        """The tensors below a prefix, without it."""
        start = f"{prefix}/"
        return {name.removeprefix(start): tensor for name, tensor in self.tensors.items() if name.startswith(start)}


@dataclass
class Checkpoint:
    """A checkpoint file, written after epochs as often as :data:`MAX_OVERHEAD` allows.

    Parameters
    ----------
    path : Path
    fingerprint : dict
        Settings and data digests; a checkpoint with another fingerprint is refused.
    resume : bool
        Continue from the file if it is there.
    """

    path: Path
    fingerprint: dict[str, str] = field(default_factory=dict)
    resume: bool = False
    _next_write: float = 0.0

    def of_member(self, number: int) -> Checkpoint:
        """The checkpoint of an ensemble's member: the first has this file, others one beside it."""
        return Checkpoint(member_path(self.path, number), self.fingerprint, self.resume)

    def due(self) -> bool:
        """Whether enough time has passed since the last one."""
        return time.monotonic() >= self._next_write

    def write(self, state: State) -> None:
        """Write the file atomically."""
        began = time.monotonic()
        values = json.dumps({"fingerprint": self.fingerprint, **state.values})
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors.items()}
        with atomic_file(self.path) as temporary:
            try:
                save_file(tensors, temporary, metadata={"state": values, "sha256": _digest(tensors, values)})
            except SafetensorError as error:  # such as a full disk
                raise OSError(f"{self.path}: cannot be written: {error}") from error
        ended = time.monotonic()
        self._next_write = ended + (ended - began) / MAX_OVERHEAD

    def read(self) -> State | None:
        """The state to continue from; None if there is nothing to resume."""
        if not (self.resume and self.path.exists()):
            return None
        with self.usable():
            with safe_open(self.path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
                metadata = dict(file.metadata() or {})
            state = metadata.pop("state")
            if metadata != {"sha256": _digest(tensors, state)}:
                raise ValueError("it has changed since it was written")
            values = dict(json.loads(state))
            found = dict(values.pop("fingerprint", {}))
        self._check(found)
        return State(tensors, values)

    @contextmanager
    def usable(self) -> Iterator[None]:
        """Say what to do if what the file contains cannot be used."""
        try:
            yield
        except InputError:
            raise
        except (SafetensorError, LookupError, ValueError, TypeError, AttributeError, RuntimeError, OSError) as error:
            raise InputError(
                f"{self.path}: is not a usable checkpoint ({error}); start without --resume, which replaces it"
            ) from error

    def _check(self, found: dict[str, str]) -> None:
        changed = sorted(key for key in self.fingerprint | found if self.fingerprint.get(key) != found.get(key))
        if changed:
            raise InputError(
                f"{self.path}: was written with different {', '.join(changed)}; "
                "resume with the same settings and data, or start without --resume"
            )


def member_path(path: Path, number: int) -> Path:
    """Where the checkpoint of an ensemble's member is."""
    return path if number == 0 else path.with_name(f"{path.name}.{number + 1}")


def remove_checkpoints(path: Path) -> None:
    """Delete a checkpoint and those of an ensemble's other members."""
    number = 1
    while member_path(path, number).exists():
        number += 1
    for k in reversed(range(number)):  # the last one first: whatever stops this, the rest is found again
        member_path(path, k).unlink(missing_ok=True)


def _digest(tensors: Mapping[str, Tensor], values: str) -> str:
    """A digest of everything in a checkpoint; a flipped bit would otherwise give another model."""
    digest = hashlib.sha256(values.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """A NumPy generator's state as plain values."""
    return dict(rng.bit_generator.state)


def restore_generator(state: dict[str, Any]) -> np.random.Generator:
    """The generator in that state."""
    rng = np.random.default_rng()
    rng.bit_generator.state = state
    return rng
