"""One process of the campaign: everything is imported once, and forked for every attack."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

from torture import folders, fuzz, names, signals
from torture.children import Command, fork, wait
from torture.commands import scenarios
from torture.tally import Tally

__all__ = ["PARTS", "SHARES", "prepare", "run_part"]

Part = Callable[[Path, int, float, Tally], None]
PARTS: dict[str, Part] = {
    "signals": signals.torture,
    "fuzz": fuzz.torture,
    "names": names.torture,
    "folders": folders.torture,
}
SHARES = {"signals": 0.1, "fuzz": 0.36, "names": 0.27, "folders": 0.27}
"""How the time is divided."""


def prepare() -> None:
    """Load what children would each load again; one thread, because threads do not survive a fork."""
    import pyarrow as pa
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    for module in ("pandas", "polars", "pyarrow.csv", "pyarrow.json", "pyarrow.parquet", "sklearn.utils"):
        importlib.import_module(module)
    for module in ("cli.app", "estimator", "report", "findings.inspection", "io.importing"):
        importlib.import_module(f"conal.{module}")


def preload(folder: Path) -> None:
    """Import what the commands import: each runs once in a child, which lists its modules."""
    from torture.commands import STREAMS, make_stock

    make_stock(folder / "stock")
    stock = make_stock(folder / "preload")  # a copy, which the commands may change
    found = folder / "modules"
    # Exports are slow because of what they import.
    quick = [scenario for scenario in scenarios() if not scenario.slow or scenario.command == "export"]
    chosen = {scenario.command: scenario for scenario in quick[::-1]}
    for scenario in chosen.values():
        command = Command(scenario.arguments, stock, stock / STREAMS)
        wait(fork(partial(_list_modules, command, found)), 120)
    for name in found.read_text(encoding="utf-8").split() if found.exists() else ():
        if name not in sys.modules:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _import(name)
    gc.collect()
    gc.freeze()  # children do not copy what they do not change


def _import(name: str) -> None:
    with contextlib.suppress(Exception):  # it is only a matter of speed
        importlib.import_module(name)


def _list_modules(command: Command, found: Path) -> int:
    from torture.children import _main

    code = _main(command)
    with found.open("a", encoding="utf-8") as file:
        file.write("\n".join(name for name in list(sys.modules) if "__main__" not in name) + "\n")
    return code


def run_part(name: str, folder: Path, seed: int, seconds: float, tally: Tally) -> None:
    """One part in a folder of its own."""
    place = folder / name
    place.mkdir()
    os.chdir(place)
    PARTS[name](place, seed, seconds, tally)
