"""Carry kept runs over a change that none of them executes: `python tools/carry_runs.py COMMIT`.

All runs take hours, and a mend of code that no run reaches changes none of them. This tool compares the present code
with that of COMMIT, which made the runs, statement by statement, in all modules that count. It repeats one run of every
kind, shortened, by both versions, and watches whether it executes a statement that only one of them has. Runs of a kind
that does keep the fingerprint of the code that made them. All others get that of the present code, and the line of each
names the commit. Before that, some are repeated in full, and must give what is kept. Tables without runs are not
carried: `conal reproduce` makes them again.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from conal import methods
from conal.experiments import run_files, runner, runs
from conal.experiments.fingerprint import modules_behind
from conal.experiments.run_files import present_code, read_runs, write_runs
from conal.experiments.runs import Run, counted, run_of
from conal.experiments.store import Finished, Store
from differing_lines import difference

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "docs" / "results" / "runs"
EPOCHS, MEMBERS = 2, 2
"""Of the shortened runs."""
REPEATED, LONGEST = 30, 20.0
"""How many runs are repeated in full, and how many seconds such a run may take."""
TASK = "--task"

Lines = dict[str, list[int]]
"""Numbers of lines by file."""
Sources = tuple[Path, Path]
"""Folders of the package, of the commit and of the present."""


def tell(text: str) -> None:
    """Progress, which a process that waits for results shows too."""
    sys.stderr.write(f"{text}\n")


# ---------------------------------------------------------------- what runs execute


def executed(lines: Mapping[str, Iterable[int]], call: Callable[[], object]) -> Lines:
    """The lines, of these, that a call executes; the first line of a function is executed when it is called."""
    wanted = {file: set(numbers) for file, numbers in lines.items()}
    found: dict[str, set[int]] = defaultdict(set)

    def inside(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_lineno in wanted[frame.f_code.co_filename]:
            found[frame.f_code.co_filename].add(frame.f_lineno)
        return inside

    def enter(frame: FrameType, event: str, _: object) -> Any:  # for every call, so that it must be quick
        return inside(frame, event, None) if frame.f_code.co_filename in wanted else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return {file: sorted(numbers) for file, numbers in found.items()}


def kind_of(run: Run) -> str:
    """What decides which code a run executes: all but the seed and other numbers."""
    words = [run.method, run.protocol, run.dataset, *run.keep]
    for part in (run.data, run.parameters, run.gold):
        words += sorted(f"{name}={value}" if isinstance(value, bool | str) else name for name, value in part.items())
    return " ".join(words)


def shortened(run: Run) -> Run:
    """A run that executes the same code in less time; an aggregator's takes little."""
    if run.method not in methods.names():
        return run
    largest = {"ensemble": MEMBERS, "epochs": EPOCHS}
    stated = {"epochs": EPOCHS, **run.parameters}  # which may leave the number to a rule, whose code counts as well
    small = {name: min(stated[name], most) for name, most in largest.items() if isinstance(stated.get(name), int)}
    return replace(run, parameters=stated | small)


# ---------------------------------------------------------------- in a process for one version


def describe(folder: str) -> dict[str, Any]:
    """The files that count for the kept runs, and the fingerprint of each of these runs."""
    kept = [each.run for each in read_runs(Path(folder))]
    codes = [present_code(run) for run in kept]
    known = {(run.method, run.dataset, run.keep, bool(run.gold)) for run, code in zip(kept, codes, strict=True) if code}
    behind = [counted(method, dataset, keep, gold=gold) for method, dataset, keep, gold in known]
    modules = frozenset[str]().union(*(modules_behind(roots, rooms=rooms) for roots, rooms in behind))
    files = [spec.origin for spec in map(find_spec, modules) if spec is not None]
    return {"files": files, "codes": codes}


def watch(lines: Lines, configs: list[dict[str, Any]]) -> list[Lines]:
    """For every run, shortened, the lines of these that it executes."""
    found = []
    for number, config in enumerate(configs, start=1):
        run = shortened(run_of(config))
        runs._load.cache_clear()  # a run of this kind alone would load its data
        found.append(executed(lines, partial(figures_of, run)))
        tell(f"{number:,} of {len(configs):,}: {kind_of(run)}")
    return found


def figures_of(run: Run) -> dict[str, Any]:
    """The results of a run, as `conal reproduce` makes them."""
    return runner._worker(run)[1]


def in_version(source: Path, task: str, arguments: dict[str, Any]) -> Any:
    """The result of a function of this file that uses the package in a folder."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, __file__, TASK, task],
        input=json.dumps(arguments),
        env={**os.environ, "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def in_both(sources: Sources, task: str, arguments: Iterable[dict[str, Any]]) -> list[Any]:
    """The results of a function by both versions, at the same time."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(in_version, sources, [task] * 2, arguments))


