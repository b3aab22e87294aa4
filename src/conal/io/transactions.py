"""Transactions: results are written in a staging folder beside their place, made durable, and then put into place.

The staging folder of ``labels.csv`` is ``.labels.csv.conal``. It contains

- ``lock``, locked by the process that writes (the system releases the lock when the process ends, however it ends),
- ``new``, the file or folder that is being written,
- ``old``, the folder that is being replaced, in a group, or where the file system cannot exchange two folders,
- ``group.json``, an id and the places of all results that belong together, if there are several,
- ``commit``, in one of the staging folders of a group: all of the group's ``new`` are complete and durable.

A single result is committed by the rename that puts it into place, a group by ``commit``. Who finds a staging folder
that nobody has locked finishes a committed group, undoes everything else (:func:`recover`), and removes the folder.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from conal.errors import InputError
from conal.io.interruptions import uninterrupted

if sys.platform != "win32":
    import fcntl

__all__ = ["claimed", "exchange", "recover", "staging_folder", "together", "transaction"]

LOCK, NEW, OLD, GROUP, COMMIT = "lock", "new", "old", "group.json", "commit"
PATIENCE = 60.0
"""Seconds to wait for another process that writes the same result."""
GLANCE = 2.0
"""Seconds to wait for one that may only be looking whether there is something to recover."""
WAIT = 0.05
"""Seconds between two attempts."""
LONGEST_NAME = 240
"""Bytes of a file name, of the 255 that file systems allow."""
LONGEST_NOTE = 2**20
"""Characters of ``group.json``."""
UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF}
"""What a file system answers that does not know an operation."""


@contextmanager
def transaction(targets: Sequence[Path], prepare: Callable[[Path], None]) -> Iterator[list[Path]]:
    """Temporary paths that replace the targets together when the block ends without an error.

    Parameters
    ----------
    targets : sequence of Path
        Where the results go: files, or one folder. Symbolic links have been followed.
    prepare : callable
        Makes the empty file or folder at a temporary path.
    """
    whole = _whole.get()
    stagings: list[_Staging] = []
    try:
        for target in sorted(targets):  # everywhere in this order, so that two processes never wait for each other
            _open(target, PATIENCE, stagings)
        for staging in stagings:
            prepare(staging.new)
        found = {staging.target: staging.new for staging in stagings}
        yield [found[target] for target in targets]
        if whole is None:
            _commit(stagings)
        else:
            whole += stagings
            stagings = []
    finally:
        with uninterrupted():
            _end(stagings)


@contextmanager
def together() -> Iterator[None]:
    """Commit all transactions inside of the block as one, when it ends without an error."""
    stagings: list[_Staging] = []
    token = _whole.set(stagings)
    try:
        yield
        _commit(stagings)
    finally:
        _whole.reset(token)
        with uninterrupted():
            _end(stagings)


@contextmanager
def claimed(target: Path) -> Iterator[None]:
    """Keep other processes from writing here; an error before the work starts if one does so already.

    All processes of one run look whether a killed run left something here, and lock the place for that moment. A lock
    that is soon gone is one of theirs.
    """
    made = [parent for parent in target.parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    opened: list[_Staging] = []
    key = _as_mine(target)
    try:
        _open(target, GLANCE, opened)
        _claims[key] = opened[0]
        yield
    finally:
        with uninterrupted():
            _claims.pop(key, None)
            for staging in opened:
                staging.leave()
            with suppress(OSError):  # a folder that is in use stays
                for parent in made:
                    parent.rmdir()


def recover(target: Path) -> None:
    """Finish or undo what a process left that was killed. Nothing happens while a process is still writing."""
    asked = _Staging(target)
    if not asked.exists():
        return
    held: list[_Staging] = []
    try:
        for place in sorted({target, *asked.group_places()}):
            member = _Staging(place)
            if member.exists():
                if not member.try_lock():
                    return
                held.append(member)
        _settle(_same_group(held, target))
    finally:
        for member in held:
            member.unlock()


def staging_folder(target: Path) -> Path:
    """Where a target's staging folder is."""
    name = os.fsencode(target.name)
    if len(name) > LONGEST_NAME:
        return target.with_name(f".{hashlib.sha256(name).hexdigest()}.conal")
    return target.with_name(f".{target.name}.conal")


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system or the file system cannot."""
    call = _exchange_call()
    if call is None:
        return False
    if call(os.fsencode(one), os.fsencode(other)) == 0:
        return True
    code = ctypes.get_errno()
    if code in UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))


# -------------------------------------------------------------------- steps of a transaction


_whole: ContextVar[list[_Staging] | None] = ContextVar("_whole", default=None)
"""What was written so far of results that belong together."""
_claims: dict[tuple[int, int, Path], _Staging] = {}
"""Places that a thread of this process has claimed: it may write there."""


def _as_mine(target: Path) -> tuple[int, int, Path]:
    return os.getpid(), threading.get_ident(), target  # a process that was forked has the claims, but not their locks


def _open(target: Path, patience: float, opened: list[_Staging]) -> None:
    """Add the target's staging folder, locked by this process and empty, to those that are open."""
    own = _claims.get(_as_mine(target))
    if own is not None:
        opened.append(own)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    staging, end = _Staging(target), time.monotonic() + patience
    while True:
        recover(target)
        with uninterrupted():  # a folder that is made is one that is removed
            if staging.try_lock():
                if staging.is_empty():
                    opened.append(staging)
                    return
                staging.unlock()  # what is in it could not be removed, or its writer has been killed just now
        if time.monotonic() >= end:
            raise InputError(
                f"{target}: is being written by another process; wait until it ends, or choose another place "
                f"(if there is none, delete {staging.folder})"
            )
        time.sleep(WAIT)


