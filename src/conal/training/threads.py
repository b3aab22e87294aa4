"""The number of threads for training."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

__all__ = ["SMALL_STEP", "threads_for"]

_lock = threading.Lock()
_before: list[int] = []
"""The number of threads that each fit in progress found, the first one first."""
SMALL_STEP = 200_000_000
"""Multiplications in the layers of a step below which one thread is as fast as several."""


@contextmanager
def threads_for(network: nn.Module, batch_size: int) -> Iterator[None]:
    """Train a small network by one thread.

    Steps of about ten milliseconds gain nothing from several threads, and if other programs use the processors too,
    threads that wait for each other make them several times as long. Networks that use a weight more than once per
    instance (convolutions, recurrent layers) keep torch's own number.

    >>> with threads_for(nn.Linear(20, 5), batch_size=256):
    ...     torch.get_num_threads()
    1
    """
    if _work(network) * batch_size >= SMALL_STEP:
        yield
        return
    with _lock:
        _before.append(torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:  # the number is that of the process, and sums depend on it: the last of several fits restores it
            if len(_before) == 1:
                torch.set_num_threads(_before[0])
                _before.clear()
            else:
                _before.pop()


def _work(network: nn.Module) -> float:
    """Multiplications per instance; infinite if the weights do not determine them."""
    layers = [module for module in network.modules() if next(module.parameters(recurse=False), None) is not None]
    if not all(isinstance(layer, nn.Linear | nn.BatchNorm1d) for layer in layers):
        return float("inf")
    return sum(layer.weight.numel() for layer in layers if isinstance(layer, nn.Linear))
