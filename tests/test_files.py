"""Files and folders are complete or absent."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conal._files import atomic_file, atomic_files, atomic_folder, check_file_place, check_folder_place, check_place
from conal.errors import InputError
from helpers.faults import RESULTS, WRITERS, in_child, write_file, write_folder, write_group
from helpers.files import names_in as names
from helpers.processes import one_thread

posix = pytest.mark.skipif(os.name != "posix", reason="permissions, signals and forks are those of POSIX")


class HalfWayError(Exception):
    pass


def fail_after_writing(path: Path, error: type[BaseException]) -> None:
    path.write_text("half of the ne")
    raise error


def test_file_appears_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    with atomic_file(target) as aside:
        aside.write_text("new")
        assert aside.parent.parent == tmp_path  # on the same disk
        assert not target.exists()
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


def test_file_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with atomic_file(target) as aside:
        aside.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [HalfWayError, KeyboardInterrupt])
def test_error_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(error), atomic_file(target) as aside:
        fail_after_writing(aside, error)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_error_leaves_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(HalfWayError), atomic_file(tmp_path / "a.txt") as aside:
        fail_after_writing(aside, HalfWayError)
    assert names(tmp_path) == []


def test_parents_are_made(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "b" / "c" / "a.txt") as aside:
        aside.write_text("new")
    assert (tmp_path / "b" / "c" / "a.txt").read_text() == "new"


def test_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("")
    target = tmp_path / "b" / "c" / "a.txt"
    message = re.escape(f"{target}: cannot be written, {tmp_path / 'b'} is not a folder; choose another place")
    with pytest.raises(InputError, match=message), atomic_file(target):
        pass
    with pytest.raises(InputError, match=message), atomic_folder(target):
        pass


def test_a_folder_is_no_place_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=": is a folder; choose another name for the file"), atomic_file(tmp_path):
        pass


def test_a_place_without_a_name() -> None:
    with pytest.raises(InputError, match="cannot be replaced by a result; choose a name inside it"):
        check_place(Path("/"))


def test_a_write_protected_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_place(tmp_path / "new" / "model")
    assert names(tmp_path) == []
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    with pytest.raises(InputError, match=re.escape(f"{tmp_path} is write-protected; choose another place")):
        check_place(tmp_path / "new" / "model")


def test_a_parent_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Path, **options: bool) -> None:
        raise OSError("disk is full")

    monkeypatch.setattr(Path, "mkdir", failing)
    with (
        pytest.raises(InputError, match=r"a\.txt: cannot be written, disk is full; choose another place"),
        atomic_file(tmp_path / "new" / "a.txt"),
    ):
        pass


@posix
def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    (tmp_path / "usual folder").mkdir()
    with atomic_file(tmp_path / "file"):
        pass
    with atomic_folder(tmp_path / "folder") as aside:
        (aside / "x").touch(mode=0o600)  # as some libraries write
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert (tmp_path / "folder").stat().st_mode == (tmp_path / "usual folder").stat().st_mode
    assert (tmp_path / "folder" / "x").stat().st_mode == (tmp_path / "usual").stat().st_mode


@posix
def test_permissions_of_what_is_replaced_are_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o640)
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "folder" / "x").touch(mode=0o400)
    with atomic_file(tmp_path / "file") as aside:
        aside.write_text("new")
    with atomic_folder(tmp_path / "folder") as aside:
        assert aside.parent.stat().st_mode & 0o777 == 0o700  # nobody else reads what is half written
        (aside / "x").write_text("new")
        (aside / "y").write_text("there was none before")
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("file", "folder", "folder/x", "folder/y")}
    assert modes == {"file": 0o640, "folder": 0o700, "folder/x": 0o400, "folder/y": 0o600}


def test_folder_appears_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with atomic_folder(target) as aside:
        (aside / "x").write_text("1")
        assert not target.exists()
    assert names(tmp_path) == ["model"]
    assert names(target) == ["x"]


def test_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("0")
    with atomic_folder(target) as aside:
        (aside / "new").write_text("1")
        assert names(target) == ["old"]
    assert names(tmp_path) == ["model"]
    assert names(target) == ["new"]


@pytest.mark.parametrize("error", [HalfWayError, KeyboardInterrupt])
def test_error_leaves_the_old_folder_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("0")
    with pytest.raises(error), atomic_folder(target) as aside:
        fail_after_writing(aside / "new", error)
    assert names(tmp_path) == ["model"]
    assert (target / "old").read_text() == "0"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_failing_to_move_into_place_brings_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("0")
    rename = os.rename

    def failing(one: Path, other: Path) -> None:
        if (one / "new").exists():
            raise error("no space")
        rename(one, other)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(error, match="no space"), atomic_folder(target) as aside:
        (aside / "new").write_text("1")
    assert names(tmp_path) == ["model"]
    assert names(target) == ["old"]


# ---------------------------------------------------------------- killed processes and failing disks

CASES = [(write, before) for write in WRITERS for before in ("nothing", "old")]


@pytest.fixture(scope="module")
def at_every_step(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What faults do, by a process without torch: it forks hundreds of times, and copies little each time."""
    folder = tmp_path_factory.mktemp("faults")
    cases = [[kind, *case] for kind in ("kill", "error") for case in CASES]
    words = [sys.executable, "-m", "helpers.faults", str(folder), json.dumps(cases)]
    done = subprocess.run(words, cwd=Path(__file__).parent, env=one_thread(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    assert len(found) == len(cases)
    return found


@posix
@pytest.mark.parametrize("kind", ["kill", "error"])
@pytest.mark.parametrize(("write", "before"), CASES)
def test_a_fault_at_every_step_leaves_whole_results(
    at_every_step: dict[str, list[dict[str, Any]]], write: str, before: str, kind: str
) -> None:
    """Old, new or absent. Files of a group are renamed one after the other; a kill between two leaves some of each."""
    names = RESULTS[WRITERS[write]]
    old = "old" if before == "old" else None
    steps = at_every_step[json.dumps([kind, write, before])]
    for at, step in enumerate(steps, start=1):
        last = at == len(steps)
        assert step["code"] in ({-signal.SIGKILL, 4} if kind == "kill" else {0, 3, 4}), at
        assert (step["code"] == 4) == last, at
        found = step["found"]
        if write == "folder":
            absent = [None] * len(names)
            assert found in (["new"] * len(names), [old] * len(names), *([absent] if kind == "kill" else [])), at
        else:
            n_new = found.count("new")
            assert found == ["new"] * n_new + [old] * (len(names) - n_new), at
        visible = {name for name in step["files"] if not name.startswith((".conal-", "deep/.conal-"))}
        assert visible == {name for name, text in zip(names, found, strict=True) if text}, at
        assert kind == "kill" or visible == set(step["files"]) or step["code"] == 0, at  # 0: only cleaning up failed
        assert step["found again"] == ["again"] * len(names)  # nothing is in the way of the next run
    assert {step["found"][0] for step in steps} >= {"new", old}
    assert len(steps) > 6


@posix
def test_a_killed_process_in_the_middle_of_its_work(tmp_path: Path) -> None:
    def half() -> None:
        with atomic_files([tmp_path / "a.csv", tmp_path / "b.csv"]) as (one, _):
            one.write_text("hal")
            os.kill(os.getpid(), signal.SIGKILL)

    (tmp_path / "a.csv").write_text("old")
    assert in_child(half) == -signal.SIGKILL
    assert [name for name in names(tmp_path) if not name.startswith(".conal-")] == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "old"
    check_file_place(tmp_path / "b.csv", overwrite=False)


def test_what_a_killed_process_left_in_a_folder_does_not_block_replacing_it(tmp_path: Path) -> None:
    check = partial(check_folder_place, tmp_path / "model", overwrite=True, kind="a model", own=lambda _: ["x", "y"])
    write_folder(tmp_path, "old")
    (tmp_path / "model" / ".conal-a1b2c3d4").mkdir()
    check()
    (tmp_path / "model" / ".conal-notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"model: contains '\.conal-notes\.txt', which conal did not write"):
        check()


@posix
def test_several_writers_of_the_same_file(tmp_path: Path) -> None:
    """Four processes at one place, twenty times each: every file is whole, and nothing stays behind."""
    target = tmp_path / "a.csv"
    children = []
    for k in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for _ in range(20):
                    with atomic_file(target) as aside:
                        aside.write_text(str(k) * 1000)
                    content = target.read_text()
                    assert content == content[0] * 1000
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    assert names(tmp_path) == ["a.csv"]


# ---------------------------------------------------------------- what is not conal's, links, names


def test_a_planted_staging_folder_replaces_nothing(tmp_path: Path) -> None:
    """Version 0.2.0 completed what looked like the work of a killed process."""
    (tmp_path / "a.csv").write_text("mine")
    for planted in (tmp_path / ".a.csv.conal", tmp_path / ".conal-a1b2c3d4"):
        planted.mkdir()
        for name, text in (("lock", ""), ("new", "theirs"), ("commit", "")):
            (planted / name).write_text(text)
        (planted / "group.json").write_text(json.dumps({"id": "x", "targets": ["a.csv"]}))
    with pytest.raises(InputError, match="exists already"):
        check_file_place(tmp_path / "a.csv", overwrite=False)
    assert (tmp_path / "a.csv").read_text() == "mine"


def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "real.csv").write_text("old")
    (tmp_path / "a.csv").symlink_to(Path("data") / "real.csv")
    (tmp_path / "model").symlink_to(tmp_path / "data" / "real model")  # which is not there yet
    write_file(tmp_path, "new")
    write_folder(tmp_path, "new")
    write_folder(tmp_path, "newer")
    assert (tmp_path / "a.csv").is_symlink()
    assert (tmp_path / "model").is_symlink()
    assert (tmp_path / "data" / "real.csv").read_text() == "new"
    assert (tmp_path / "data" / "real model" / "x").read_text() == "newer"
    assert names(tmp_path) == ["a.csv", "data", "model"]
    assert names(tmp_path / "data") == ["real model", "real.csv"]


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to(tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"a\.csv: is a symbolic link that leads nowhere"):
        write_file(tmp_path, "new")
    with pytest.raises(InputError, match=r"b\.csv: .*a\.csv, in which it would be, is a symbolic link"):
        check_file_place(tmp_path / "a.csv" / "b.csv", overwrite=True)


@posix
def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(InputError, match="is not a file that can be replaced"):
        write_file(tmp_path, "new")
    with pytest.raises(InputError, match="is not a file that can be replaced"):
        check_file_place(tmp_path / "a.csv", overwrite=True)


def test_the_longest_names(tmp_path: Path) -> None:
    for name in ("n" * 255, "é" * 127):
        with atomic_file(tmp_path / name) as aside:
            aside.write_text("new")
        assert (tmp_path / name).read_text() == "new"
    assert len(names(tmp_path)) == 2


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is flushed to the disk and put into place, in this order."""
    seen: list[str] = []

    def noted(function: Callable[..., Any], name_of: Callable[..., str]) -> Callable[..., Any]:
        def note(*arguments: Any) -> Any:
            seen.append(name_of(*arguments))
            return function(*arguments)

        return note

    monkeypatch.setattr(os, "fsync", noted(os.fsync, lambda handle: Path(os.readlink(f"/proc/self/fd/{handle}")).name))
    monkeypatch.setattr(os, "replace", noted(os.replace, lambda one, to: f"> {Path(to).name}"))
    monkeypatch.setattr(os, "rename", noted(os.rename, lambda one, to: f"> {Path(to).name}"))
    return seen


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks Linux for names of open files")
def test_all_is_on_the_disk_before_it_is_put_into_place(tmp_path: Path, synced: list[str]) -> None:
    write_file(tmp_path, "new")
    assert synced == ["new", "> a.csv", tmp_path.name]
    synced.clear()
    write_folder(tmp_path, "old")
    assert sorted(synced[:2]) == ["x", "y"]
    assert synced[2:] == ["new", "> model", tmp_path.name]
    synced.clear()
    write_folder(tmp_path, "new")
    assert synced[2:] == ["new", "> old", "> model", tmp_path.name]
    synced.clear()
    write_group(tmp_path, "new")
    assert synced[:6] == ["new"] * 3 + ["> a.csv", "> b.csv", "> c.csv"]
    assert sorted(synced[6:]) == sorted([tmp_path.name, "deep"])
