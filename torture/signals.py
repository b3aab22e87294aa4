"""Signals at random times: a fit that goes on with ``--resume`` ends as one that was never disturbed."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from torture.commands import Stage, listing, make_stock, scenarios
from torture.faults import state_of
from torture.tally import Tally

__all__ = ["replay", "torture"]

SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "INT": signal.SIGINT}
FINE_CODES = {"KILL": (-9,), "TERM": (143, -15), "INT": (130,)}
EPOCHS = "12"
"""Enough for several checkpoints."""


def torture(folder: Path, seed: int, seconds: float, tally: Tally) -> None:
    """Disturb fits, up to three times each, until the time is over."""
    rng, deadline = random.Random(seed), time.monotonic() + seconds
    stock = make_stock(folder / "stock")
    stages = [
        _stage(name, stock, folder / str(k)) for k, name in enumerate(("fit new", "fit overwrite", "fit ensemble new"))
    ]
    while time.monotonic() < deadline:
        stage, length = rng.choice(stages)
        shots = [(rng.choice(list(SIGNALS)), rng.random() * 0.9 * length) for _ in range(rng.randint(1, 3))]
        problem = disturb(stage, shots, tally)
        if problem is not None:
            case = {"part": "signals", "scenario": stage.scenario.name, "shots": shots}
            tally.fail(f"signals: {stage.scenario.name}, {shots[-1][0]}: {problem}", case)


def replay(case: dict[str, Any], folder: Path) -> str | None:
    """What is wrong with one disturbed fit; None if nothing is."""
    stage, _ = _stage(case["scenario"], make_stock(folder / "stock"), folder / "stage")
    return disturb(stage, case["shots"], Tally())


def _stage(name: str, stock: Path, place: Path) -> tuple[Stage, float]:
    (scenario,) = [scenario for scenario in scenarios() if scenario.name == name]
    words = list(scenario.arguments)
    words[words.index("--epochs") + 1] = EPOCHS
    stage = Stage(replace(scenario, arguments=tuple(words), again=("--resume",)), stock, place)
    stage.reset()
    return stage, stage.attempt().seconds


def disturb(stage: Stage, shots: list[tuple[str, float]], tally: Tally) -> str | None:
    """Send signals to a fit and to those that go on with it; then let one end, and compare."""
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
        problem, _ = state_of(stage)
        if problem is not None:
            return problem
        if name != "KILL" and _hidden(stage) - before:  # what a killed one left may still be there
            return "leaves a hidden file"
    return _ends_alike(stage, tally)


def _hidden(stage: Stage) -> set[tuple[str, int]]:
    """Hidden files that are no results; made again, the same name is another file."""
    extra = set(listing(stage.work)) - set(stage.listed) - set(listing(stage.start))
    return {(name, (stage.work / name).lstat().st_ino) for name in extra if name.startswith(".")}


def _ends_alike(stage: Stage, tally: Tally) -> str | None:
    ended = stage.again("--resume")
    if ended.code == 2 and "exists already" in ended.err and stage.found() == stage.new:
        ended = stage.again("--overwrite")
    if ended.code:
        return f"the resumed fit ends with {ended.code}: {ended.err.strip().splitlines()[-1:]}"
    if stage.found() != stage.new:
        return "the resumed fit has another result"
    stray = sorted(set(listing(stage.work)) - set(stage.listed))
    tally.count("resumed fits", "identical")
    return f"stray files after the resumed fit: {len(stray)}" if stray else None