def _commit(stagings: Sequence[_Staging]) -> None:
    for staging in stagings:
        _make_durable(staging.new)
    if len(stagings) > 1:
        mark = uuid.uuid4().hex
        for staging in stagings:
            staging.write_group(mark, [each.target for each in stagings])
    for staging in stagings:
        _sync_folder(staging.folder)
    if len(stagings) > 1:
        (stagings[0].folder / COMMIT).touch()
        _sync_folder(stagings[0].folder)
    for staging in stagings:
        staging.install(alone=len(stagings) == 1)
    for parent in {staging.target.parent for staging in stagings}:
        _sync_folder(parent)


def _end(stagings: Sequence[_Staging]) -> None:
    """After success, an error or Ctrl-C: what is on the disk decides, as it does after a kill."""
    try:
        _settle(stagings)
    finally:
        for staging in stagings:
            if staging not in _claims.values():
                staging.unlock()


def _settle(stagings: Sequence[_Staging]) -> None:
    """Finish a committed group or undo everything, and remove the staging folders."""
    committed = any(staging.is_committed() for staging in stagings)
    for staging in stagings:
        staging.settle(committed=committed)
    for staging in sorted(stagings, key=_Staging.is_committed):  # the commit is needed until the others are gone
        if staging in _claims.values():
            staging.clear()
        else:
            staging.remove()


def _same_group(held: Sequence[_Staging], target: Path) -> list[_Staging]:
    """Those that belong to the transaction of this target; anybody can write a path into a file, so ids decide."""
    marks = {staging.target: staging.group().get("id") for staging in held}
    return [each for each in held if each.target == target or marks[each.target] == marks[target] is not None]


class _Staging:
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
        if _lock(handle, created) and self._is_current(handle):
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

    def is_committed(self) -> bool:
        return (self.folder / COMMIT).is_file()

    def write_group(self, mark: str, targets: Sequence[Path]) -> None:
        """Note what belongs together, by paths that stay right when all of it is moved."""
        places = [os.path.relpath(target, self.target.parent) for target in targets]
        path = self.folder / GROUP
        path.write_text(json.dumps({"id": mark, "targets": places}), encoding="utf-8")
        _sync(path)

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
        elif not (alone and exchange(self.new, self.target)):
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
        _sync_folder(self.target.parent)

    def clear(self) -> None:
        """Remove everything but the lock. What cannot be removed is left to the next run."""
        for found in self.folder.iterdir() if self.folder.is_dir() else ():
            if found.name != LOCK:
                _remove(found)

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


# -------------------------------------------------------------------- the system


def _lock(handle: int, created: bool) -> bool:
    """Lock an open file; where locks are not supported, it belongs to the process that created it."""
    if sys.platform == "win32":
        return created
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return created
        raise
    return True


def _make_durable(path: Path) -> None:
    """Give files the usual permissions, whatever wrote them, and flush them to the disk, folders last."""
    if path.is_dir():
        for found in path.iterdir():
            _make_durable(found)
        _sync_folder(path)
    else:
        path.chmod(0o666 & ~_umask())
        _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(path: Path) -> None:
    """Flush a folder's list of names; not every system and file system can."""
    if os.name != "posix":
        return
    try:
        _sync(path)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@cache
def _exchange_call() -> Callable[[bytes, bytes], int] | None:
    """The system's call that exchanges two paths: Linux's ``renameat2``, macOS's ``renamex_np``."""
    here, swap = -100, ctypes.c_uint(2)  # AT_FDCWD; RENAME_EXCHANGE and RENAME_SWAP are both 2
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        two_paths = getattr(libc, "renamex_np", None)
        at_folders = getattr(libc, "renameat2", None)
    except (OSError, TypeError):
        return None
    if at_folders is not None:
        return lambda one, other: int(at_folders(here, one, here, other, swap))
    return None if two_paths is None else lambda one, other: int(two_paths(one, other, swap))
