"""What transactions ask of the system: locks, flushed files, and two folders exchanged in one step."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

if sys.platform != "win32":
    import fcntl

__all__ = ["exchange", "lock", "make_durable", "remove", "sync", "sync_folder"]

UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF}
"""What a file system answers that does not know an operation."""


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


def lock(handle: int, created: bool) -> bool:
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


def make_durable(path: Path) -> None:
    """Give files the usual permissions, whatever wrote them, and flush them to the disk, folders last."""
    if path.is_dir():
        for found in path.iterdir():
            make_durable(found)
        sync_folder(path)
    else:
        path.chmod(0o666 & ~_umask())
        sync(path)


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    """Flush a folder's list of names; not every system and file system can."""
    if os.name != "posix":
        return
    try:
        sync(path)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
