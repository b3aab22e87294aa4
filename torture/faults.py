"""Faults at every change of a file, for every command: the result is whole, or the next run repairs it."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path
from typing import Any

from torture.commands import Scenario, Stage, listing, make_stock, scenarios
from torture.intercept import changes_in, is_loaded
from torture.tally import Tally

__all__ = ["FATES", "replay", "torture"]

FATES = ("kill", "error", "full", "half", "power")
FINE_CODES = (0, 1, 2)
AT_ONCE = 3
"""Faults between the first runs of two commands, so that short campaigns see faults too."""


def torture(folder: Path, seed: int, seconds: float, tally: Tally, *, only: str = "") -> None:
    """Inject faults until the time is over: every change of a command, in random order, with every fate."""
    if not is_loaded():
        tally.skip("faults", "the library that injects faults is not loaded; it needs Linux and a C compiler")
        return
    rng, deadline = random.Random(seed), time.monotonic() + seconds
    stock = make_stock(folder / "stock")
    waiting = [scenario for scenario in scenarios() if only in scenario.name]
    rng.shuffle(waiting)
    waiting.sort(key=lambda scenario: scenario.slow)
    stages: list[tuple[Stage, list[tuple[str, int]]]] = []
    turn = 0
    while time.monotonic() < deadline and (waiting or any(left for _, left in stages)):
        if waiting and turn % AT_ONCE == 0:
            stages.append(_prepared(waiting.pop(0), stock, folder, rng, tally))
        stage, left = rng.choice(stages)
        turn += 1
        if left and (not stage.scenario.slow or turn % AT_ONCE == 0):
            inject(stage, *left.pop(), tally)


def _prepared(
    scenario: Scenario, stock: Path, folder: Path, rng: random.Random, tally: Tally
) -> tuple[Stage, list[tuple[str, int]]]:
    stage = Stage(scenario, stock, folder / re.sub(r"\W+", "-", scenario.name))
    total = sum(1 for _ in changes_in(stage.log))
    tally.note("changes of files", scenario.name, total)
    left = [(fate, number) for fate in FATES for number in range(1, total + 1)]
    rng.shuffle(left)
    return stage, left


def replay(case: dict[str, Any], folder: Path) -> str | None:
    """What is wrong with one fault; None if nothing is."""
    stock = make_stock(folder / "stock")
    (scenario,) = [scenario for scenario in scenarios() if scenario.name == case["scenario"]]
    tally = Tally()
    inject(Stage(scenario, stock, folder / "stage"), case["fate"], case["at"], tally)
    return next(iter(tally.failures), None)


def inject(stage: Stage, fate: str, at: int, tally: Tally) -> None:
    """One fault, what it leaves, and the next run."""
    stage.reset()
    ended = stage.attempt(fate, at)
    change = next((change for change in changes_in(stage.log) if change.number == at), None)
    if change is None:
        tally.count("faults", "not reached")
        return
    if fate == "power":
        lose_what_was_not_flushed(stage)
    problem, outcome = judge(stage, fate, ended.code, ended.has_traceback)
    tally.count("faults", outcome)
    tally.count("faults by fate", fate)
    tally.count("faults by command", stage.scenario.command)
    if problem is not None:
        place = re.sub(r"[a-z0-9_]{8}(?=\b)", "*", Path(change.path).name)
        tally.fail(
            f"faults: {stage.scenario.name}, {fate} at {change.call} of {place}: {problem}",
            {"part": "faults", "scenario": stage.scenario.name, "fate": fate, "at": at, "error": ended.err[-400:]},
        )


def lose_what_was_not_flushed(stage: Stage) -> None:
    """A power cut: files whose last bytes were never flushed are empty."""
    dirty: set[int] = set()
    for change in changes_in(stage.log):
        if change.call in ("write", "truncate"):
            dirty.add(change.inode)
        elif change.call == "fsync":
            dirty.discard(change.inode)
    for path in stage.work.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_ino in dirty:
            os.truncate(path, 0)


def judge(stage: Stage, fate: str, code: int, has_traceback: bool) -> tuple[str | None, str]:
    """What is wrong, if anything, and how the result was found."""
    died = fate in ("kill", "half", "power")
    if has_traceback:
        return "a traceback instead of a message", "failed"
    if code not in ((-9,) if died else FINE_CODES):
        return f"exit code {code}", "failed"
    problem, outcome = state_of(stage)
    if problem is None and code == 0 and outcome != "whole new":
        problem = f"exit code 0, but the result is {outcome}"
    if problem is None:
        problem = repair(stage)
    return problem, "failed" if problem else outcome


def state_of(stage: Stage) -> tuple[str | None, str]:
    """Whether the results are whole, old or new."""
    found = stage.found()
    outcome = "whole new" if found == stage.new else "whole old" if found == stage.old else "recovered"
    if outcome == "recovered":
        torn = [name for name, digest in found.items() if digest not in (stage.old.get(name), stage.new.get(name))]
        if torn:
            return f"{Path(torn[0]).name} is neither the old nor the new one", "failed"
    if (found or stage.old) and not stage.loads():
        return "the model folder does not load", "failed"
    return None, outcome


def repair(stage: Stage) -> str | None:
    """The next run must succeed, and leave what an undisturbed run leaves; else what is wrong."""
    ended = stage.again(*stage.scenario.again)
    # What was whole, or what the next run made whole, is not replaced unasked.
    if ended.code == 2 and stage.found() == stage.new and "exists already" in ended.err:
        ended = stage.again("--overwrite")
    if ended.code == 2 and stage.found() == stage.new and "were added before" in ended.err:
        return None if stage.loads() else "the updated folder does not load"  # nothing is left to do
    if ended.code:
        return f"the next run ends with {ended.code}: {ended.err.strip().splitlines()[-1:]}"
    if stage.found() != stage.new or not stage.loads():
        return "the next run has another result"
    stray = sorted(set(listing(stage.work)) - set(stage.listed))
    return f"stray files after the next run: {re.sub(r'[a-z0-9_]{8}', '*', stray[0])}" if stray else None
