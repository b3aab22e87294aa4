"""Updates of an aggregator against refits, in one run: `make bench-update`.

1.72 million labels are fitted once, and then come 1,000 new ones, a hundred times: on known and new tasks, by known and
new annotators. In memory, ``update`` of a pandas frame is compared with ``fit`` of all rows; as commands, ``conal
update`` with ``conal aggregate`` of both files. Times are CPU times in fresh processes on one thread, with modules that
have been compiled before, as those of an installed package are.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aggregation import simulated
from harness import THREADS, Row, clock, main, markdown, measure, store

SIZE: dict[str, Any] = {"n_tasks": 360_000, "n_workers": 2_000, "n_classes": 4, "per_task": 5}
NEW, TIMES = 1_000, 100
SMALL = "CONAL_BENCHMARK_SMALL"
if os.environ.get(SMALL):
    SIZE, TIMES = {**SIZE, "n_tasks": 20_000}, 10
LATE_TASKS, LATE_WORKERS = 4_000, 20
"""Tasks and workers that come with the new labels."""


def parts() -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """The labels of the first fit, and those that come later: a thousand at a time, in random order."""
    whole = simulated(**{**SIZE, "n_tasks": SIZE["n_tasks"] + LATE_TASKS})
    rng = np.random.default_rng(1)
    first = rng.random(len(whole))
    first[(whole["task"] >= SIZE["n_tasks"]) | (whole["worker"] >= SIZE["n_workers"] - LATE_WORKERS)] = -1.0
    mask = np.zeros(len(whole), dtype=bool)
    mask[np.argsort(first)[: NEW * TIMES]] = True  # labels of new tasks and workers, and random others
    new = whole[mask].sample(frac=1.0, random_state=1)
    return whole[~mask], [new[k * NEW : (k + 1) * NEW] for k in range(TIMES)]


def in_memory() -> Row:
    """CPU times of updates and of a refit, and equal labels."""
    from conal.aggregation import DawidSkene

    warnings.simplefilter("ignore")
    old, later = parts()
    DawidSkene(verbose=False).fit(old.head(30_000)).update(later[-1])  # imports and compilation are not measured
    model: Any = DawidSkene(verbose=False).fit(old)
    row: Row = {"labels": len(old), "updates": []}
    for k, new in enumerate(later, 1):
        with clock() as spent:
            model.update(new)
        point: Row = {"n": k, "cpu": spent["cpu"]}
        if k in (1, 2, 10, TIMES):
            before = pd.concat([old, *later[: k - 1]])
            with clock() as spent:
                refit = DawidSkene(verbose=False).fit(pd.concat([before, new]))
            point["refit_cpu"] = spent["cpu"]
            with clock() as spent:
                DawidSkene(verbose=False).fit(refit.annotations_)
            point["refit_of_annotations_cpu"] = spent["cpu"]
            order = np.argsort(model.task_ids_)
            point["equal"] = float((model.labels_[order] == refit.labels_).mean())
        row["updates"].append(point)
    return row


def as_commands() -> Row:
    """CPU times of ``conal update`` and of ``conal aggregate`` of all files."""
    old, later = parts()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        old.to_csv(folder / "old.csv", index=False)
        later[0].to_csv(folder / "new.csv", index=False)
        _cpu(folder, "aggregate new.csv --out clean.csv --save first --quiet")  # modules and loops are compiled here
        _cpu(folder, "update first new.csv --quiet", check=False)  # refused, but loaded
        save = _cpu(folder, "aggregate old.csv --out clean.csv --save crowd --overwrite --quiet")
        update = _cpu(folder, "update crowd new.csv --out clean.csv --overwrite --quiet")
        refit = _cpu(folder, "aggregate old.csv new.csv --out clean.csv --overwrite --quiet")
        again = _cpu(folder, "aggregate old.csv new.csv --out clean.csv --save other --overwrite --quiet")
        size = sum(path.stat().st_size for path in (folder / "crowd").iterdir())
    return {"save": save, "update": update, "refit": refit, "refit_and_save": again, "folder_mb": size / 1e6}


def _cpu(folder: Path, line: str, *, check: bool = True) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "conal", *line.split()]
    environment = {**os.environ, **THREADS, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(command, cwd=folder, env=environment, check=check, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def jobs() -> dict[str, Callable[[], Row]]:
    """All that can be measured."""
    return {"memory": in_memory, "commands": as_commands}


def run(arguments: argparse.Namespace) -> None:
    """Measure both, and store the results."""
    if arguments.quick:
        os.environ[SMALL] = "1"
    memory, commands = (measure(__file__, job) or {} for job in ("memory", "commands"))
    print(table(memory, commands))
    if not arguments.quick:
        store("update", {"memory": memory, "commands": commands})


def table(memory: Row, commands: Row) -> str:
    """The figures as Markdown."""
    points = [point for point in memory["updates"] if "refit_cpu" in point]
    usual = float(np.median([point["cpu"] for point in memory["updates"]]))
    rows = [
        [
            f"{point['n']}",
            f"{1000 * point['cpu']:.0f} ms",
            f"{1000 * point['refit_cpu']:.0f} ms",
            f"{1000 * point['refit_of_annotations_cpu']:.0f} ms",
            f"{100 * point['equal']:.3f} %",
        ]
        for point in points
    ]
    header = ["updates", "update", "refit of the frame", "refit of annotations", "equal labels"]
    command = (
        f"As commands: `conal update` {commands['update']:.1f} s, `conal aggregate` of both files "
        f"{commands['refit']:.1f} s ({commands['refit_and_save']:.1f} s with `--save`); the folder has "
        f"{commands['folder_mb']:.0f} MB. Median update in memory: {1000 * usual:.0f} ms."
    )
    return f"{markdown(header, rows)}\n\n{command}"


if __name__ == "__main__":
    main(jobs(), run, __doc__)
