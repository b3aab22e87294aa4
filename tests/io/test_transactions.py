"""Real processes, killed or failing at every step of writing: the result is whole, and nothing stays behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conal.errors import InputError
from conal.io import atomic, file_system, staging, transactions
from conal.io.atomic import atomic_file, atomic_files, atomic_folder, check_folder_place
from helpers.faults import (
    FILES,
    RESULTS,
    WRITERS,
    Fault,
    everything,
    in_child,
    texts,
    write_file,
    write_folder,
    write_group,
    write_mixed,
)
from helpers.files import names_in
from helpers.processes import one_thread

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills processes, and forks them")


CASES = [
    ("file", "nothing", True),
    ("file", "old", True),
    ("group", "nothing", True),
    ("group", "old", True),
    ("folder", "nothing", True),
    ("folder", "old", True),
    ("folder", "old", False),
    ("mixed", "nothing", True),
    ("mixed", "old", True),
]


@pytest.fixture(scope="module")
def at_every_step(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What faults do, by a process without torch: it forks hundreds of times, and copies little each time."""
    folder = tmp_path_factory.mktemp("faults")
    cases = [[kind, *case] for kind in ("kill", "error") for case in CASES]
    words = [sys.executable, "-m", "helpers.faults", str(folder), json.dumps(cases)]
    done = subprocess.run(words, cwd=Path(__file__).parents[1], env=one_thread(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    assert len(found) == len(cases)
    return found


@pytest.mark.parametrize("kind", ["kill", "error"])
@pytest.mark.parametrize(("write", "before", "exchange"), CASES)
def test_a_fault_at_every_step_leaves_all_old_or_all_new(
    at_every_step: dict[str, list[dict[str, Any]]], write: str, before: str, kind: str, exchange: bool
) -> None:
    """``exchange``: with the system's call that exchanges two folders, and without."""
    names = RESULTS[WRITERS[write]]
    new, again = ["new"] * len(names), ["again"] * len(names)
    whole = ["old" if before == "old" else None] * len(names)
    steps = at_every_step[json.dumps([kind, write, before, exchange])]
    for at, step in enumerate(steps, start=1):
        last = at == len(steps)
        assert step["code"] in ({-signal.SIGKILL, 4} if kind == "kill" else {0, 3, 4}), at
        assert (step["code"] == 4) == last, at
        found = step["found"]
        assert found in (new, whole), (at, found)
        assert set(step["files"]) == {name for name, text in zip(names, found, strict=True) if text}, at
        assert step["found again"] == again  # nothing is in the way of the next run
        assert set(step["files again"]) == set(names)
    assert {step["found"][0] for step in steps} == {"new", whole[0]}
    assert len(steps) > 15


def test_an_error_after_the_first_of_two_results_leaves_both_old(tmp_path: Path) -> None:
    write_mixed(tmp_path, "old")

    def fail_between() -> None:
        with atomic.together():
            write_file(tmp_path, "new")
            assert (tmp_path / "a.csv").read_text() == "old"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_between()
    assert texts(tmp_path, write_mixed) == ["old"] * 3
    assert everything(tmp_path) == set(RESULTS[write_mixed])
    write_file(tmp_path, "new")  # outside of the block, results are put into place one by one
    assert (tmp_path / "a.csv").read_text() == "new"


def test_a_claim_keeps_what_was_committed_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*places: Path) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    def write_and_fail() -> None:
        with atomic.claimed(tmp_path / "model", lambda: None), monkeypatch.context() as patched:
            patched.setattr(os, "replace", full)
            write_mixed(tmp_path, "new")

    write_mixed(tmp_path, "old")
    with pytest.raises(OSError, match="the disk is full"):
        write_and_fail()
    assert texts(tmp_path, write_mixed) == ["old"] * 3
    transactions.recover(tmp_path / "a.csv")
    assert texts(tmp_path, write_mixed) == ["new"] * 3
    assert everything(tmp_path) == set(RESULTS[write_mixed])


def test_a_killed_process_in_the_middle_of_its_work(tmp_path: Path) -> None:
    def half() -> None:
        with atomic_files([tmp_path / "a.csv", tmp_path / "b.csv"]) as (one, _):
            one.write_text("hal")
            os.kill(os.getpid(), signal.SIGKILL)

    (tmp_path / "a.csv").write_text("old")
    assert in_child(half) == -signal.SIGKILL
    assert names_in(tmp_path) == [".a.csv.conal", ".b.csv.conal", "a.csv"]
    atomic.check_file_place(tmp_path / "b.csv", overwrite=False)
    assert names_in(tmp_path) == [".a.csv.conal", "a.csv"]
    with pytest.raises(InputError, match="exists already"):
        atomic.check_file_place(tmp_path / "a.csv", overwrite=False)
    assert names_in(tmp_path) == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "old"


def test_any_member_of_a_committed_group_completes_all(tmp_path: Path) -> None:
    """Killed between two renames; the next run needs only one of the three tables."""
    for at in range(1, 4):
        for next_one in FILES:
            folder = tmp_path / f"{at}-{next_one.replace('/', '-')}"
            folder.mkdir()
            write_group(folder, "old")
            fault = Fault(at, "kill")

            def act(folder: Path = folder, fault: Fault = fault) -> None:
                os.replace = fault.wrap(os.replace)
                write_group(folder, "new")

            assert in_child(act) == -signal.SIGKILL
            assert texts(folder, write_group) == ["new"] * (at - 1) + ["old"] * (4 - at)
            transactions.recover(folder / next_one)
            assert texts(folder, write_group) == ["new"] * 3
            assert everything(folder) == set(FILES)


def test_what_belongs_together_is_found_after_a_move(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    write_group(here, "old")
    fault = Fault(2, "kill")

    def act() -> None:
        os.replace = fault.wrap(os.replace)
        write_group(here, "new")

    assert in_child(act) == -signal.SIGKILL
    here.rename(there)
    transactions.recover(there / "deep" / "c.csv")
    assert texts(there, write_group) == ["new"] * 3


claimed = partial(atomic.claimed, check=lambda: None)


def test_a_living_process_is_left_alone(tmp_path: Path) -> None:
    with waiting_writer(tmp_path / "a.csv"):
        transactions.recover(tmp_path / "a.csv")
        atomic.check_file_place(tmp_path / "a.csv", overwrite=False)
        assert (tmp_path / ".a.csv.conal" / "new").read_text() == "half"
        message = r"a\.csv: is being written by another process; wait until it ends, or choose another place"
        with pytest.raises(InputError, match=message), claimed(tmp_path / "a.csv"):
            pass
    transactions.recover(tmp_path / "a.csv")
    assert names_in(tmp_path) == []


class waiting_writer:  # noqa: N801 - used like a function
    """A process that has written half of a file; it is killed at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        self.child = os.fork()
        if self.child == 0:
            with atomic_file(self.path) as aside:
                aside.write_text("half")
                time.sleep(60)
            os._exit(0)
        half = staging.staging_folder(self.path) / "new"
        while not (half.exists() and half.read_text() == "half"):
            time.sleep(0.01)

    def __exit__(self, *_: object) -> None:
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


def test_writers_of_the_same_file_take_turns(tmp_path: Path) -> None:
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
    assert names_in(tmp_path) == ["a.csv"]


def test_a_claim_keeps_others_out_and_lets_its_holder_write(tmp_path: Path) -> None:
    target = tmp_path / "new" / "deep" / "model"

    def claim() -> None:
        with claimed(target):
            pass

    def fail_to_claim() -> None:
        with pytest.raises(InputError, match="is being written by another process"):
            claim()

    with claimed(target):
        assert in_child(fail_to_claim) == 0
        write_folder(target.parent, "mine")
        assert in_child(fail_to_claim) == 0  # also after writing
    assert names_in(target.parent) == ["model"]
    assert in_child(claim) == 0


def test_a_claim_waits_for_a_process_that_only_looks(tmp_path: Path) -> None:
    """Of several processes of one run, another may be looking for something to recover just then."""
    target = tmp_path / "model"
    looking = staging.Staging(target)
    assert looking.try_lock()
    leaving = threading.Timer(0.3, looking.unlock)
    leaving.start()
    with claimed(target):
        assert not leaving.is_alive()
    leaving.join()
    assert names_in(tmp_path) == []


def test_a_place_that_was_written_before_it_was_claimed(tmp_path: Path) -> None:
    """Another process ended just then: what it wrote is not replaced unasked."""
    target = tmp_path / "model"
    looks: list[Path] = []

    def check() -> None:
        check_folder_place(target, overwrite=False, kind="a folder", own=lambda _: [])
        if not looks:
            assert in_child(lambda: write_folder(tmp_path, "theirs")) == 0
        looks.append(target)

    with pytest.raises(InputError, match="model: exists already"), atomic.claimed(target, check):
        pytest.fail("claimed")
    assert len(looks) == 1
    assert names_in(tmp_path) == ["model"]


def test_a_claim_that_came_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), claimed(tmp_path / "new" / "deep" / "model"):
        raise KeyError
    assert names_in(tmp_path) == []


# ---------------------------------------------------------------- what is not conal's


def test_folders_that_only_look_like_staging_folders(tmp_path: Path) -> None:
    mine = tmp_path / ".a.csv.conal"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    transactions.recover(tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"\.a\.csv\.conal: is in the way of .*a\.csv; move it"):
        write_file(tmp_path, "new")
    assert (mine / "thesis.txt").read_text() == "years of work"


def test_links_out_of_staging_folders_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "lock").write_text("")
    (outside / "thesis.txt").write_text("years of work")
    (tmp_path / ".a.csv.conal").symlink_to(outside)
    transactions.recover(tmp_path / "a.csv")
    with pytest.raises(InputError, match="is in the way of"):
        write_file(tmp_path, "new")
    staging = tmp_path / ".b.csv.conal"
    staging.mkdir()
    (staging / "lock").write_text("")
    (staging / "new").symlink_to(outside)
    (staging / "old").symlink_to(outside / "thesis.txt")
    transactions.recover(tmp_path / "b.csv")
    assert names_in(outside) == ["lock", "thesis.txt"]
    assert (outside / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("committed", [False, True])
def test_a_forged_note_moves_nothing_elsewhere(tmp_path: Path, committed: bool) -> None:
    """A staging folder from elsewhere can name any path; only those with the same id belong to it."""
    victim, here = tmp_path / "victim", tmp_path / "download"
    victim.mkdir()
    (victim / "labels.csv").write_text("mine")
    staging = here / ".a.csv.conal"
    staging.mkdir(parents=True)
    (staging / "lock").touch()
    (staging / "new").write_text("theirs")
    (staging / "group.json").write_text(json.dumps({"id": "x", "targets": ["a.csv", "../victim/labels.csv", 7, "\0"]}))
    if committed:
        (staging / "commit").touch()
    transactions.recover(here / "a.csv")
    assert (victim / "labels.csv").read_text() == "mine"
    assert names_in(victim) == ["labels.csv"]
    assert names_in(here) == (["a.csv"] if committed else [])


# ---------------------------------------------------------------- links, names and permissions


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
    assert names_in(tmp_path) == ["a.csv", "data", "model"]
    assert names_in(tmp_path / "data") == ["real model", "real.csv"]


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to(tmp_path / "a.csv")
    with pytest.raises(InputError, match="is a symbolic link that leads nowhere"):
        write_file(tmp_path, "new")


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(InputError, match="is not a file that can be replaced"):
        write_file(tmp_path, "new")
    with pytest.raises(InputError, match="is not a file that can be replaced"):
        atomic.check_file_place(tmp_path / "a.csv", overwrite=True)


def test_the_longest_names(tmp_path: Path) -> None:
    for name in ("n" * 255, "é" * 127):
        with atomic_file(tmp_path / name) as aside:
            aside.write_text("new")
        assert (tmp_path / name).read_text() == "new"
    assert len(names_in(tmp_path)) == 2


def test_private_files_of_a_writer_get_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    with atomic_folder(tmp_path / "model") as aside:
        (aside / "x").touch(mode=0o600)
    assert (tmp_path / "model" / "x").stat().st_mode == (tmp_path / "usual").stat().st_mode


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
    monkeypatch.setattr(file_system, "exchange", noted(file_system.exchange, lambda one, to: f"> {to.name}"))
    return seen


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks Linux for names of open files")
def test_all_is_on_the_disk_before_it_is_put_into_place(tmp_path: Path, synced: list[str]) -> None:
    write_file(tmp_path, "new")
    assert synced == ["new", ".a.csv.conal", "> a.csv", tmp_path.name]
    synced.clear()
    write_folder(tmp_path, "old")
    assert sorted(synced[:2]) == ["x", "y"]
    assert synced[2:] == ["new", ".model.conal", "> model", tmp_path.name]
    synced.clear()
    write_folder(tmp_path, "new")
    assert synced[2:] == ["new", ".model.conal", "> model", tmp_path.name]
    synced.clear()
    write_group(tmp_path, "new")
    assert synced[:3] == ["new"] * 3
    assert synced[3:6] == ["group.json"] * 3
    assert synced[6:10] == [".a.csv.conal", ".b.csv.conal", ".c.csv.conal", ".a.csv.conal"]  # the last has the commit
    assert synced[10:13] == ["> a.csv", "> b.csv", "> c.csv"]
    assert sorted(synced[13:]) == sorted([tmp_path.name, "deep"])


# ---------------------------------------------------------------- signals at the worst moment


@pytest.mark.parametrize("moment", ["Staging.is_empty", "_settle", "Staging.unlock"])
def test_control_c_while_a_staging_folder_is_made_or_removed_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, moment: str
) -> None:
    owner, name = (staging.Staging, moment.split(".")[1]) if "." in moment else (transactions, moment)
    step = getattr(owner, name)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background ignore Ctrl-C
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, handler))

    def interrupted(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return step(*arguments)

    monkeypatch.setattr(owner, name, interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        transactions.transaction([tmp_path / "a.txt"], lambda path: path.touch()) as (new,),
    ):
        new.write_text("x")
    assert names_in(tmp_path) in ([], ["a.txt"])
