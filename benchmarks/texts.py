"""Texts: `conal fit --text` on texts of 60 words with 3 labels each, `make bench-texts`.

Every run is the whole command in a fresh process on one thread: files in, model folder and report out. The model then
predicts 2,000 other texts. `--beside DIR` measures another version too, in turn with this one: DIR is the folder `src`
of its source. `--sizes 1000,20000` chooses the numbers of texts.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness import THREADS, Row, main, markdown, store

WORDS, CLASSES, ANNOTATORS, LABELS, LENGTH, N_TEST = 6_000, 4, 20, 3, 60, 2_000
KNOWN = 0.7
RIGHT = KNOWN + (1 - KNOWN) / CLASSES
"""How many labels are known, and how many are right: the others are guessed."""
SIZES = (1_000, 20_000)
OWN, OTHER = "this version", "the other version"
NAMES = ("labels.csv", "texts.csv", "test.csv", "truth.csv")


def write_files(folder: Path, n: int) -> None:
    """Texts of made-up words, of which every class prefers some, and labels of which some are guessed."""
    rng = np.random.default_rng(0)
    letters = list("abcdefghijklmnop")
    lexicon = np.array(["".join(rng.choice(letters, size=rng.integers(2, 9))) for _ in range(WORDS)])
    common = rng.dirichlet(np.full(WORDS, 0.3))
    shares = 0.85 * common + 0.15 * rng.dirichlet(np.full(WORDS, 0.05), size=CLASSES)
    truth = rng.integers(CLASSES, size=n + N_TEST)
    texts = [(k, " ".join(rng.choice(lexicon, size=LENGTH, p=shares[c]))) for k, c in enumerate(truth)]
    labels = [
        (k, int(worker), f"class{c if rng.random() < KNOWN else rng.integers(CLASSES)}")
        for k, c in enumerate(truth[:n])
        for worker in rng.choice(ANNOTATORS, size=LABELS, replace=False)
    ]
    true = [(k, f"class{c}") for k, c in enumerate(truth)]
    headers = ("task", "worker", "label"), ("task", "text"), ("task", "text"), ("task", "label")
    tables: list[list[Any]] = [labels, texts[:n], texts[n:], true]
    for name, header, rows in zip(NAMES, headers, tables, strict=True):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])


def fit(folder: Path, source: str | None) -> Row:
    """CPU and wall time of the whole command, and how many of its labels and predictions are right."""
    labels, texts, test, truth = (folder / name for name in NAMES)
    with tempfile.TemporaryDirectory() as place:
        model, predicted = Path(place) / "model", Path(place) / "predicted.csv"
        began, before = time.perf_counter(), os.times()
        _conal(source, "fit", labels, "--text", texts, "--out", model)
        after, wall = os.times(), time.perf_counter() - began
        _conal(source, "predict", model, test, "--out", predicted)
        true = dict(_pairs(truth))
        right = {
            name: np.mean([true[task] == label for task, label in _pairs(path)])
            for name, path in (("labels", model / "labels.csv"), ("accuracy", predicted))
        }
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"cpu": cpu, "wall": wall} | {name: float(share) for name, share in right.items()}


def _conal(source: str | None, *arguments: Any) -> None:
    path = {} if source is None else {"PYTHONPATH": source}
    command = [sys.executable, "-m", "conal", *map(str, arguments), "--quiet"]
    subprocess.run(command, env=os.environ | THREADS | path, check=True)


def _pairs(path: Path) -> list[tuple[str, str]]:
    """Task and label of every row."""
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["task"], row["label"]) for row in csv.DictReader(file)]


def run(arguments: argparse.Namespace) -> None:
    """The best of several runs for every size, and for every version in turn."""
    sizes = (100,) if arguments.quick else tuple(int(size) for size in arguments.sizes.split(","))
    sources = {OWN: None} | ({OTHER: arguments.beside} if arguments.beside else {})
    rows: list[Row] = []
    for n in sizes:
        with tempfile.TemporaryDirectory() as place:
            write_files(Path(place), n)
            found: dict[str, list[Row]] = {name: [] for name in sources}
            for _ in range(1 if arguments.quick else arguments.repeats):
                for name, source in sources.items():
                    found[name].append(fit(Path(place), source))
        rows += [{"n": n, "version": name} | min(each, key=lambda row: row["cpu"]) for name, each in found.items()]
        print(table(rows), flush=True)
    if not arguments.quick and not arguments.beside:
        store("texts", {"rows": rows})


def table(rows: Sequence[Row]) -> str:
    """Times, and shares of right labels and predictions, for every number of texts."""
    several = len({row["version"] for row in rows}) > 1
    body = [
        [
            f"{row['n']:,}" + (f", {row['version']}" if several else ""),
            f"{row['cpu']:.1f}",
            f"{row['wall']:.1f}",
            f"{100 * row['labels']:.1f}",
            f"{100 * row['accuracy']:.1f}",
        ]
        for row in rows
    ]
    return markdown(["texts", "CPU s", "wall s", "right labels (%)", "right on other texts (%)"], body)


def options(parser: argparse.ArgumentParser) -> None:
    """`--sizes` and `--beside`."""
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of texts, separated by commas")
    parser.add_argument("--beside", metavar="DIR", help="the folder src of another version, measured in turn")


if __name__ == "__main__":
    main({}, run, __doc__, options)
