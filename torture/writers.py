"""Four writers at one place: the result is that of one of them, whole, and nothing else is left."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

from torture.children import Command, Ended, run, run_together
from torture.commands import SIMULATE, STREAMS, Snapshot, listing, make_stock, snapshot
from torture.tally import Tally

__all__ = ["replay", "torture"]

WRITERS = 4
FIT = "fit labels.csv --features features.npy --epochs 2 --out model --no-report --quiet"
RIVALS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "fit": (FIT, "--seed {}", ("model",)),
    "aggregate": (
        "aggregate labels.csv --out clean.csv --annotators workers.parquet --confusion confusion.jsonl --quiet",
        "--method glad --set n_iter=1{}",
        ("clean.csv", "workers.parquet", "confusion.jsonl"),
    ),
    "simulate": (f"{SIMULATE} --out crowd", "--seed {}", ("crowd",)),
    "predict": ("predict stock-model features.npy --out p.parquet --quiet", "", ("p.parquet",)),
    "reproduce": ("reproduce torture --out results --quiet", "", ("results",)),
}
"""Name to the command, what differs between writers, and the outputs."""
OVERWRITES = ("fit", "aggregate", "simulate", "predict")


def torture(folder: Path, seed: int, seconds: float, tally: Tally) -> None:
    """Let four processes write to one place until the time is over."""
    rng, deadline = random.Random(seed), time.monotonic() + seconds
    stock = make_stock(folder / "stock")
    known: dict[str, list[Snapshot]] = {}
    while time.monotonic() < deadline:
        name = rng.choice(list(RIVALS))
        replaces = name in OVERWRITES and rng.random() < 0.7
        if name not in known:
            known[name] = _alone(name, stock, folder / "alone")
        problem = compete(name, replaces, known[name], stock, folder / "work")
        tally.count("rival writers", "failed" if problem else "whole")
        if problem is not None:
            tally.fail(f"writers: {name}: {problem}", {"part": "writers", "command": name, "replaces": replaces})


def replay(case: dict[str, Any], folder: Path) -> str | None:
    """What is wrong with one competition; None if nothing is."""
    stock, name = make_stock(folder / "stock"), case["command"]
    return compete(name, case["replaces"], _alone(name, stock, folder / "alone"), stock, folder / "work")


def _line(name: str, number: int) -> tuple[str, ...]:
    line, differs, _ = RIVALS[name]
    return (*line.split(), *differs.format(number).split())


def _alone(name: str, stock: Path, place: Path) -> list[Snapshot]:
    """The result of each writer, had it been alone."""
    found = []
    for number in range(WRITERS):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(stock, place)
        ended = run(Command(_line(name, number), place, place / STREAMS))
        if ended.code:
            raise RuntimeError(f"{name}: ends with {ended.code}: {ended.err}")
        found.append(snapshot(place, RIVALS[name][2]))
    return found


def compete(name: str, replaces: bool, alone: list[Snapshot], stock: Path, place: Path) -> str | None:
    """Start all writers at once; what is wrong with the result, if anything."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(stock, place)
    more = ("--overwrite",) if replaces else ()
    ended = run_together([_command(place, (*_line(name, number), *more), number) for number in range(WRITERS)])
    problem = _wrong_end(ended)
    if problem is not None:
        return problem
    if snapshot(place, RIVALS[name][2]) not in alone:
        return "the result is not that of one writer"
    if name == "fit" and not _loads(place / "model"):
        return "the model folder does not load"
    outputs = RIVALS[name][2]
    stray = [found for found in listing(place) if found not in listing(stock) and Path(found).parts[0] not in outputs]
    return f"stray files: {len(stray)}" if stray else None


def _wrong_end(ended: list[Ended]) -> str | None:
    for each in ended:
        if each.has_traceback or each.code not in (0, 1, 2):
            return f"a writer ends with {each.code}: {each.err.strip().splitlines()[-1:]}"
    if all(each.code for each in ended):
        return f"no writer succeeds: {ended[0].err.strip().splitlines()[-1:]}"
    return None


def _command(place: Path, arguments: tuple[str, ...], number: int) -> Command:
    streams = place / STREAMS / str(number)
    streams.mkdir()
    return Command(arguments, place, streams)


def _loads(folder: Path) -> bool:
    from functools import partial

    from torture.children import fork, wait
    from torture.commands import _load

    return wait(fork(partial(_load, folder)), 60) == 0
