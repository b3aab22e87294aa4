"""Staging folders: where a result is written, locked by the process that writes it, until it is put into place.

The staging folder of ``labels.csv`` is ``.labels.csv.conal``. It contains

- ``lock``, locked by the process that writes (the system releases the lock when the process ends, however it ends),
- ``new``, the file or folder that is being written,
- ``old``, the folder that is being replaced, in a group, or where the file system cannot exchange two folders,
- ``group.json``, an id and the places of all results that belong together, if there are several,
- ``commit``, in one of the staging folders of a group: all of the group's ``new`` are complete and durable.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from conal.errors import InputError
from conal.io import file_system
from conal.io.file_system import lock, remove, sync, sync_folder

__all__ = ["Staging", "staging_folder"]

LOCK, NEW, OLD, GROUP, COMMIT = "lock", "new", "old", "group.json", "commit"
LONGEST_NAME = 240
"""Bytes of a file name, of the 255 that file systems allow."""
LONGEST_NOTE = 2**20
"""Characters of ``group.json``."""


def staging_folder(target: Path) -> Path:
    """Where a target's staging folder is."""
    name = os.fsencode(target.name)
    if len(name) > LONGEST_NAME:
        return target.with_name(f".{hashlib.sha256(name).hexdigest()}.conal")
    return target.with_name(f".{target.name}.conal")


class Staging:
    """The staging folder of one target."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.folder = staging_folder(target)
        self.new = self.folder / NEW
        self._handle: int | None = None

    def exists(self) -> bool:
        """Whether there is one. A link, or a folder without a lock that is not empty, is not conal's."""
        if self.folder.is_symlink() or (self.folder / LOCK).is_symlink():
            return False
        try:
            found = os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return not found or LOCK in found

    def try_lock(self) -> bool:
        """Lock the folder, which is made if need be; False if another process has locked it."""
        try:
            self.folder.mkdir(mode=0o700)
        except FileExistsError:
            if not self.exists() and os.path.lexists(self.folder):
                raise InputError(f"{self.folder}: is in the way of {self.target}; move it") from None
        try:
            handle, created = self._open_lock()
        except FileNotFoundError:  # removed since by the process that had it
            return False
        if lock(handle, created) and self._is_current(handle):
            self._handle = handle
            return True
        os.close(handle)
        return False

    def _open_lock(self) -> tuple[int, bool]:
        flags, path = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), self.folder / LOCK
        try:
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600), True
        except FileExistsError:
            return os.open(path, flags), False

    def _is_current(self, handle: int) -> bool:
        """Whether the lock is still the folder's: its last holder may have removed it."""
        try:
            return os.path.samestat(os.fstat(handle), os.lstat(self.folder / LOCK))
        except FileNotFoundError:
            return False

    def unlock(self) -> None:
        """Let others in."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def is_empty(self) -> bool:
        return all(found.name == LOCK for found in self.folder.iterdir())

    def commit(self) -> None:
        """Note durably that everything of the group is complete."""
        (self.folder / COMMIT).touch()
        sync_folder(self.folder)

    def is_committed(self) -> bool:
        return (self.folder / COMMIT).is_file()

    def write_group(self, mark: str, targets: Sequence[Path]) -> None:
        """Note what belongs together, by paths that stay right when all of it is moved."""
        places = [os.path.relpath(target, self.target.parent) for target in targets]
        path = self.folder / GROUP
        path.write_text(json.dumps({"id": mark, "targets": places}), encoding="utf-8")
        sync(path)

    def group(self) -> dict[str, Any]:
        """What belongs together; empty for a single result, or before the note is complete."""
        try:
            with (self.folder / GROUP).open(encoding="utf-8") as file:
                found = json.loads(file.read(LONGEST_NOTE))
        except (OSError, ValueError, RecursionError):
            return {}
        valid = isinstance(found, dict) and isinstance(found.get("id"), str) and isinstance(found.get("targets"), list)
        return found if valid else {}

    def group_places(self) -> list[Path]:
        return [
            Path(os.path.normpath(self.target.parent / place))
            for place in self.group().get("targets", [])
            if isinstance(place, str) and "\0" not in place
        ]

    def install(self, *, alone: bool) -> None:
        """Put the new file or folder into place; the old one is there until then.

        In a group, whatever is still called ``new`` is not in place yet, so that folders are not exchanged.
        """
        if not (self.new.is_dir() and self.target.exists()):
            os.replace(self.new, self.target)
        elif not (alone and file_system.exchange(self.new, self.target)):
            os.rename(self.target, self.folder / OLD)
            os.rename(self.new, self.target)

    def settle(self, *, committed: bool) -> None:
        """Make the target whole: new if that was committed, old otherwise."""
        old = self.folder / OLD
        if committed and os.path.lexists(self.new):
            self.install(alone=False)
        elif os.path.lexists(old) and not os.path.lexists(self.target):
            os.rename(old, self.target)
        else:
            return
        sync_folder(self.target.parent)

    def clear(self) -> None:
        """Remove everything but the lock. What cannot be removed is left to the next run."""
        for found in self.folder.iterdir() if self.folder.is_dir() else ():
            if found.name != LOCK:
                remove(found)

    def leave(self) -> None:
        """Remove the folder, unless it contains a result that was committed and could not be put into place."""
        with suppress(OSError):
            if self.is_empty():
                self.remove()
        self.unlock()

    def remove(self) -> None:
        """Remove the folder, the lock last: a folder without one is empty, or not conal's. Then let others in."""
        try:
            with suppress(OSError):
                self.clear()
                if self.is_empty():
                    (self.folder / LOCK).unlink(missing_ok=True)
                    self.folder.rmdir()
        finally:
            self.unlock()
