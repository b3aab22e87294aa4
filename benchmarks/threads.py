"""One thread or all cores: wall time of an epoch for networks and batches of several sizes, `make bench-threads`.

4,096 instances of 384 features, 5 classes. Epochs by one thread and by one thread per core take turns, and the fastest
of each counts. *Multiplications* are the weights of one network times the instances of a batch: threads share the work
of one product, and the networks of `xconal` have products of their own. From `conal.training.loop.SMALL_STEP` on,
training uses several threads. The machine must have nothing else to do.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

import conal
from harness import Row, main, markdown, store

N, D, C, R, EPOCHS = 4_096, 384, 5, 20, 2
SIZES = ((128, 256), (128, 1024), (512, 256), (512, 1024), (1024, 256), (1024, 1024), (2048, 1024))
METHODS = ("gold", "xconal")


def epoch_walls(method: str, hidden: int, batch: int, threads: int) -> list[float]:
    """Wall times of some epochs by a number of threads."""
    rng = np.random.default_rng(0)
    z = rng.integers(C, size=N)
    x = rng.normal(size=(N, D)).astype(np.float32)
    crowd = conal.Annotations.from_triples(np.arange(N).repeat(3), rng.integers(R, size=3 * N), z.repeat(3))
    model = conal.make(method, hidden=(hidden,), batch_size=batch, epochs=EPOCHS, selection="last", verbose=False)
    with _always(threads), _epochs() as walls:
        model.fit(x, z if method == "gold" else crowd)
    return walls


@contextmanager
def _always(threads: int) -> Iterator[None]:
    """Whatever the rule says, this number of threads."""
    from conal.training import loop

    rule, before = vars(loop)["threads_for"], torch.get_num_threads()

    @contextmanager
    def stated(*_: object) -> Iterator[None]:
        torch.set_num_threads(threads)
        yield

    vars(loop)["threads_for"] = stated
    try:
        yield
    finally:
        vars(loop)["threads_for"] = rule
        torch.set_num_threads(before)


@contextmanager
def _epochs() -> Iterator[list[float]]:
    from conal.training.loop import _Trainer

    walls: list[float] = []
    whole = _Trainer.run_epoch

    def run_epoch(self: _Trainer) -> None:
        began = time.perf_counter()
        whole(self)
        walls.append(time.perf_counter() - began)

    _Trainer.run_epoch = run_epoch  # type: ignore[method-assign]
    try:
        yield walls
    finally:
        _Trainer.run_epoch = whole  # type: ignore[method-assign]


def run(arguments: argparse.Namespace) -> None:
    """Every size by one thread and by all, in turn."""
    warnings.simplefilter("ignore")
    cores = len(os.sched_getaffinity(0))
    rows: list[Row] = []
    for method in METHODS:
        for hidden, batch in SIZES[:1] if arguments.quick else SIZES:
            walls: dict[int, list[float]] = {1: [], cores: []}
            for _ in range(1 if arguments.quick else arguments.repeats):
                for threads, found in walls.items():
                    found += epoch_walls(method, hidden, batch, threads)
            work = hidden * (D + C) * batch
            rows.append({"method": method, "hidden": hidden, "batch": batch, "multiplications": work})
            rows[-1] |= {"one": min(walls[1]), "all": min(walls[cores]), "cores": cores}
            print(table(rows[-1:]), flush=True)
    if not arguments.quick:
        print(table(rows))
        store("threads", {"rows": rows})


def table(rows: list[Row]) -> str:
    """Wall times of an epoch, from small steps to large ones."""
    body = [
        [
            f"{row['method']}, {row['hidden']:,} units, batches of {row['batch']:,}",
            f"{row['multiplications'] / 1e6:,.0f}",
            f"{1000 * row['one']:.0f}",
            f"{1000 * row['all']:.0f}",
            f"{row['all'] / row['one']:.2f}",
        ]
        for row in sorted(rows, key=lambda row: float(row["multiplications"]))
    ]
    cores = rows[0]["cores"]
    return markdown(["", "million multiplications per step", "1 thread, ms", f"{cores} threads, ms", "ratio"], body)


if __name__ == "__main__":
    main({}, run, __doc__)