def work(task: str) -> None:
    """What such a process does."""
    tasks: dict[str, Callable[..., Any]] = {"describe": describe, "watch": watch}
    json.dump(tasks[task](**json.load(sys.stdin)), sys.stdout)


# ---------------------------------------------------------------- all runs


def carry(commit: str, folder: Path = RUNS) -> None:
    """Give the runs that a change cannot alter the present fingerprint, and say which it may alter."""
    kept = list(read_runs(folder))
    with tempfile.TemporaryDirectory() as unpacked:
        sources = (source_of(commit, Path(unpacked)), ROOT / "src")
        told = in_both(sources, "describe", [{"folder": str(folder)}] * 2)
        codes = zip(kept, told[0]["codes"], told[1]["codes"], strict=True)
        waiting = {each.run.hash: code for each, before, code in codes if each.code == before != code}
        slowest_first = sorted(kept, key=lambda each: -each.figures["seconds"])  # so that the quickest stand for kinds
        kinds = {kind_of(each.run): each.run.config for each in slowest_first if each.run.hash in waiting}
        tell(f"{len(waiting):,} of {len(kept):,} runs are by {commit}; {len(kinds):,} kinds are watched")
        lines = differences(sources, [each["files"] for each in told])
        reached = in_both(sources, "watch", [{"lines": each, "configs": [*kinds.values()]} for each in lines])
    altered = {kind for each in reached for kind, hits in zip(kinds, each, strict=True) if hits}
    for kind in sorted(altered):
        tell(f"executes what differs: {kind}")
    carried = [each for each in kept if each.run.hash in waiting and kind_of(each.run) not in altered]
    repeat(carried)
    with Store(":memory:") as store:
        store.put(*kept)
        store.put(*(marked(each, waiting[each.run.hash], commit) for each in carried))
        write_runs(store, folder)
    tell(f"{len(carried):,} runs carried; {len(waiting) - len(carried):,} are left to `conal reproduce --stale`")


def source_of(commit: str, folder: Path) -> Path:
    """Unpack the package of a commit."""
    git = ["git", "archive", commit, "src"]
    archive = subprocess.run(git, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout  # noqa: S603
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)  # noqa: S603, S607
    return folder / "src"


def differences(sources: Sources, files: Iterable[Iterable[str]]) -> tuple[Lines, Lines]:
    """The lines of either version that the other has not; an end if watching runs cannot judge them."""
    lines: tuple[Lines, Lines] = ({}, {})
    refused = []
    for file in sorted(
        {Path(name).relative_to(at) for at, names in zip(sources, files, strict=True) for name in names}
    ):
        texts = [(at / file).read_text(encoding="utf-8") if (at / file).is_file() else "" for at in sources]
        *found, why = difference(*texts)
        refused += [f"{file}: {each}" for each in why]
        for each, at, numbers in zip(lines, sources, found, strict=True):
            each.update({str(at / file): numbers} if numbers else {})
        if any(found):
            tell(f"{file}: lines that differ, before {found[0]}, now {found[1]}")
    if refused:
        raise SystemExit("These changes may alter any run:\n" + "\n".join(refused))
    return lines


def repeat(kept: list[Finished]) -> None:
    """Repeat some runs of this machine in full; an end if one differs from what is kept."""
    quick = [each for each in kept if run_files.made_here(each) and each.figures["seconds"] < LONGEST]
    for run, figures, *_ in random.Random(0).sample(quick, min(REPEATED, len(quick))):  # noqa: S311
        again = as_kept(run)
        differing = [name for name, value in figures.items() if name != "seconds" and again[name] != value]
        if differing:
            raise SystemExit(f"{kind_of(run)}, seed {run.seed}: not as kept: {', '.join(differing)}")
    tell(f"{min(REPEATED, len(quick))} runs repeated in full: all figures are those that are kept")


def as_kept(run: Run) -> dict[str, Any]:
    """The results of a run, rounded as in its file."""
    with Store(":memory:") as store:
        store.add(run, figures_of(run))
        return store.require(run)


def marked(each: Finished, code: str, commit: str) -> Finished:
    """A run with the present fingerprint, and the commit whose code made it."""
    return each._replace(code=code, made_by={run_files.CARRIED: commit, **each.made_by})


if __name__ == "__main__":
    if sys.argv[1:2] == [TASK]:
        work(sys.argv[2])
    elif len(sys.argv) == 2:
        carry(sys.argv[1])
    else:
        raise SystemExit(__doc__)
