"""Atomic writes: a temporary file or folder is written first, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from conal.errors import InputError, examples

__all__ = ["atomic_file", "atomic_folder", "check_file_place", "check_folder_place", "check_place", "is_free"]


def check_place(path: Path) -> None:
    """Reject a path that cannot be written, before the work starts."""
    if not path.name:
        raise InputError(f"{path}: cannot be replaced by a result; choose a name inside it")
    nearest = next(parent for parent in path.parents if parent.exists())
    if not nearest.is_dir():
        raise InputError(f"{path}: cannot be written, {nearest} is not a folder; choose another place")
    if not os.access(nearest, os.W_OK):
        raise InputError(f"{path}: cannot be written, {nearest} is write-protected; choose another place")


def check_file_place(path: Path, *, overwrite: bool) -> None:
    """Reject a path where no file can or may be written."""
    check_place(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder; choose another name for the file")
    if path.exists() and not overwrite:
        raise InputError(f"{path}: exists already; choose another place, or pass --overwrite")


def is_free(path: Path) -> bool:
    """Whether a folder can be written here without replacing anything; a place that cannot be written is an error."""
    check_place(path)
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def check_folder_place(path: Path, *, overwrite: bool, kind: str, own: Callable[[Path], Collection[str]]) -> None:
    """Reject an existing folder, unless it may be replaced and contains nothing but what conal wrote.

    Parameters
    ----------
    kind : str
        What the folder must be, such as "a conal model folder".
    own : callable
        The names of the files that conal wrote into such a folder; an :class:`InputError` if it is none.
    """
    if is_free(path):
        return
    if not overwrite:
        raise InputError(f"{path}: exists already; choose another place, or pass overwrite=True (--overwrite)")
    try:
        expected = set(own(path))
    except InputError as error:
        raise InputError(f"{path}: is not {kind}, so it is not overwritten; choose another place") from error
    foreign = {found.name for found in path.iterdir()} - expected
    if foreign:
        raise InputError(
            f"{path}: contains {examples(sorted(foreign))}, which conal did not write, so it is not overwritten; move "
            "what you want to keep, or choose another place"
        )


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that replaces it when the block ends without an error."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; choose another name for the file")
    _make_parent(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside ``path`` that replaces it, or an existing folder, when the block ends."""
    _make_parent(path)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    old = temporary.with_name(f"{temporary.name}.old")
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        if path.exists():
            path.rename(old)
        temporary.rename(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _make_parent(path: Path) -> None:
    check_place(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written, {error}; choose another place") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
