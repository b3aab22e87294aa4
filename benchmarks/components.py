"""Own code against the library: CPU time of parts of a training step, `make bench-components`.

conal has its own dropout, averaged weights and step of SparseAdam, because they are faster. Here they take turns with
PyTorch's, at the sizes of LabelMe: batches of 256 instances of 512 features and 128 hidden units; and a table of 20,000
annotators, 770 of them in a batch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from conal.networks.backbones import Dropout
from conal.networks.cross_fitting import WeightAverage
from conal.training.optimizer import SparseAdam
from harness import Row, main, markdown, store

Step = Callable[[], Any]
Pair = tuple[Step, Step]
"""Ours, and the library's."""


def through(function: Callable[[Tensor], Tensor], *shape: int) -> Step:
    """A forward and a backward pass."""
    x = torch.randn(*shape, requires_grad=True)
    return lambda: torch.autograd.grad(function(x).sum(), x)


def dropout() -> Pair:
    """Input features and hidden units."""
    ours, theirs = Dropout(0.5), nn.Dropout(0.5)
    return through(lambda x: ours(x), 256, 512), through(lambda x: theirs(x), 256, 512)


def adam_by_rows() -> Pair:
    """A table of matrices, of which a batch touches few."""
    rows, values = torch.arange(0, 20_000, 26), torch.randn(770, 8, 8)
    tables = [nn.Parameter(torch.randn(20_000, 8, 8)) for _ in range(2)]
    optimizers = SparseAdam([tables[0]], lr=0.01), torch.optim.SparseAdam([tables[1]], lr=0.01)

    def step(k: int) -> None:
        tables[k].grad = torch.sparse_coo_tensor(rows[None], values, tables[k].shape)
        optimizers[k].step()

    return partial(step, 0), partial(step, 1)


def averaged_weights() -> Pair:
    """Five networks of the paper's size."""
    networks = [nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 8)) for _ in range(5)]
    ours = WeightAverage(networks, 0.98)
    theirs = [AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(0.98)) for network in networks]

    def library() -> None:
        for average, network in zip(theirs, networks, strict=True):
            average.update_parameters(network)

    return ours.update, library


PARTS: dict[str, Callable[[], Pair]] = {
    "dropout, 256 x 512": dropout,
    "SparseAdam on 770 of 20,000 matrices": adam_by_rows,
    "averages of five networks": averaged_weights,
}


def measure(pair: Pair, repeats: int, calls: int) -> Row:
    """Microseconds of each, the fastest of several turns."""
    best = [float("inf")] * 2
    for _ in range(repeats):
        for k, step in enumerate(pair):
            began = time.process_time()
            for _ in range(calls):
                step()
            best[k] = min(best[k], (time.process_time() - began) / calls * 1e6)
    return {"conal": best[0], "PyTorch": best[1]}


def run(arguments: argparse.Namespace) -> None:
    """All parts on one thread."""
    torch.set_num_threads(1)
    torch.sparse.check_sparse_tensor_invariants.disable()  # the gradients are made here
    calls = 5 if arguments.quick else 300
    rows = {name: measure(make(), 2 if arguments.quick else 9, calls) for name, make in PARTS.items()}
    print(table(rows))
    if not arguments.quick:
        store("components", {"rows": rows})


def table(rows: dict[str, Row]) -> str:
    """A row per part."""
    cells = [
        [name, *(f"{row[k]:.0f}" for k in row), f"{row['PyTorch'] / row['conal']:.1f}"] for name, row in rows.items()
    ]
    return markdown(["part of a step", "conal, µs", "PyTorch, µs", "ratio"], cells)


if __name__ == "__main__":
    main({}, run, __doc__)
