"""A small crowd on disk, and ways to run the command line in this process or in its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from conal.cli import main
from helpers.files import write_lines
from helpers.processes import Started, one_thread

Run = Callable[..., "Outcome"]

CLASSES = ("cat", "dog", "fish")
N_TASKS, N_FEATURES, N_WORKERS = 90, 5, 6


@dataclass(frozen=True)
class Outcome:
    """What a run of the command line left behind: exit code and the two streams."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """Standard output as the one JSON object that it must be."""
        assert self.code == 0, self.err
        (line,) = self.out.splitlines()
        value = json.loads(line)
        assert isinstance(value, dict)
        return value

    def refusal(self) -> str:
        """The one line that says what is wrong with the input."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("error: ")
        return line


@dataclass(frozen=True)
class Crowd:
    """Files of one small crowd problem, and what is in them."""

    folder: Path
    labels: Path
    features: Path
    rows: list[tuple[int, str, str]]
    x: npt.NDArray[np.float32]
    z: npt.NDArray[Any]


@pytest.fixture(autouse=True)
def _restored_warnings() -> Iterator[None]:
    """``main`` redirects warnings, as a process of its own may; here others follow."""
    show = warnings.showwarning
    with warnings.catch_warnings():
        yield
    warnings.showwarning = show


@pytest.fixture
def conal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``conal`` with these arguments in this process."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["conal", *map(str, arguments)])
        capsys.readouterr()
        with warnings.catch_warnings(), pytest.raises(SystemExit) as ended:
            main()
        streams = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Outcome(code, streams.out, streams.err)

    return run


@pytest.fixture
def conal_process() -> Run:
    """Run ``python -m conal`` with these arguments in a process of its own."""

    def run(*arguments: object) -> Outcome:
        done = subprocess.run(
            command(*arguments), env=one_thread(), capture_output=True, text=True, check=False, timeout=120
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Started]]:
    """Start ``conal`` in a process of its own, which does not outlive the test."""
    started: list[Started] = []

    def run(*arguments: object) -> Started:
        started.append(Started(tmp_path_factory.mktemp("streams"), *arguments))
        return started[-1]

    yield run
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "conal", *map(str, arguments)]


def make_crowd(folder: Path, seed: int = 0) -> Crowd:
    """A crowd of six workers who are right four times in five, on three classes that features tell apart."""
    rng = np.random.default_rng(seed)
    z = rng.integers(len(CLASSES), size=N_TASKS)
    x = rng.normal(size=(N_TASKS, N_FEATURES)).astype(np.float32)
    x[np.arange(N_TASKS), z] += 3
    rows = []
    for task in range(N_TASKS):
        for worker in rng.choice(N_WORKERS, size=3, replace=False):
            label = z[task] if rng.random() < 0.8 else rng.integers(len(CLASSES))
            rows.append((task, f"w{worker}", CLASSES[label]))
    labels, features = folder / "labels.csv", folder / "features.npy"
    write_rows(labels, ("task", "worker", "label"), rows)
    np.save(features, x)
    return Crowd(folder, labels, features, rows, x, np.array(CLASSES)[z])


def write_rows(path: Path, header: tuple[str, ...], rows: Any) -> Path:
    """A CSV file of values as they are: whoever needs quotes gives them."""
    return write_lines(path, *(",".join(map(str, row)) for row in [header, *rows]))


@pytest.fixture
def write() -> Callable[..., Path]:
    """Write a plain CSV file: path, header, rows."""
    return write_rows


@pytest.fixture
def crowd(tmp_path: Path) -> Crowd:
    """A crowd in a fresh folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    return make_crowd(folder)


@pytest.fixture(scope="session")
def shared_crowd(tmp_path_factory: pytest.TempPathFactory) -> Crowd:
    """A crowd that no test changes."""
    return make_crowd(tmp_path_factory.mktemp("crowd"))


@pytest.fixture(scope="session")
def model(shared_crowd: Crowd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder fitted to ``shared_crowd`` by a process of its own; no test changes it."""
    folder = shared_crowd.folder / "model"
    arguments = ("fit", shared_crowd.labels, "--features", shared_crowd.features, "--out", folder, "--epochs", 6)
    process = Started(tmp_path_factory.mktemp("streams"), *arguments)
    assert process.communicate()[1] == ""
    assert process.returncode == 0
    return folder
