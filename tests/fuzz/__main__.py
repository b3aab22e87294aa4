"""``python -m fuzz``: attack conal for some minutes, or with so many files; print counts, and keep what fails."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import torch

import conal
from fuzz.checks import check_file, run
from fuzz.commands import COMMANDS, Stage, check_environment, check_full_disk, check_kill, make_stage
from fuzz.folders import Models, check_folder, make_models
from fuzz.names import check_names

MEMORY = 3 * 2**30
"""Bytes that a batch may take beyond what this process has."""
SECONDS = 1200
"""So long a batch may take on a busy machine."""
ARROW = "parquet::ParquetException"
"""What Arrow says when it ends the process because of damaged statistics of a Parquet file."""

Check = Callable[[random.Random], str]
Found = dict[str, Counter[str]]


def main() -> int:
    """The exit code: 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Attack conal, and count what happens.")
    parser.add_argument("--minutes", type=float, default=5.0, help="time, unless --files is given")
    parser.add_argument("--files", type=int, help="number of broken files; the other attacks in proportion")
    parser.add_argument("--seed", type=int, default=int(time.strftime("%Y%m%d")), help="by default the date")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--out", type=Path, default=Path("fuzz-results"), help="folder for what fails")
    options = parser.parse_args()
    _prepare()
    deadline = time.monotonic() + (60 * options.minutes if options.files is None else float("inf"))
    rounds = 10**6 if options.files is None else -(-options.files // 1000)
    found: Found = {}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        work = partial(_round, Path(place), options.out.resolve(), options.seed, deadline)
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("fork")) as pool:
            for counts in pool.map(work, range(rounds)):
                for attack, outcomes in counts.items():
                    found.setdefault(attack, Counter()).update(outcomes)
    for attack, outcomes in found.items():
        print(f"{attack}: {outcomes.total():,} ({', '.join(f'{name} {n:,}' for name, n in sorted(outcomes.items()))})")
    failed = sum(outcomes["failed"] for outcomes in found.values())
    print(
        f"seed {options.seed}, {conal.__version__}: {f'{failed} batches failed: {options.out}' if failed else 'well'}"
    )
    return 1 if failed else 0


def _prepare() -> None:
    """Load what forks would each load again; one thread, because threads do not survive a fork."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    for module in pkgutil.walk_packages(conal.__path__, "conal."):
        if module.name != "conal.__main__":
            importlib.import_module(module.name)


@cache
def _stage(place: Path) -> tuple[Stage, Models]:
    """Input files and models of this process."""
    folders = [place / f"{name}-{os.getpid()}" for name in ("stage", "models")]
    for folder in folders:
        folder.mkdir()
    return make_stage(folders[0], COMMANDS), make_models(folders[1])


def _round(place: Path, out: Path, seed: int, deadline: float, number: int) -> Found:
    """A thousand files, and the other attacks in proportion."""
    if time.monotonic() > deadline:
        return {}
    stage, models = _stage(place)
    files = place / f"files-{os.getpid()}"
    attacks: list[tuple[str, Check, int, int]] = [
        ("broken files", partial(check_file, folder=files), 100, 10),
        ("tables of odd names", partial(check_names, folder=files), 100, 4),
        ("tampered folders", partial(check_folder, models=models), 20, 1),
        ("killed commands", partial(check_kill, stage=stage), 2, 1),
        ("full disks", partial(check_full_disk, stage=stage), 1, 1),
        ("odd environments", partial(check_environment, stage=stage), 1, 1),
    ]
    found: Found = {}
    for attack, check, count, batches in attacks:
        found[attack] = Counter()
        for batch in range(batches):
            shutil.rmtree(files, ignore_errors=True)
            files.mkdir()
            name = f"{attack.replace(' ', '-')}-{seed}-{number}-{batch}"
            outcomes, said = _in_child(check, f"{seed}/{number}/{batch}", count, place)
            if ARROW in said:
                outcomes = {"ended by Arrow": 1}
            elif said:
                out.mkdir(parents=True, exist_ok=True)
                (out / f"{name}.txt").write_text(said, encoding="utf-8")
                shutil.copytree(files, out / name, dirs_exist_ok=True)
                print(f"{name}: {said.strip().splitlines()[-1]}", flush=True)
            found[attack].update(outcomes)
    return found


def _in_child(check: Check, seed: str, count: int, place: Path) -> tuple[dict[str, int], str]:
    """The outcomes of many checks; what the process said if one failed, or ended it."""
    log, err = (place / f"{name}-{os.getpid()}" for name in ("log", "err"))
    log.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _work(check, seed, count, log, err)
    end = time.monotonic() + SECONDS
    while (status := os.waitpid(child, os.WNOHANG)) == (0, 0):
        time.sleep(0.01)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status[1])
    if code == 0:
        return json.loads(log.read_text(encoding="utf-8")), ""
    return {"failed": 1}, f"{err.read_text(encoding='utf-8', errors='replace')}\nends with {code}"


def _work(check: Check, seed: str, count: int, log: Path, err: Path) -> None:
    code = 1
    try:
        os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        log.write_text(json.dumps(run(check, seed, count)), encoding="utf-8")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
