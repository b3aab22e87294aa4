"""Run what is missing, in several processes; every finished run is kept at once, as a line of JSON."""

from __future__ import annotations

import hashlib
import importlib
import json
import platform
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import conal
from conal.errors import ConalWarning, InputError
from studies.tables import Row

Setting = dict[str, Any]
"""All that a run depends on, as plain data; ``part`` names the table that its rows belong to."""
Record = dict[str, Any]
"""A finished run: its setting and rows, and what made them, where, when and in how many CPU seconds."""
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Options:
    """What to run of a study: some of its methods and datasets, and so many seeds; by default all that it has."""

    methods: Sequence[str] = ()
    datasets: Sequence[str] = ()
    seeds: int | None = None

    def pick_methods(self, known: Iterable[str]) -> list[str]:
        """The methods that were asked for, in the study's order."""
        return _pick("methods", self.methods, known)

    def pick_datasets(self, known: Iterable[str]) -> list[str]:
        """The datasets that were asked for, in the study's order."""
        return _pick("datasets", self.datasets, known)

    def seeds_or(self, usual: int) -> range:
        """The seeds, or as many as the study usually has."""
        return range(self.seeds or usual)


def _pick(what: str, asked: Sequence[str], known: Iterable[str]) -> list[str]:
    known = list(known)
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise InputError(f"--{what}: this study has no {', '.join(unknown)}; it has {', '.join(known)}")
    return [name for name in known if not asked or name in asked]


def study_of(name: str) -> Any:
    """The module of a study; what it has is in the docstring of the package."""
    return importlib.import_module(f"studies.{name.replace('-', '_')}")


@cache
def machine() -> str:
    """The processor: on another one the same software rounds differently, which moves single fits."""
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return " ".join([platform.system(), platform.machine(), *names[:1]])


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


@cache
def code() -> Mapping[str, str]:
    """What makes results: the version, the commit with a digest of what was changed since, and other software."""
    try:
        commit = _git("rev-parse", "HEAD").decode().strip() + _changes()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    software = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn", "torch"))
    python = platform.python_version()
    return {"version": conal.__version__, "commit": commit, "software": f"python {python}, {software}"}


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=True).stdout  # noqa: S603, S607


def _changes() -> str:
    """Nothing for a clean checkout; otherwise a mark that other changes, or new files, alter."""
    places = ("--", "src", "studies")
    new = _git("ls-files", "--others", "--exclude-standard", "-z", *places).decode().split("\0")[:-1]
    diff = _git("diff", "HEAD", *places)
    if not (diff or new):
        return ""
    digest = hashlib.sha256(diff)
    for name in sorted(new):
        digest.update(name.encode() + (ROOT / name).read_bytes())
    return f"-dirty-{digest.hexdigest()[:12]}"


def is_current(record: Record) -> bool:
    """Whether the same commit made a run, or the same release; a version with "dev" is no release."""
    now = code()
    released = "dev" not in now["version"] and record["version"] == now["version"]
    return bool(released or record["commit"] == now["commit"] != "unknown")


def finished(file: Path) -> Iterator[Record]:
    """The runs that a file has; a line that was cut off by a crash is no run."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else []:
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def key_of(setting: Setting) -> str:
    """The same text for the same setting."""
    return json.dumps(setting, sort_keys=True)


def run_missing(
    name: str,
    settings: Sequence[Setting],
    file: Path,
    *,
    jobs: int = 1,
    show: Callable[[int, int], object] | None = None,
) -> tuple[list[Record], list[str]]:
    """Run what the file does not have from the present code, and return all records and what went wrong.

    This process alone writes, as soon as a run ends: whatever happens later, finished runs are kept. A run that fails
    is reported with its setting, and the others go on.

    Parameters
    ----------
    name : str
        Name of the study.
    settings : sequence of Setting
    file : path
        Lines of JSON.
    jobs : int
        Number of worker processes of one thread each.
    show : callable, optional
        Called with the numbers of finished runs and of all.
    """
    wanted = {key_of(setting): setting for setting in settings}
    done = {key_of(record["setting"]): record for record in finished(file) if is_current(record)}
    missing = [setting for key, setting in wanted.items() if key not in done]
    done = {key: record for key, record in done.items() if key in wanted}
    failures = []
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as out:
        if out.tell() and not file.read_text(encoding="utf-8").endswith("\n"):
            out.write("\n")
        for setting, rows, seconds in _attempts(name, missing, jobs):
            if isinstance(rows, str):
                failures.append(f"{key_of(setting)}\n{rows}")
                print(f"failed: {failures[-1]}", file=sys.stderr)
                continue
            date = datetime.now(UTC).isoformat(timespec="seconds")
            made = {**code(), "machine": machine(), "seconds": round(seconds, 3), "date": date}
            done[key_of(setting)] = {"setting": setting, "rows": rows, **made}
            out.write(json.dumps(done[key_of(setting)], default=_plain) + "\n")
            out.flush()
            if show is not None:
                show(len(done), len(wanted))
    return [done[key] for key in wanted if key in done], failures


def _attempts(name: str, settings: Sequence[Setting], jobs: int) -> Iterator[tuple[Setting, list[Row] | str, float]]:
    from joblib import Parallel, delayed

    calls = (delayed(_attempt)(name, setting) for setting in settings)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(calls)


def _attempt(name: str, setting: Setting) -> tuple[Setting, list[Row] | str, float]:
    """One run on one thread: its rows and CPU seconds, or the error as text."""
    import torch

    torch.set_num_threads(1)
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConalWarning)
            found = study_of(name).run(setting)
    except Exception:  # reported with its setting, and the others go on
        return setting, traceback.format_exc(), 0.0
    rows = json.loads(json.dumps(found if isinstance(found, list) else [found], default=_plain))
    return setting, rows, time.process_time() - began


def _plain(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", 1) == 0 else value.tolist()
