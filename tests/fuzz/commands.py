"""Commands that are killed, whose disk is full, or that run in an odd environment: results are old, new or absent."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import note

import conal
from conal import aggregation
from conal.cli import main
from helpers.processes import one_thread

__all__ = ["COMMANDS", "LABELS_ONLY", "Stage", "check_environment", "check_full_disk", "check_kill", "make_stage"]

SIZES = ("n_train=24", "n_valid=4", "n_test=4", "n_classes=3", "n_annotators=4")
SIMULATE = f"simulate {' '.join(f'--set {size}' for size in SIZES)} --quiet"
FIT = "fit labels.csv --features features.npy --epochs 8 --quiet --out model"
TABLES = "--out clean.csv --annotators workers.parquet --confusion confusion.jsonl"
LABELS_ONLY: dict[str, tuple[str, ...]] = {
    f"aggregate labels.csv {TABLES} --quiet": ("clean.csv", "workers.parquet", "confusion.jsonl"),
    "aggregate labels.csv --out clean.csv --save saved --quiet": ("clean.csv", "saved"),
    "aggregate labels.csv --out clean.csv --report page --quiet": ("clean.csv", "page"),
    "convert labels.csv --to label-studio --out out.json --quiet": ("out.json",),
    "rank pairs.csv --out ranking.csv --annotators workers.csv --quiet": ("ranking.csv", "workers.csv"),
    "update crowd other.csv --quiet": ("crowd",),
}
COMMANDS: dict[str, tuple[str, ...]] = LABELS_ONLY | {
    f"{FIT} --no-report": ("model",),
    f"{FIT} --set ensemble=2": ("model",),
    "update kept other.csv --features features.npy --no-report --quiet": ("kept",),
    "predict plain features.npy --out predicted.csv --quiet": ("predicted.csv",),
    f"{SIMULATE} --out simulated --overwrite": ("simulated",),
}
"""What each command writes, of input that :func:`make_stage` makes."""
MODELS, CROWDS = ("model", "kept"), ("crowd", "saved")
TIMED = ("history.csv", "metrics.json", "config.json", "report.json", "report.html")
"""Files with times in them: no two runs write the same."""
LATER = "report.html"
"""Written when the model is in place."""
SIGNALS = {signal.SIGKILL: {-9}, signal.SIGTERM: {143, -15}, signal.SIGINT: {130, -2}}
ENVIRONMENTS: list[dict[str, str]] = [
    *({"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii"}, {"HOME": "/nowhere"}, {"TMPDIR": "/nowhere"}),
    *({"COLUMNS": "1"}, {"COLUMNS": "x"}, {"TERM": "dumb"}, {"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}, {"TZ": "Nowhere"}),
    *({"RANK": "1"}, {"LOCAL_RANK": "x"}, {"WORLD_SIZE": "2"}, {"WORLD_SIZE": "1", "RANK": "0"}, {"MASTER_PORT": "x"}),
    *({"OMP_NUM_THREADS": "0"}, {"NUMBA_CACHE_DIR": "/nowhere"}, {"NUMBA_DISABLE_JIT": "1"}, {"PYTHONHASHSEED": "7"}),
]
Files = dict[str, str]


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    seconds: float
    err: str


class Stage(NamedTuple):
    """Input, what each command writes by itself, and how long it takes."""

    place: Path
    new: dict[str, Files]
    seconds: dict[str, float]

    @property
    def work(self) -> Path:
        return self.place / "work"


class Task(NamedTuple):
    """A command, what it writes, and what is there before and after it."""

    words: list[str]
    outputs: tuple[str, ...]
    old: Files
    new: Files
    seconds: float


def make_stage(place: Path, commands: dict[str, tuple[str, ...]]) -> Stage:
    """Two crowds, models if commands need them, and the undisturbed result of every command."""
    stock = place / "stock"
    stock.mkdir()
    lines = [f"{SIMULATE} --out one", f"{SIMULATE} --out two --set seed=9"]
    lines += ["aggregate one/labels.csv --out clean.csv --save crowd --quiet"]
    if commands != LABELS_ONLY:
        fit = "fit one/labels.csv --features one/features.npy --epochs 1 --no-report --quiet"
        lines += [f"{fit} --out plain", f"{fit} --out kept --keep-data"]
    for line in lines:
        _well(_run(line.split(), stock))
    for name, new in (
        ("one/labels.csv", "labels.csv"),
        ("two/labels.csv", "other.csv"),
        ("one/features.npy", "features.npy"),
    ):
        (stock / name).rename(stock / new)
    pairs = [f"w{k % 3},x{k % 5},x{(k + 1 + k % 3) % 5},{('left', 'right', 'tie')[k % 3]}" for k in range(60)]
    (stock / "pairs.csv").write_text("\n".join(["worker,left,right,winner", *pairs]))
    (stock / "clean.csv").unlink()
    shutil.rmtree(stock / "one")
    shutil.rmtree(stock / "two")
    stage = Stage(place, {}, {})
    for line, outputs in commands.items():
        _reset(stage)
        stage.seconds[line] = _well(_run(line.split(), stage.work)).seconds
        stage.new[line] = _files(stage.work, outputs)
    return stage


def check_kill(rng: random.Random, stage: Stage) -> str:
    """A signal at a random moment of a command; then the same command once more."""
    task = _set_out(rng, stage)
    sent = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    ended = _run(task.words, stage.work, after=rng.random() * 1.2 * task.seconds, sent=sent)
    note(str([sent.name, ended]))
    if ended.code == 0:
        return "after the end"
    assert ended.code in SIGNALS[sent], ended
    assert "Traceback" not in ended.err, ended.err
    assert sent == signal.SIGKILL or not _left(stage), f"leaves {_left(stage)}"
    states = [_state(stage, task, name) for name in task.outputs]
    for name in task.outputs:
        _check_loads(stage.work / name)
    if task.words[0] != "update" or states == ["old"]:
        more = [] if task.words[0] == "update" or "--overwrite" in task.words else ["--overwrite"]
        more += ["--resume"] if task.words[0] == "fit" else []
        _well(_run(task.words + more, stage.work))
        assert _files(stage.work, task.outputs) == task.new, "the command, run again, writes something else"
    return f"{sent.name}: {', '.join(sorted(set(states)))}"


def check_full_disk(rng: random.Random, stage: Stage) -> str:
    """No file may grow beyond a random size: the command says so, and what was there stays."""
    task = _set_out(rng, stage)
    most = rng.choice([1000, rng.randint(1000, 4000), rng.randint(1000, 100_000)])
    ended = _run(task.words, stage.work, most_bytes=most)
    note(str([most, ended]))
    states = {_state(stage, task, name) for name in task.outputs}  # each is whole; a folder comes after tables
    if ended.code == 0:
        assert states == {"new"}
        return "large enough"
    assert ended.code == 1, ended
    assert ended.err.splitlines()[-1].startswith("error: "), ended.err
    assert "Traceback" not in ended.err, ended.err
    assert not _left(stage)
    return "refused"


def check_environment(rng: random.Random, stage: Stage) -> str:
    """Odd variables, a working folder and names that nobody expects: the usual result, or one message."""
    line = rng.choice([line for line in stage.new if line in LABELS_ONLY])
    environment = rng.choice(ENVIRONMENTS) | rng.choice(ENVIRONMENTS)
    _reset(stage)
    mask = rng.choice([0o022, 0o077, 0o777, 0])
    folder = stage.work.rename(stage.work.with_name(rng.choice(["work", "a b", "é'\"", "-x", "#1%20"])))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "conal", *line.split()],
            cwd=folder,
            env=one_thread(**environment),
            capture_output=True,
            umask=mask,
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=120,
        )
    finally:
        folder.rename(stage.work)
    err = done.stderr.decode("utf-8", "replace")
    note(str([line, environment, oct(mask), done.returncode, err]))
    assert "Traceback" not in err, err
    assert done.returncode in (0, 2), done
    for path in stage.work.rglob("*"):
        path.chmod(0o700)
    found = _files(stage.work, LABELS_ONLY[line])
    assert found == (stage.new[line] if done.returncode == 0 else _files(stage.place / "stock", LABELS_ONLY[line]))
    return "usual" if done.returncode == 0 else "refused"


# ---------------------------------------------------------------- results


def _reset(stage: Stage) -> None:
    shutil.rmtree(stage.work, ignore_errors=True)
    shutil.copytree(stage.place / "stock", stage.work)


def _set_out(rng: random.Random, stage: Stage) -> Task:
    """A command, with nothing at its places or an older result."""
    line = rng.choice(sorted(stage.new))
    words = line.split()
    _reset(stage)
    if words[0] != "update" and rng.random() < 0.5:
        older = [{"labels.csv": "other.csv"}.get(word, word) for word in words]
        _well(_run(older + (["--set", "seed=7"] if words[0] in ("fit", "simulate") else []), stage.work))
        words += [] if "--overwrite" in words else ["--overwrite"]
    note(str(words))
    return Task(words, COMMANDS[line], _files(stage.work, COMMANDS[line]), stage.new[line], stage.seconds[line])


def _files(folder: Path, outputs: tuple[str, ...]) -> Files:
    """The digest of every file of the results; of those with times in them, that they are there."""
    paths = [path for name in outputs for path in [folder / name, *(folder / name).rglob("*")] if path.is_file()]
    return {
        str(path.relative_to(folder)): "" if path.name in TIMED else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if not any(part.startswith(".conal-") for part in path.relative_to(folder).parts)
    }


def _left(stage: Stage) -> list[Path]:
    return list(stage.work.glob(".conal-*"))


def _state(stage: Stage, task: Task, name: str) -> str:
    """Whether a result is "old", "new" or "absent"; anything else is an error."""
    found, before, after = (
        {path: digest for path, digest in files.items() if Path(path).parts[0] == name and Path(path).name != LATER}
        for files in (_files(stage.work, (name,)), task.old, task.new)
    )
    if found and found == before:
        return "old"
    if found == after:
        return "new"
    assert not found, f"{name} is neither old nor new: {sorted(found)}"
    # between two renames both folders are aside
    assert not before or list(stage.work.glob(".conal-*/old")), f"{name} is lost"
    return "absent"


def _check_loads(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.name in MODELS and path.exists():
            conal.load(path)
        elif path.name in CROWDS and path.exists():
            aggregation.load(path)


# ---------------------------------------------------------------- processes


def _well(ended: Ended) -> Ended:
    assert ended.code == 0, ended
    return ended


def _run(
    words: list[str],
    folder: Path,
    *,
    after: float | None = None,
    sent: signal.Signals = signal.SIGKILL,
    most_bytes: int | None = None,
) -> Ended:
    """``conal`` in a fork of this process, which has loaded everything; it may get a signal, or a limit of files."""
    began, err = time.monotonic(), folder.parent / "stderr"
    child = os.fork()
    if child == 0:
        _be_conal(words, folder, err, most_bytes)
    status = 0
    while after is not None and time.monotonic() < began + after:
        time.sleep(0.001)
    if after is not None:
        os.kill(child, sent)
    _, status = os.waitpid(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), time.monotonic() - began, err.read_text(encoding="utf-8"))


def _be_conal(words: list[str], folder: Path, err: Path, most_bytes: int | None) -> None:
    code: Any = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        for stream, place in ((1, os.devnull), (2, os.fspath(err))):
            os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", buffering=1, closefd=False)
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        warnings.resetwarnings()
        sys.argv = ["conal", *words]
        main()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
