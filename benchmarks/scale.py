"""How cost grows, up to a hundred million annotations: `make bench-scale`.

Annotators are fixed and annotations grow; every point is a fresh process on one thread. The exponent is the slope of
log CPU time over log annotations, by least squares: 1 is linear.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness import Row, clock, epoch_times, main, markdown, measure, store, take_turns

AGGREGATED = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
TRAINED = (30_000, 100_000, 300_000, 1_000_000, 3_000_000)
HUNDRED_MILLION = 100_000_000
R, C, PER_TASK = 1_000, 10, 5
FEATURES = 64


def crowd(n_annotations: int, per_task: int = PER_TASK) -> Any:
    """Annotations of annotators who are right 50 to 95 times in a hundred, made in pieces of a million tasks."""
    from conal import Annotations

    rng = np.random.default_rng(0)
    n_tasks = n_annotations // per_task
    skill = np.linspace(0.5, 0.95, R)
    annotators, labels = (np.empty(n_tasks * per_task, dtype=np.int32) for _ in range(2))
    for start in range(0, n_tasks, 1_000_000):
        n = min(1_000_000, n_tasks - start)
        piece = slice(start * per_task, (start + n) * per_task)
        truth = np.repeat(rng.integers(C, size=n), per_task)
        first, step = rng.integers(R, size=n), rng.integers(1, R // per_task, size=n)
        annotators[piece] = ((first[:, None] + step[:, None] * np.arange(per_task)) % R).reshape(-1)
        right = rng.random(n * per_task) < skill[annotators[piece]]
        labels[piece] = np.where(right, truth, rng.integers(C, size=n * per_task))
    tasks = np.repeat(np.arange(n_tasks, dtype=np.int32), per_task)
    return Annotations.from_triples(tasks, annotators, labels, classes=range(C))


def aggregate(n_annotations: int, n_iter: int = 20) -> Row:
    """Dawid-Skene on annotations that are read."""
    from conal.aggregation import DawidSkene

    warnings.simplefilter("ignore")
    DawidSkene(n_iter=2, tol=0, verbose=False).fit(crowd(50_000))  # imports and compilation
    ann = crowd(n_annotations)
    with clock() as row:
        DawidSkene(n_iter=n_iter, tol=0, verbose=False).fit(ann)
    return row


def majority(n_annotations: int) -> Row:
    """Majority vote."""
    from conal.aggregation import MajorityVote

    ann = crowd(n_annotations)
    with clock() as row:
        MajorityVote().fit(ann)
    return row


def write(n_annotations: int) -> Row:
    """A CSV file of so many rows with ids of text, those of a million tasks at a time in random order."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pv

    rng = np.random.default_rng(0)
    schema = pa.schema([("task", pa.string()), ("worker", pa.string()), ("label", pa.string())])
    piece = min(5_000_000, n_annotations)
    with (
        clock() as row,
        pv.CSVWriter(_file(), schema, write_options=pv.WriteOptions(quoting_style="none")) as writer,
    ):
        for start in range(0, n_annotations, piece):
            order = rng.permutation(piece)
            codes = (start + order) // PER_TASK, (order * 7919) % R, rng.integers(C, size=piece)
            names = [
                pc.binary_join_element_wise(prefix, pa.array(code).cast(pa.string()), "")
                for prefix, code in zip(("task_", "worker_", "class "), codes, strict=True)
            ]
            writer.write_table(pa.table(names, schema=schema))
    return row


def read(n_annotations: int) -> Row:
    """The same file to annotations."""
    from conal import Annotations

    with clock() as row:
        ann = Annotations.read(_file())
    assert ann.n_annotations == n_annotations
    return row


def _file() -> Path:
    return Path(os.environ["CONAL_BENCHMARK"]) / "labels.csv"


def train(n_annotations: int) -> Row:
    """An epoch of CoNAL, three labels per instance."""
    import conal

    warnings.simplefilter("ignore")
    ann = crowd(n_annotations, per_task=3)
    x = np.random.default_rng(1).standard_normal((ann.n_tasks, FEATURES), dtype=np.float32)
    times = epoch_times()
    epochs = 3 if n_annotations > 500_000 else 8
    with clock() as row:
        conal.CoNAL(epochs=epochs, selection="last", verbose=False).fit(x, ann)
    return row | {"cpu": min(times)}


def jobs() -> dict[str, Callable[[], Row]]:
    """All that can be measured."""
    made: dict[str, Callable[[], Row]] = {}
    for n in (*AGGREGATED, HUNDRED_MILLION):
        made[f"aggregation {n}"] = partial(aggregate, n)
        made[f"majority vote {n}"] = partial(majority, n)
        made[f"five iterations {n}"] = partial(aggregate, n, 5)
        made[f"writing {n}"] = partial(write, n)
        made[f"reading {n}"] = partial(read, n)
    return made | {f"training {n}": partial(train, n) for n in TRAINED}


def exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """Slope on log axes."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def run(arguments: argparse.Namespace) -> None:
    """Both curves and their exponents, or the hundred million."""
    if arguments.quick:
        print(measure(__file__, f"aggregation {AGGREGATED[0]}"))
        return
    found: dict[str, Any] = {}
    for kind, sizes in (("aggregation", AGGREGATED), ("training", TRAINED)):
        best = take_turns(__file__, [f"{kind} {n}" for n in sizes], arguments.repeats)
        seconds = [best[f"{kind} {n}"]["cpu"] for n in sizes]
        found[kind] = {"sizes": list(sizes), "rows": [best[f"{kind} {n}"] for n in sizes]}
        found[kind]["exponent"] = exponent(sizes, seconds)
        rows = [[f"{n:,}", f"{s:.3f}", f"{1e9 * s / n:.0f}"] for n, s in zip(sizes, seconds, strict=True)]
        print(f"{kind}: exponent {found[kind]['exponent']:.2f}")
        print(markdown(["annotations", "CPU seconds", "ns per annotation"], rows), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CONAL_BENCHMARK"] = folder
        for kind in ("majority vote", "five iterations", "writing", "reading"):
            row = measure(__file__, f"{kind} {HUNDRED_MILLION}")
            found[kind] = row
            assert row is not None
            print(f"100,000,000 annotations, {kind}: {row['wall']:.0f} s, {row['peak_mb'] / 1024:.1f} GB", flush=True)
    store("scale", found)


if __name__ == "__main__":
    if "torch" in sys.modules:
        sys.exit("harness must not load torch: memory of aggregation is measured")
    main(jobs(), run, __doc__)
