"""Files and folders are complete or absent."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from conal.errors import InputError
from conal.io import file_system
from conal.io.atomic import atomic_file, atomic_folder, check_place
from helpers.files import names_in as names


class HalfWayError(Exception):
    pass


def fail_after_writing(path: Path, error: type[BaseException]) -> None:
    path.write_text("half of the ne")
    raise error


def test_file_appears_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    with atomic_file(target) as aside:
        aside.write_text("new")
        assert aside.parent == tmp_path / ".a.txt.conal"  # on the same disk
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


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    (tmp_path / "usual folder").mkdir()
    with atomic_file(tmp_path / "file"):
        pass
    with atomic_folder(tmp_path / "folder"):
        pass
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert (tmp_path / "folder").stat().st_mode == (tmp_path / "usual folder").stat().st_mode


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


def test_failing_to_move_into_place_brings_the_old_folder_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system cannot exchange folders, the old one is moved away first."""
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("0")
    rename = os.rename

    def failing(one: Path, other: Path) -> None:
        if (one / "new").exists():
            raise OSError("no space")
        rename(one, other)

    monkeypatch.setattr(file_system, "exchange", lambda one, other: False)
    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(OSError, match="no space"), atomic_folder(target) as aside:
        (aside / "new").write_text("1")
    assert names(tmp_path) == ["model"]
    assert names(target) == ["old"]
