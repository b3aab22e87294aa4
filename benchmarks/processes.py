"""Two processes on this machine: what they send each other, against the cost model, `make bench-processes`.

Bytes are read off the loopback interface (Linux), which carries all that gloo sends. Every case runs with few and with
many rounds, and the difference counts, so that starting and ending cost nothing. A round is an iteration of Dawid-Skene
or a step of training.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

from harness import THREADS, Row, main, markdown, store

W = 2
STEPS = 40
"""Batches of 256 among 10,000 instances."""
ROUNDS = {"dawid-skene": (5, 105), "training 59": (2, 12), "training 5000": (2, 12)}
TITLES = {
    "dawid-skene": "Dawid-Skene, 10⁶ labels, 1,000 annotators, 10 classes",
    "training 59": "training, 59 annotators",
    "training 5000": "training, 5,000 annotators",
}


def dawid_skene(n_iter: int) -> Row:
    """So many iterations, shared if there are several processes; the model's bytes per iteration of all of them."""
    from aggregation import LARGE, simulated
    from conal.aggregation import DawidSkene
    from conal.data.annotations import Annotations
    from conal.distributed import fit_shared, is_shared

    crowd = Annotations.of(simulated(**LARGE))
    model = DawidSkene(n_iter=n_iter, tol=0, accelerate=False, verbose=False)
    began = time.perf_counter()
    if is_shared():
        fit_shared(model, crowd)
    else:
        model.fit(crowd)
    R, C = crowd.n_annotators, crowd.n_classes
    return {"seconds": time.perf_counter() - began, "model": 2 * (W - 1) * 8 * (R * C * C + C + 1)}


def training(n_annotators: int, epochs: int) -> Row:
    """So many epochs of CoNAL; the model's bytes per step of all processes."""
    import numpy as np

    import conal
    from training import BATCH, crowd

    x, _, tasks, annotators, labels = crowd(n_annotators)
    ann = conal.Annotations.from_triples(tasks, annotators, labels)
    clf = conal.CoNAL(
        epochs=epochs, selection="last", batch_size=BATCH, verbose=False, max_restarts=0, devices=_world()
    )
    began = time.perf_counter()
    clf.fit(x, ann)
    seconds = time.perf_counter() - began
    sizes = {name: tuple(value.shape) for name, value in clf.model_.named_parameters()}
    per_annotator = (ann.n_annotators,) if ann.n_annotators > 1000 else ()
    long = {name: shape for name, shape in sizes.items() if per_annotator and shape[:1] == per_annotator}
    dense = sum(int(np.prod(shape)) for name, shape in sizes.items() if name not in long)
    row_size = sum(int(np.prod(shape[1:])) for shape in long.values())
    in_batch = np.mean([len(np.unique(annotators[tasks % STEPS == k])) for k in range(STEPS)]) if long else 0
    rows = (W - 1) * in_batch * (4 * row_size + 8 * len(long))  # with the number of each row, in every table
    return {"seconds": seconds, "model": 2 * (W - 1) * 4 * dense + rows}


def _world() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def one(case: str, rounds: int) -> Row:
    """This process's share of a case."""
    warnings.simplefilter("ignore")
    kind, _, size = case.partition(" ")
    row = dawid_skene(rounds) if kind == "dawid-skene" else training(int(size), rounds)
    return row if os.environ.get("RANK", "0") == "0" else {}


def launch(case: str, rounds: int, world: int) -> Row:
    """The case by so many processes; bytes are those on the loopback interface meanwhile."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)] if world > 1 else []
    before = loopback_bytes()
    done = subprocess.run(
        [sys.executable, *torchrun, __file__, "--job", f"{case}|{rounds}"],
        env={**os.environ, **THREADS},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"error: {case} failed:\n{done.stderr[-3000:]}")
    row: Row = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"seconds"')))
    return {**row, "bytes": loopback_bytes() - before}


def loopback_bytes() -> int:
    """Sent over the loopback interface since the machine started."""
    lines = Path("/proc/net/dev").read_text(encoding="utf-8").splitlines()
    return next(int(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith("lo:"))


def compared(case: str) -> Row:
    """Per round: time by one and by two processes, bytes as measured and by the model."""
    few, many = ROUNDS[case]
    rounds = (many - few) * (1 if case == "dawid-skene" else STEPS)
    row: Row = {"case": case, "title": TITLES[case]}
    for world in (1, W):
        ends = [launch(case, count, world) for count in (few, many)]
        row[f"ms {world}"] = 1000 * (ends[1]["seconds"] - ends[0]["seconds"]) / rounds
        row["bytes"] = (ends[1]["bytes"] - ends[0]["bytes"]) / rounds
    row["model"] = ends[1]["model"]
    print(f"{case}: {row['bytes']:,.0f} bytes per round, by the model {row['model']:,.0f}", flush=True)
    return row


def table(rows: list[Row]) -> str:
    """What was measured beside what the model says."""
    header = ["per round, all processes", "bytes by the model", "bytes measured", "1 process", "2 processes"]
    body = [
        [
            row["title"],
            f"{row['model']:,.0f}",
            f"{row['bytes']:,.0f}",
            f"{row['ms 1']:.1f} ms",
            f"{row['ms 2']:.1f} ms",
        ]
        for row in rows
    ]
    return markdown(header, body)


class Cases(dict[str, partial[Row]]):
    """A job for every case and number of rounds."""

    def __missing__(self, key: str) -> partial[Row]:
        case, _, rounds = key.partition("|")
        return partial(one, case, int(rounds))


def run(arguments: argparse.Namespace) -> None:
    """Every case, by one process and by two."""
    rows = [compared(case) for case in (["dawid-skene"] if arguments.quick else ROUNDS)]
    print(table(rows))
    if not arguments.quick:
        store("processes", {"rows": rows})


if __name__ == "__main__":
    main(Cases(), run, __doc__)
