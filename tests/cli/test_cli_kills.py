"""Commands that are killed, terminated, or started twice: results stay whole, and the next run cleans up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.files import names_in
from helpers.processes import one_thread

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

Start = Callable[..., "subprocess.Popen[str]"]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")

KILLED_AT = """
import os, signal, sys
name, at, sent = sys.argv[1], int(sys.argv[2]), getattr(signal, sys.argv[3])
step, count = getattr(os, name), 0
def faulty(*arguments, **options):
    global count
    count += 1
    if count == at:
        os.kill(os.getpid(), sent)
    return step(*arguments, **options)
setattr(os, name, faulty)
sys.argv = ["conal", *sys.argv[4:]]
from conal.cli import main
main()
"""
"""``conal`` in a process of its own, which gets a signal at the n-th call of a function of ``os``."""


def signalled(function: str, at: int, sent: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", KILLED_AT, function, str(at), sent, *map(str, arguments)]
    return subprocess.run(words, env=one_thread(), capture_output=True, text=True, check=False, timeout=120)


def fit(crowd: Crowd, out: Path, *options: object) -> tuple[Any, ...]:
    return ("fit", crowd.labels, "--features", crowd.features, "--out", out, "--method", "conal", *options)


def endless(start: Start, crowd: Crowd, out: Path) -> subprocess.Popen[str]:
    """A fit that has written its first checkpoint."""
    process = start(*fit(crowd, out, "--epochs", 1_000_000))
    end = time.monotonic() + 60
    while not out.with_name(f"{out.name}.checkpoint").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "no checkpoint within a minute"
        time.sleep(0.02)
    return process


def test_a_terminated_fit_cleans_up_like_an_interrupted_one(start: Start, shared_crowd: Crowd, tmp_path: Path) -> None:
    process = endless(start, shared_crowd, tmp_path / "m")
    process.send_signal(signal.SIGTERM)
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert printed == ""
    assert "the checkpoint is" in said
    assert said.endswith("terminated\n")
    assert "Traceback" not in said
    assert names_in(tmp_path) == ["m.checkpoint"]


def test_a_second_fit_is_refused_at_the_start(
    start: Start, conal_process: Run, shared_crowd: Crowd, tmp_path: Path
) -> None:
    first = endless(start, shared_crowd, tmp_path / "m")
    second = conal_process(*fit(shared_crowd, tmp_path / "m", "--epochs", 1_000_000))
    assert "m: is being written by another process; wait until it ends, or choose another place" in second.refusal()
    first.kill()  # whatever ends the first, the place is free
    first.communicate()
    assert ".m.conal" in names_in(tmp_path)
    third = conal_process(*fit(shared_crowd, tmp_path / "m", "--epochs", 2))
    assert third.code == 0, third.err
    assert names_in(tmp_path) == ["m"]


TABLES = ("labels.csv", "workers.csv", "confusion.csv")


def aggregate(crowd: Crowd, folder: Path, method: str) -> tuple[Any, ...]:
    options = zip(("--out", "--annotators", "--confusion"), (folder / name for name in TABLES), strict=True)
    return ("aggregate", crowd.labels, "--method", method, "--overwrite", *(word for pair in options for word in pair))


def contents(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in TABLES]


def test_tables_that_belong_together_are_completed_by_the_next_run(
    conal: Run, shared_crowd: Crowd, tmp_path: Path
) -> None:
    for name, method in (("old", "majority-vote"), ("new", "dawid-skene")):
        assert conal(*aggregate(shared_crowd, tmp_path / name, method)).code == 0
    old, new = contents(tmp_path / "old"), contents(tmp_path / "new")
    assert all(one != other for one, other in zip(old, new, strict=True))
    for at in (1, 2, 3):
        folder = tmp_path / str(at)
        shutil.copytree(tmp_path / "old", folder)
        done = signalled("replace", at, "SIGKILL", *aggregate(shared_crowd, folder, "dawid-skene"))
        assert done.returncode == -signal.SIGKILL
        assert contents(folder).count(b"") == 0
        assert sum(one == other for one, other in zip(contents(folder), new, strict=True)) == at - 1
        refused = conal("aggregate", shared_crowd.labels, "--out", folder / "labels.csv")  # the next run, of any kind
        assert "labels.csv: exists already" in refused.refusal()
        assert contents(folder) == new
        assert names_in(folder) == sorted(TABLES)


def test_tables_are_all_old_if_the_command_is_terminated_before_they_are_complete(
    conal: Run, shared_crowd: Crowd, tmp_path: Path
) -> None:
    assert conal(*aggregate(shared_crowd, tmp_path, "majority-vote")).code == 0
    old = contents(tmp_path)
    done = signalled("fsync", 2, "SIGTERM", *aggregate(shared_crowd, tmp_path, "dawid-skene"))
    assert (done.returncode, done.stderr) == (143, "terminated\n")
    assert contents(tmp_path) == old
    assert names_in(tmp_path) == sorted(TABLES)


def test_what_a_killed_report_leaves_does_not_block_overwriting(
    conal: Run, shared_crowd: Crowd, model: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(model, tmp_path / "m")
    before = (folder / "report.html").read_bytes()
    assert signalled("replace", 1, "SIGKILL", "report", folder).returncode == -signal.SIGKILL
    assert ".report.html.conal" in names_in(folder)
    assert (folder / "report.html").read_bytes() == before
    assert conal("verify", folder).code == 0
    assert conal(*fit(shared_crowd, folder, "--epochs", 2, "--overwrite")).code == 0
    assert not any(name.startswith(".") for name in names_in(folder))
    assert names_in(tmp_path) == ["m"]


@pytest.mark.slow
@pytest.mark.parametrize("function", ["fsync", "unlink", "rmdir"])
def test_a_model_that_was_being_replaced_is_whole(
    conal: Run, shared_crowd: Crowd, model: Path, tmp_path: Path, function: str
) -> None:
    """Killed while the new folder is written, and while the old one is removed."""
    folder = shutil.copytree(model, tmp_path / "m")
    for at in (1, 6):
        done = signalled(function, at, "SIGKILL", *fit(shared_crowd, folder, "--epochs", 2, "--overwrite"))
        assert done.returncode in (-signal.SIGKILL, 0)
        assert conal("verify", folder).code == 0
        assert conal("predict", folder, shared_crowd.features, "--out", tmp_path / "p.csv", "--overwrite").code == 0
    assert conal(*fit(shared_crowd, folder, "--epochs", 2, "--overwrite")).code == 0
    assert names_in(tmp_path) == ["m", "p.csv"]


def test_a_linked_result_is_written_where_the_link_leads(conal: Run, shared_crowd: Crowd, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "real.csv").write_text("old")
    (tmp_path / "clean.csv").symlink_to(disk / "real.csv")
    (tmp_path / "m").symlink_to(disk / "model")
    assert "exists already" in conal("aggregate", shared_crowd.labels, "--out", tmp_path / "clean.csv").refusal()
    assert conal("aggregate", shared_crowd.labels, "--out", tmp_path / "clean.csv", "--overwrite").code == 0
    for overwrite in ((), ("--overwrite",)):
        assert conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 2, *overwrite)).code == 0
    assert (tmp_path / "clean.csv").is_symlink()
    assert (tmp_path / "m").is_symlink()
    assert (disk / "real.csv").read_text().startswith("task,label,probability")
    assert (disk / "model" / "config.json").is_file()
    assert names_in(tmp_path) == ["clean.csv", "disk", "m"]
    assert names_in(disk) == ["model", "real.csv"]


def test_all_files_of_a_model_have_the_same_permissions(model: Path) -> None:
    assert {path.stat().st_mode & 0o777 for path in model.iterdir()} == {0o666 & ~umask()}


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
