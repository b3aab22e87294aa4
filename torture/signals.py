"""Signals at random times: results are old, new or absent, and a fit that goes on ends as if never disturbed."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from torture.commands import Stage, listing, make_stock, scenarios
from torture.tally import Tally

__all__ = ["replay", "torture"]

SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "INT": signal.SIGINT}
FINE_CODES = {"KILL": (-9,), "TERM": (143, -15), "INT": (130,)}
RESUMED = ("fit new", "fit overwrite", "fit ensemble new")
EPOCHS = "12"
"""Enough for several checkpoints."""


def torture(folder: Path, seed: int, seconds: float, tally: Tally) -> None:
    """Disturb commands, fits up to three times each, until the time is over."""
    rng, deadline = random.Random(seed), time.monotonic() + seconds
    stock = make_stock(folder / "stock")
    names = [scenario.name for scenario in scenarios() if not scenario.slow and scenario.outputs]
    stages: dict[str, tuple[Stage, float]] = {}
    while time.monotonic() < deadline:
        name = rng.choice([*names, *RESUMED * (len(names) // len(RESUMED))])  # half of them are resumed
        if name not in stages:
            stages[name] = _stage(name, stock, folder / str(len(stages)))
        stage, length = stages[name]
        number = rng.randint(1, 3) if name in RESUMED else 1
        shots = [(rng.choice(list(SIGNALS)), rng.random() * 0.9 * length) for _ in range(number)]
        problem = disturb(stage, shots, tally)
        if problem is not None:
            case = {"part": "signals", "scenario": name, "shots": shots}
            tally.fail(f"signals: {name}, {shots[-1][0]}: {problem}", case)


def replay(case: dict[str, Any], folder: Path) -> str | None:
    """What is wrong with one disturbed command; None if nothing is."""
    stage, _ = _stage(case["scenario"], make_stock(folder / "stock"), folder / "stage")
    return disturb(stage, case["shots"], Tally())


def _stage(name: str, stock: Path, place: Path) -> tuple[Stage, float]:
    (scenario,) = [scenario for scenario in scenarios() if scenario.name == name]
    if name in RESUMED:
        words = list(scenario.arguments)
        words[words.index("--epochs") + 1] = EPOCHS
        scenario = replace(scenario, arguments=tuple(words))
    stage = Stage(scenario, stock, place)
    stage.reset()
    return stage, stage.attempt().seconds


def disturb(stage: Stage, shots: list[tuple[str, float]], tally: Tally) -> str | None:
    """Send signals to a command and, if it is a fit, to those that go on with it; then let one end, and compare."""
    stage.reset()
    for number, (name, delay) in enumerate(shots):
        before = _hidden(stage)
        ended = stage.attempt(signals=[(delay, SIGNALS[name])], more=("--resume",) if number else ())
        if ended.code == 0:
            tally.count("signals", "after the end")
            break
        if ended.code == 2 and stage.found() == stage.new:  # the last signal came when all was done
            break
        tally.count("signals", name)
        if ended.has_traceback or ended.code not in FINE_CODES[name]:
            said = ended.err.strip().splitlines()[-1:]
            return f"{name} ends with {ended.code}{', with a traceback' if ended.has_traceback else ''}: {said}"
        problem = state_of(stage)
        if problem is not None:
            return problem
        if name != "KILL" and _hidden(stage) - before:
            return "leaves a hidden file"
    return _ends_alike(stage, tally) if stage.scenario.name in RESUMED else None


def state_of(stage: Stage) -> str | None:
    """What is wrong with the results, if anything: each must be old, new or absent."""
    found = stage.found()
    torn = [name for name, digest in found.items() if digest not in (stage.old.get(name), stage.new.get(name))]
    if torn:
        return f"{Path(torn[0]).name} is neither the old nor the new one"
    return "the model folder does not load" if found and not stage.loads() else None


def _hidden(stage: Stage) -> set[str]:
    """Hidden files that are no results."""
    return {name for name in listing(stage.work) if name.startswith(".")}


def _ends_alike(stage: Stage, tally: Tally) -> str | None:
    ended = stage.again("--resume")
    if ended.code == 2 and "exists already" in ended.err and stage.found() == stage.new:
        ended = stage.again("--overwrite")
    if ended.code:
        return f"the resumed fit ends with {ended.code}: {ended.err.strip().splitlines()[-1:]}"
    if stage.found() != stage.new:
        return "the resumed fit has another result"
    stray = set(listing(stage.work)) - set(stage.listed) - _hidden(stage)  # what a killed process left is hidden
    tally.count("resumed fits", "identical")
    return f"stray files after the resumed fit: {len(stray)}" if stray else None
