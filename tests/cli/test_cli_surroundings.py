"""A terminal of few characters, a full disk, and an environment that no launcher sets: messages, and whole files."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.files import names_in, write_lines
from helpers.processes import code_of, conal_here, fork, one_thread

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

ROWS = ("1,日本,猫", "1,b,犬😀", "2,日本,猫", "2,b,猫", "3,b,inf", "3,日本,inf")
METHOD = ("--method", "majority-vote")


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, "-m", "conal", *map(str, arguments)]
    return subprocess.run(words, env=one_thread(**environment), capture_output=True, check=False)


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "labels.csv", "task,worker,label", *ROWS)


def test_a_terminal_of_few_characters(labels: Path, tmp_path: Path) -> None:
    encoding = "cp1252"
    out = tmp_path / "out.csv"
    done = run("aggregate", labels, *METHOD, "--out", out, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u732b 1" in done.stdout
    done = run("aggregate", labels, *METHOD, "--out", out, "--overwrite", "--json", PYTHONIOENCODING=encoding)
    assert json.loads(done.stdout)["counts"].keys() == {"猫", "犬😀", "inf"}
    assert "猫" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"WORLD_SIZE": "abc"}, "WORLD_SIZE is 'abc', expected a whole number of at least 1"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE is '0', expected a whole number of at least 1"),
        ({"WORLD_SIZE": "2"}, "RANK is not set, expected a whole number of at least 0"),
        ({"WORLD_SIZE": "2", "RANK": "x"}, "RANK is 'x', expected"),
        ({"WORLD_SIZE": "1", "RANK": "1"}, "RANK is 1, but WORLD_SIZE is 1, so that ranks end at 0; unset"),
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "2"}, "LOCAL_RANK is 2, but WORLD_SIZE is 2"),
    ],
)
def test_an_environment_that_no_launcher_sets(
    environment: dict[str, str], message: str, conal: Run, labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert message in conal("aggregate", labels, *METHOD, "--out", tmp_path / "out.csv").refusal()
    assert names_in(tmp_path) == ["labels.csv"]


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK"])
def test_without_a_launcher_a_process_is_the_first(
    name: str, conal: Run, crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that a scheduler or a shell left behind once made ``fit`` end with 0 and without a model."""
    monkeypatch.setenv(name, "1")
    done = conal("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 1)
    assert done.code == 0
    assert "labels by 6 annotators" in done.out
    assert (tmp_path / "m" / "model.safetensors").exists()
    done = conal("aggregate", crowd.labels, *METHOD, "--out", tmp_path / "clean.csv", "--defend")
    assert done.code == 0
    assert "90 tasks" in done.out
    assert (tmp_path / "clean.csv").exists()


def test_no_command_trains_at_an_impossible_rank(
    conal: Run, crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "1")
    fit = conal("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 1)
    demo = conal("demo", "--out", tmp_path / "m", "--epochs", 1, "--seeds", 1, "--quiet")
    for done in (fit, demo):
        assert "RANK is 1, but WORLD_SIZE is 1" in done.refusal()
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_full_disk(ending: str, labels: Path, tmp_path: Path) -> None:
    def act() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))
        conal_here("aggregate", labels, *METHOD, "--out", tmp_path / f"out.{ending}")

    ours, theirs = os.openpty()  # which is no file, and has no limit
    assert code_of(fork(act, Path(os.ttyname(theirs)))) == 1
    said = os.read(ours, 10_000).decode()
    assert said.startswith("error: ")
    assert "File too large" in said
    assert said.count("\n") == 1
    assert names_in(tmp_path) == ["labels.csv"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full, as Linux has")
def test_output_to_a_full_disk_is_one_message(labels: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        words = [sys.executable, "-m", "conal", "inspect", str(labels)]
        done = subprocess.run(words, env=one_thread(), stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr
    assert done.stderr.count(b"\n") == 1
