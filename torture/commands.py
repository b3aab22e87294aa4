"""Every command, small enough to run in a fraction of a second, and what a whole result of it looks like."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torture.children import Command, Ended, fork, run, wait

__all__ = ["Scenario", "Stage", "commands_covered", "listing", "make_stock", "scenarios", "snapshot"]

STREAMS = "streams"
"""Where the output of a command goes: it can meet a fault too."""
TIMED = ("history.csv", "metrics.json", "config.json", "report.json", "report.html")
NOISY = ("private.json", "private_common_confusion.csv", "private_class_shares.csv", "private_group_confusion.csv")
VOLATILE = (*TIMED, *NOISY)
"""Files with times or noise in them, so that no two runs write the same."""
SIMULATE = "simulate --n-train 24 --n-valid 4 --n-test 4 --n-classes 3 --n-annotators 4 --quiet"
UPDATE_CROWD = "update stock-crowd other.csv --quiet"
UPDATE_MODEL = "update kept-model other.csv --features features.npy --no-report --quiet"
SAVE = "aggregate labels.csv --out clean.csv --save saved --quiet"
PLANNED = "aggregate labels.csv --out clean.csv --plan plan.csv --budget 5 --quiet"
TABLES = ("clean.csv", "workers.parquet", "confusion.jsonl")

MODELS = ("model", "stock-model", "kept-model", "stock-crowd", "saved")
"""Outputs that can be loaded."""
CROWDS = ("stock-crowd", "saved")
"""Those of them that are folders of aggregators."""
Snapshot = dict[str, str]
_MADE: list[Path] = []


@dataclass(frozen=True)
class Scenario:
    """A command with its inputs and outputs.

    Attributes
    ----------
    outputs : tuple of str
        Files and folders that it writes.
    before : tuple of str, optional
        Arguments that wrote an older result, which is to be replaced.
    slow : bool
        Leave it out of what is run often.
    """

    name: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    before: tuple[str, ...] | None = None
    slow: bool = False

    @property
    def command(self) -> str:
        return self.arguments[0]


def _both(name: str, line: str, *outputs: str, other: str = "", slow: bool = False) -> list[Scenario]:
    """The command where nothing is, and over an older result: of other inputs, or with ``other`` options."""
    words = tuple(line.split())
    older = tuple({"labels.csv": "other.csv", "features.npy": "other.npy"}.get(word, word) for word in words)
    before = (*words, *other.split()) if other else older
    return [
        Scenario(f"{name} new", words, outputs, slow=slow),
        Scenario(f"{name} overwrite", (*words, "--overwrite"), outputs, before, slow),
    ]


def _one(line: str, *outputs: str, slow: bool = False) -> Scenario:
    return Scenario(line.split()[0], tuple(line.split()), outputs, slow=slow)


def scenarios() -> list[Scenario]:
    """Every command of the installed version."""
    tables = "--out clean.csv --annotators workers.parquet --confusion confusion.jsonl"
    fit = "fit labels.csv --features features.npy --epochs 2 --out model --quiet"
    predict = "predict stock-model features.npy --quiet --out"
    convert = "convert labels.csv --quiet --to"
    export = "export stock-model --quiet --out"
    found = [
        *_both("fit", f"{fit} --no-report", "model", other="--seed 7"),
        *_both("fit report", fit, "model", other="--seed 7"),
        *_both("fit ensemble", f"{fit} --no-report --set ensemble=2", "model", other="--seed 7"),
        *_both("aggregate", f"aggregate labels.csv {tables} --quiet", *TABLES),
        *_both("aggregate private", "aggregate labels.csv --private 1 --true-labels gold.csv --out rel --quiet", "rel"),
        *_both("aggregate save", SAVE, "clean.csv", "saved"),
        *_both("aggregate report", "aggregate labels.csv --out clean.csv --report page --quiet", "clean.csv", "page"),
        *_both("aggregate plan", PLANNED, "clean.csv", "plan.csv"),
        *_both("convert csv", f"{convert} csv --out out.csv", "out.csv"),
        *_both("convert parquet", f"{convert} parquet --out out.parquet", "out.parquet"),
        *_both("convert label-studio", f"{convert} label-studio --out out.json", "out.json"),
        *_both("predict csv", f"{predict} p.csv", "p.csv"),
        *_both("predict jsonl", f"{predict} p.jsonl", "p.jsonl"),
        *_both("simulate", f"{SIMULATE} --out crowd", "crowd", other="--seed 7"),
        *_both("report elsewhere", "report stock-model --out page.html --quiet", "page.html"),
        *_both("export onnx", f"{export} m.onnx", "m.onnx", slow=True),
        *_both("export torch", f"{export} m.pt2", "m.pt2", slow=True),
        _one("report stock-model --quiet", "stock-model"),
        *_both("plan", "plan stock-model --experts 3 --quiet --out plan.csv", "plan.csv", other="--seed 7"),
        *_both("plan crowd", "plan stock-model --budget 5 --quiet --out plan.csv", "plan.csv", other="--seed 7"),
        _one("inspect labels.csv"),
        _one(UPDATE_CROWD, "stock-crowd"),
        Scenario("update crowd out", (*UPDATE_CROWD.split(), "--out", "clean.csv"), ("stock-crowd", "clean.csv")),
        Scenario("update model", tuple(UPDATE_MODEL.split()), ("kept-model",)),
        _one("demo --seeds 1 --epochs 1 --out model --quiet", "model", slow=True),
    ]
    known = commands_covered()
    return [scenario for scenario in found if scenario.command in known]


def commands_covered() -> set[str]:
    """The commands of the installed version."""
    import typer

    from conal.cli.app import app

    group: Any = typer.main.get_group(app)
    return {name for name, command in group.commands.items() if not command.hidden}


def make_stock(folder: Path) -> Path:
    """Input files, and a model, that scenarios start from; made once per process."""
    if _MADE and _MADE[0].exists():
        return Path(shutil.copytree(_MADE[0], folder))
    folder.mkdir()
    streams = folder / STREAMS
    streams.mkdir()
    for line in (
        f"{SIMULATE} --out crowd",
        f"{SIMULATE} --out other --seed 9",
        "fit crowd/labels.csv --features crowd/features.npy --epochs 2 --method conal --quiet --no-report "
        "--out stock-model",
        "fit crowd/labels.csv --features crowd/features.npy --epochs 2 --keep-data --quiet --no-report "
        "--out kept-model",
        "aggregate crowd/labels.csv --out clean.csv --save stock-crowd --quiet",
    ):
        ended = run(Command(line.split(), folder, streams))
        if ended.code:
            raise RuntimeError(f"{line}: {ended.code} {ended.err}")
    (folder / "clean.csv").unlink()
    for source, name in (("crowd/labels", "labels"), ("other/labels", "other")):
        shutil.move(folder / f"{source}.csv", folder / f"{name}.csv")
    for source, name in (("crowd/features", "features"), ("other/features", "other")):
        shutil.move(folder / f"{source}.npy", folder / f"{name}.npy")
    (folder / "gold.csv").write_text("task,label\n0,0\n1,1\n2,2\n", encoding="utf-8")
    for name in ("crowd", "other"):
        shutil.rmtree(folder / name)
    _MADE[:] = [folder]
    return folder


class Stage:
    """A scenario's folder as it is before the command runs, and its results: the older ones and the new ones."""

    def __init__(self, scenario: Scenario, stock: Path, place: Path) -> None:
        self.scenario = scenario
        self.start, self.work = place / "start", place / "work"
        place.mkdir(parents=True)
        shutil.copytree(stock, self.start)
        if scenario.before is not None:
            self._expect(self._run(scenario.before, self.start))
            (self.start / STREAMS / "stdout").unlink()
        self.old = snapshot(self.start, scenario.outputs)
        self.reset()
        self._expect(self.attempt())
        self.new, self.listed = snapshot(self.work, scenario.outputs), listing(self.work)

    def reset(self) -> None:
        """The folder as it was before the command."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.start, self.work)

    def attempt(self, signals: Iterable[tuple[float, int]] = (), more: Iterable[str] = ()) -> Ended:
        """Run the command, with signals sent to it."""
        arguments = (*self.scenario.arguments, *more)
        return run(Command(arguments, self.work, self.work / STREAMS, self.work.parent), signals=tuple(signals))

    def again(self, *more: str) -> Ended:
        """Run the command once more, undisturbed."""
        return self._run((*self.scenario.arguments, *more), self.work)

    def found(self) -> Snapshot:
        """The results as they are now."""
        return snapshot(self.work, self.scenario.outputs)

    def loads(self) -> bool:
        """Whether every output that is a model folder can be loaded, if it is there."""
        models = [name for name in self.scenario.outputs if name in MODELS and (self.work / name).exists()]
        return all(wait(fork(partial(_load, self.work / name)), 60) == 0 for name in models)

    def _run(self, arguments: tuple[str, ...], folder: Path) -> Ended:
        return run(Command(arguments, folder, folder / STREAMS, errors=self.start.parent))

    def _expect(self, ended: Ended) -> None:
        if ended.code:
            raise RuntimeError(f"{self.scenario.name}: the undisturbed command ends with {ended.code}: {ended.err}")


def _load(folder: Path) -> int:
    import warnings

    from conal import aggregation
    from conal.errors import ConalError
    from conal.estimator import load

    warnings.simplefilter("ignore")
    try:
        if folder.name in CROWDS:
            aggregation.load(folder)
        else:
            load(folder)
    except ConalError:
        return 1
    return 0


def listing(folder: Path) -> list[str]:
    """Everything in a folder, except for the streams."""
    paths = (path.relative_to(folder) for path in folder.rglob("*"))
    return sorted(str(path) for path in paths if path.parts[0] != STREAMS)


def snapshot(folder: Path, outputs: Iterable[str]) -> Snapshot:
    """File to digest, for every file of the outputs."""
    found: Snapshot = {}
    for name in outputs:
        path = folder / name
        files = (
            [inner for inner in path.rglob("*") if inner.is_file()]
            if path.is_dir()
            else [path]
            if path.is_file()
            else []
        )
        for file in files:
            inside = file.relative_to(folder / name).parts if path.is_dir() else ()
            if file.name.endswith("-journal") or any(part.startswith(".") for part in inside):
                continue  # SQLite repairs its file by a journal; what is hidden is written aside
            found[os.fspath(file.relative_to(folder))] = "there" if file.name in VOLATILE else _digest(file)
    return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
