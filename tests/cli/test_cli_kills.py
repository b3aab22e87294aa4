"""Commands that are killed, terminated, or started twice: results are whole or absent."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from helpers.files import names_in
from helpers.processes import Started, code_of, conal_here, fork

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

Start = Callable[..., Started]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")

Signalled = Callable[..., "Ended"]


class Ended(NamedTuple):
    """How a process ended, and what it said."""

    code: int
    err: str


@pytest.fixture
def signalled(tmp_path_factory: pytest.TempPathFactory) -> Signalled:
    """Run ``conal`` in a process that gets a signal at the n-th call of a function of ``os``."""

    def act(function: str, at: int, sent: signal.Signals, arguments: tuple[object, ...]) -> None:
        step, count = getattr(os, function), 0

        def faulty(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == at:
                os.kill(os.getpid(), sent)
            return step(*arguments, **options)

        setattr(os, function, faulty)
        conal_here(*arguments)

    def run(function: str, at: int, sent: signal.Signals, *arguments: object) -> Ended:
        folder = tmp_path_factory.mktemp("streams")
        child = fork(partial(act, function, at, sent, arguments), folder / "out", folder / "err")
        return Ended(code_of(child), (folder / "err").read_text(encoding="utf-8"))

    return run


def fit(crowd: Crowd, out: Path, *options: object) -> tuple[Any, ...]:
    return ("fit", crowd.labels, "--features", crowd.features, "--out", out, "--method", "conal", *options)


def endless(start: Start, crowd: Crowd, out: Path) -> Started:
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
    printed, said = process.communicate()
    assert process.returncode == 143
    assert printed == ""
    assert "the checkpoint is" in said
    assert said.endswith("terminated\n")
    assert "Traceback" not in said
    assert names_in(tmp_path) == ["m.checkpoint"]


TABLES = ("labels.csv", "workers.csv", "confusion.csv")


def visible(folder: Path) -> list[str]:
    """Without what was written aside by a process that was killed."""
    return [name for name in names_in(folder) if not name.startswith(".conal-")]


def aggregate(crowd: Crowd, folder: Path, method: str) -> tuple[Any, ...]:
    options = zip(("--out", "--annotators", "--confusion"), (folder / name for name in TABLES), strict=True)
    return ("aggregate", crowd.labels, "--method", method, "--overwrite", *(word for pair in options for word in pair))


def contents(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in TABLES]


def test_tables_of_one_command_appear_one_after_the_other(
    conal: Run, signalled: Signalled, shared_crowd: Crowd, tmp_path: Path
) -> None:
    for name, method in (("old", "majority-vote"), ("new", "dawid-skene")):
        assert conal(*aggregate(shared_crowd, tmp_path / name, method)).code == 0
    old, new = contents(tmp_path / "old"), contents(tmp_path / "new")
    assert all(one != other for one, other in zip(old, new, strict=True))
    for at in (1, 2, 3):
        folder = tmp_path / str(at)
        shutil.copytree(tmp_path / "old", folder)
        done = signalled("replace", at, signal.SIGKILL, *aggregate(shared_crowd, folder, "dawid-skene"))
        assert done.code == -signal.SIGKILL
        assert contents(folder) == new[: at - 1] + old[at - 1 :]
        assert visible(folder) == sorted(TABLES)
        assert conal(*aggregate(shared_crowd, folder, "dawid-skene")).code == 0
        assert contents(folder) == new


def test_tables_are_all_old_if_the_command_is_terminated_before_they_are_complete(
    conal: Run, signalled: Signalled, shared_crowd: Crowd, tmp_path: Path
) -> None:
    assert conal(*aggregate(shared_crowd, tmp_path, "majority-vote")).code == 0
    old = contents(tmp_path)
    done = signalled("fsync", 2, signal.SIGTERM, *aggregate(shared_crowd, tmp_path, "dawid-skene"))
    assert done == (143, "terminated\n")
    assert contents(tmp_path) == old
    assert names_in(tmp_path) == sorted(TABLES)


def test_what_a_killed_report_leaves_does_not_block_overwriting(
    conal: Run, signalled: Signalled, shared_crowd: Crowd, model: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(model, tmp_path / "m")
    before = (folder / "report.html").read_bytes()
    assert signalled("replace", 1, signal.SIGKILL, "report", folder).code == -signal.SIGKILL
    assert any(name.startswith(".conal-") for name in names_in(folder))
    assert (folder / "report.html").read_bytes() == before
    assert conal("predict", folder, shared_crowd.features, "--out", tmp_path / "p.csv").code == 0
    assert conal(*fit(shared_crowd, folder, "--epochs", 2, "--overwrite")).code == 0
    assert not any(name.startswith(".") for name in names_in(folder))
    assert names_in(tmp_path) == ["m", "p.csv"]


@pytest.mark.slow
def test_a_model_that_was_being_replaced_is_whole(
    conal: Run, signalled: Signalled, shared_crowd: Crowd, model: Path, tmp_path: Path
) -> None:
    """Killed while the new folder is written, and once it is in place."""
    folder = shutil.copytree(model, tmp_path / "m")
    for function, at in (("fsync", 3), ("fsync", 6), ("rename", 1), ("rmdir", 1)):
        done = signalled(function, at, signal.SIGKILL, *fit(shared_crowd, folder, "--epochs", 2, "--overwrite"))
        assert done.code == -signal.SIGKILL
        assert conal("predict", folder, shared_crowd.features, "--out", tmp_path / "p.csv", "--overwrite").code == 0
    assert conal(*fit(shared_crowd, folder, "--epochs", 2, "--overwrite")).code == 0
    assert visible(tmp_path) == ["m", "p.csv"]


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


def test_permissions_of_replaced_results_are_kept(conal: Run, shared_crowd: Crowd, tmp_path: Path) -> None:
    """What was made private stays private: also with --overwrite, and by an update."""
    out, folder = tmp_path / "clean.csv", tmp_path / "crowd"
    command = ("aggregate", shared_crowd.labels, "--out", out, "--save", folder, "--quiet")
    assert conal(*command).code == 0
    for path in (out, *folder.iterdir()):
        path.chmod(0o600)
    folder.chmod(0o700)
    new = tmp_path / "new.csv"
    new.write_text("task,worker,label\n0,somebody,cat\n")
    for again in ((*command, "--overwrite"), ("update", folder, new, "--out", out, "--overwrite")):
        assert conal(*again).code == 0
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in (out, *folder.iterdir())} == {0o600}


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
