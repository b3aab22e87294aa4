"""What all benchmarks share: fresh processes in turn, CPU and wall time, peak memory, and a store of results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["Jobs", "Row", "clock", "epoch_times", "main", "markdown", "measure", "store", "stored", "take_turns"]

Row = dict[str, Any]
Jobs = Mapping[str, Callable[[], Row]]
"""Name to a function that runs in a process of its own, and returns what it measured by :class:`clock`."""

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "performance"
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "ARROW_NUM_THREADS"), "1")
sys.path.append(str(ROOT))  # for the crowds of the studies
PACKAGES = ("conal", "numpy", "scipy", "torch", "pyarrow", "pandas", "numba", "crowd-kit")


class clock:  # noqa: N801 - reads like a statement: with clock() as row
    """CPU and wall time of a block, and the process's peak memory at its end."""

    def __enter__(self) -> Row:
        self.row: Row = {}
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        return self.row

    def __exit__(self, *_: object) -> None:
        self.row["cpu"] = time.process_time() - self.cpu
        self.row["wall"] = time.perf_counter() - self.wall
        self.row["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def epoch_times() -> list[float]:
    """CPU times of the epochs that conal will train in this process from now on, filled as they end."""
    from conal.training.loop import _Trainer

    times: list[float] = []
    whole_epoch = _Trainer.run_epoch

    def run_epoch(self: _Trainer) -> None:
        began = time.process_time()
        whole_epoch(self)
        times.append(time.process_time() - began)

    _Trainer.run_epoch = run_epoch  # type: ignore[method-assign]
    return times


def measure(file: str, job: str, limit: float | None = None) -> Row | None:
    """Run a job of a benchmark file in a fresh process on one thread; None if it took longer than the limit."""
    command = [sys.executable, file, "--job", job]
    try:
        done = subprocess.run(
            command, env={**os.environ, **THREADS}, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        sys.exit(f"error: {job} failed:\n{done.stderr[-3000:]}")
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def take_turns(file: str, jobs: Sequence[str], repeats: int, limit: float | None = None) -> dict[str, Row]:
    """Every job in turn, and again; of each the run with the least CPU time. Jobs over the limit are left out."""
    best: dict[str, Row] = {}
    for _ in range(repeats):
        for job in jobs:
            row = measure(file, job, limit)
            if row is None:
                print(f"  {job}: more than {limit:.0f} s, left out", flush=True)
            elif job not in best or row["cpu"] < best[job]["cpu"]:
                best[job] = row
    return best


def store(name: str, content: Mapping[str, Any]) -> None:
    """Keep results for the page, with versions and machine."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    about = {"date": date.today().isoformat(), "machine": _machine(), "versions": _versions()}
    (FOLDER / f"{name}.json").write_text(json.dumps({**about, **content}, indent=1) + "\n", encoding="utf-8")


def stored(name: str) -> dict[str, Any]:
    """Results that an earlier run kept."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, numbers to the right."""
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def main(
    jobs: Jobs,
    run: Callable[[argparse.Namespace], None],
    description: str | None,
    further_options: Callable[[argparse.ArgumentParser], None] | None = None,
) -> None:
    """``--job`` runs one in this process; otherwise all, as the benchmark says."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="times that every job takes its turn")
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing is stored: does it run?")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    if further_options is not None:
        further_options(parser)
    arguments = parser.parse_args()
    if arguments.job:
        print(json.dumps(jobs[arguments.job]()))
    else:
        run(arguments)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores, {platform.system()}"
