"""Texts: `conal fit --text` on a thousand texts of 60 words with 5 labels each, `make bench-texts`.

Every run is the whole command in a fresh process on one thread: files in, model folder and report out.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from harness import THREADS, Row, main, markdown, store

WORDS, CLASSES, ANNOTATORS, LABELS, LENGTH = 6_000, 4, 20, 5, 60
SIZES = (1_000, 4_000)


def write_files(folder: Path, n: int) -> tuple[Path, Path]:
    """Texts of made-up words, whose frequencies depend on the class, and labels that are right seven times in ten."""
    rng = np.random.default_rng(0)
    letters = list("abcdefghijklmnop")
    lexicon = np.array(["".join(rng.choice(letters, size=rng.integers(2, 9))) for _ in range(WORDS)])
    shares = rng.dirichlet(np.full(WORDS, 0.05), size=CLASSES)
    truth = rng.integers(CLASSES, size=n)
    texts = [(k, " ".join(rng.choice(lexicon, size=LENGTH, p=shares[c]))) for k, c in enumerate(truth)]
    rows = [
        (k, int(worker), f"class{c if rng.random() < 0.7 else rng.integers(CLASSES)}")
        for k, c in enumerate(truth)
        for worker in rng.choice(ANNOTATORS, size=LABELS, replace=False)
    ]
    return _table(folder / "texts.csv", ("task", "text"), texts), _table(
        folder / "labels.csv", ("task", "worker", "label"), rows
    )


def _table(path: Path, header: tuple[str, ...], rows: list[tuple[int, str]] | list[tuple[int, int, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def fit(n: int) -> Row:
    """CPU and wall time of the whole command."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        texts, labels = write_files(folder, n)
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "conal",
            "fit",
            labels,
            "--text",
            texts,
            "--out",
            folder / "model",
            "--quiet",
        ]
        began, before = time.perf_counter(), os.times()
        subprocess.run(command, env=os.environ | THREADS, check=True)
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return {"cpu": cpu, "wall": time.perf_counter() - began}


def run(arguments: argparse.Namespace) -> None:
    """The best of several runs for every size."""
    sizes = (100,) if arguments.quick else SIZES
    best = {n: min((fit(n) for _ in range(arguments.repeats)), key=lambda row: row["cpu"]) for n in sizes}
    rows = [[f"{n:,}", f"{row['cpu']:.1f}", f"{row['wall']:.1f}"] for n, row in best.items()]
    print(markdown(["texts", "CPU s", "wall s"], rows))
    if not arguments.quick:
        store("texts", {"rows": [{"n": n, **row} for n, row in best.items()]})


if __name__ == "__main__":
    main({}, run, __doc__)
