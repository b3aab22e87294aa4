"""Random numbers from a generator of one's own: torch's global one is shared by all threads of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_here = threading.local()
_lock = threading.Lock()
_found: list[list[Tensor]] = []
"""States of torch's global generators, as the fits in progress found them, the first one first."""

_INITIALISERS = (
    *("uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_"),
    *("kaiming_normal_", "orthogonal_", "sparse_"),
)
_METHODS = ("uniform_", "normal_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_", "geometric_")
_FUNCTIONS = ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial")
TAKING_A_GENERATOR: frozenset[Any] = frozenset(
    [getattr(nn.init, name) for name in _INITIALISERS]
    + [getattr(Tensor, name) for name in (*_METHODS, "bernoulli", "multinomial")]
    + [getattr(torch, name) for name in _FUNCTIONS]
)


def current_generator() -> torch.Generator | None:
    """The generator of this thread; None stands for torch's global one."""
    return getattr(_here, "generator", None)


@contextmanager
def drawing_from(generator: torch.Generator, *, torch_too: bool = False) -> Iterator[None]:
    """Draw from this generator in this thread: conal's dropout and, with ``torch_too``, torch's functions on the CPU.

    The latter are the initial weights of layers, permutations, and dropout in a user's network. What takes no
    generator, such as dropout between the layers of an LSTM, draws from torch's global one.

    >>> made = []
    >>> for _ in range(2):
    ...     with drawing_from(torch.Generator().manual_seed(0), torch_too=True):
    ...         made.append(nn.Linear(2, 3).weight)
    >>> torch.equal(*made)
    True
    """
    before = current_generator()
    _here.generator = generator
    try:
        if torch_too:
            with _FromGenerator(generator):
                yield
        else:
            yield
    finally:
        _here.generator = before


@contextmanager
def restored_global_state(devices: Sequence[torch.device] = ()) -> Iterator[None]:
    """Restore torch's global generators afterwards; of several threads that do so at once, the last one does it."""
    with _lock:
        _found.append([torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)])
    try:
        yield
    finally:
        with _lock:
            cpu, *others = _found[0]
            _found.pop()
            if not _found:
                torch.set_rng_state(cpu)
                for state, device in zip(others, devices, strict=True):
                    torch.cuda.set_rng_state(state, device)


class _FromGenerator(TorchFunctionMode):
    """Hands the generator to all functions that take one. Modes belong to a thread."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.dropout:
            return self._dropout(*args, **kwargs)
        if func in TAKING_A_GENERATOR and kwargs.get("generator") is None and _is_on_cpu(args, kwargs):
            kwargs = {**kwargs, "generator": self.generator}
        return func(*args, **kwargs)

    def _dropout(self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: A002 - torch's name
        if not training or not 0 < p < 1 or input.device.type != "cpu":
            return functional.dropout(input, p, training, inplace)
        kept = torch.bernoulli(input.detach(), 1 - p, generator=self.generator).div_(1 - p)
        return input.mul_(kept) if inplace else input * kept


def _is_on_cpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    given = next((each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)), None)
    device = kwargs.get("device") if given is None else given.device
    return torch.device("cpu" if device is None else device).type == "cpu"
