"""Where results may be written, and writing them: all of a result appears at once, or nothing does.

How that is done, and how a killed process is cleaned up after, is in :mod:`conal.io.transactions`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from conal.errors import InputError, examples
from conal.io import transactions
from conal.io.transactions import together

__all__ = [
    "atomic_file",
    "atomic_files",
    "atomic_folder",
    "check_file_place",
    "check_folder_place",
    "check_place",
    "claimed",
    "is_free",
    "real_place",
    "together",
]


def real_place(path: Path) -> Path:
    """Where a path leads to: a symbolic link stays, and what it points to is written."""
    place = Path(os.path.realpath(path))
    if place.is_symlink():
        raise InputError(f"{path}: is a symbolic link that leads nowhere; choose another place")
    return place


def check_place(path: Path) -> None:
    """Reject a path that cannot be written, before the work starts."""
    if not path.name:
        raise InputError(f"{path}: cannot be replaced by a result; choose a name inside it")
    nearest = next(parent for parent in real_place(path).parents if parent.exists())
    if not nearest.is_dir():
        raise InputError(f"{path}: cannot be written, {nearest} is not a folder; choose another place")
    if not os.access(nearest, os.W_OK):
        raise InputError(f"{path}: cannot be written, {nearest} is write-protected; choose another place")


def check_file_place(path: Path, *, overwrite: bool) -> None:
    """Reject a path where no file can or may be written. What a killed process left there is cleaned up first."""
    _check_is_file(path)
    transactions.recover(real_place(path))
    if path.exists() and not overwrite:
        raise InputError(f"{path}: exists already; choose another place, or pass overwrite=True (--overwrite)")


def _check_is_file(path: Path) -> None:
    check_place(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder; choose another name for the file")
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is not a file that can be replaced; choose another place")


def is_free(path: Path) -> bool:
    """Whether a folder can be written here without replacing anything; a place that cannot be written is an error."""
    check_place(path)
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def check_folder_place(path: Path, *, overwrite: bool, kind: str, own: Callable[[Path], Collection[str]]) -> None:
    """Reject an existing folder, unless it may be replaced and contains nothing but what conal wrote.

    What a killed process left there is cleaned up first.

    Parameters
    ----------
    kind : str
        What the folder must be, such as "a conal model folder".
    own : callable
        The names of the files that conal wrote into such a folder; an :class:`InputError` if it is none.
    """
    check_place(path)
    transactions.recover(real_place(path))
    if is_free(path):
        return
    if not overwrite:
        raise InputError(f"{path}: exists already; choose another place, or pass overwrite=True (--overwrite)")
    try:
        expected = set(own(path))
    except InputError as error:
        raise InputError(f"{path}: is not {kind}, so it is not overwritten; choose another place") from error
    foreign = _foreign(real_place(path), expected)
    if foreign:
        raise InputError(
            f"{path}: contains {examples(sorted(foreign))}, which conal did not write, so it is not overwritten; move "
            "what you want to keep, or choose another place"
        )


def _foreign(folder: Path, expected: Collection[str]) -> list[str]:
    """Names of what conal did not write there: other names, and folders and links of the same names."""
    for name in expected:
        transactions.recover(folder / name)
    found = {entry.name for entry in folder.iterdir() if entry.is_file() and not entry.is_symlink()}
    return sorted({entry.name for entry in folder.iterdir()} - (found & set(expected)))


@contextmanager
def claimed(path: Path, check: Callable[[], None]) -> Iterator[None]:
    """Keep a place for this process while it computes; an error before that if another process has it.

    ``check`` raises an error if the place may not be written. It is called once more when the place is claimed, since
    another process may have written there in between.
    """
    check()
    with transactions.claimed(real_place(path)):
        check()
        yield


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary path that replaces ``path`` when the block ends without an error."""
    with atomic_files([path]) as (temporary,):
        yield temporary


@contextmanager
def atomic_files(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Temporary paths of files that belong together: they replace ``paths`` when the block ends without an error.

    If the process is killed while it does so, the next run that writes one of them completes all of them.
    """
    for path in paths:
        _check_is_file(path)
        _make_parent(path)
    with transactions.transaction([real_place(path) for path in paths], Path.touch) as temporaries:
        yield temporaries


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that replaces ``path``, or an existing folder there, when the block ends."""
    _make_parent(path)
    with transactions.transaction([real_place(path)], Path.mkdir) as (temporary,):
        yield temporary


def _make_parent(path: Path) -> None:
    check_place(path)
    try:
        real_place(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written, {error}; choose another place") from error
