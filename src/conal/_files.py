"""Results that are whole or absent, and where they may be written."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

from conal.errors import InputError, examples

# Paths without symbolic links.


def real_path(path: str | os.PathLike[str]) -> Path:
    """Where a path leads to; links that lead to themselves stay, and whoever opens them says that there is no file.

    ``Path.resolve`` raises a RuntimeError for them before Python 3.13.
    """
    return Path(os.path.realpath(path))


# Results that are whole or absent, and where they may be written.
#
# A result is written aside, flushed to the disk and renamed into place: the file or folder ``new`` in a folder
# ``.conal-*`` next to it, which nobody else can read. A process that is killed may leave such a folder; delete it.

ASIDE = ".conal-"
"""How the names of everything begin that is not a result."""


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary path that replaces ``path`` when the block ends without an error; the mode of an old file is kept."""
    with atomic_files([path]) as (temporary,):
        yield temporary


@contextmanager
def atomic_files(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Temporary paths that replace ``paths`` when the block ends without an error.

    All files are complete before the first is renamed, but they are renamed one after the other: a process that is
    killed just then leaves some new files beside old ones.
    """
    for path in paths:
        _check_is_file(path)
    places = [_with_parents(path) for path in paths]
    with ExitStack() as stack:
        asides = [stack.enter_context(_aside(place)) for place in places]
        for aside in asides:
            aside.touch()
        modes = [_mode(aside) for aside in asides]
        yield asides
        for aside, place, mode in zip(asides, places, modes, strict=True):
            _finish(aside, place, mode)
        for aside, place in zip(asides, places, strict=True):
            os.replace(aside, place)
        for parent in {place.parent for place in places}:
            _flush(parent)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that replaces ``path`` when the block ends without an error; modes are kept.

    A folder cannot be replaced by one rename: the old one is moved away first. A process that is killed between the two
    renames leaves both, ``old`` and ``new``, in the folder ``.conal-*``.
    """
    place = _with_parents(path)
    with _aside(place) as aside:
        aside.mkdir()
        mode = _mode(aside)
        yield aside
        _finish(aside, place, mode)
        _replace_folder(aside, place)
        _flush(place.parent)


def real_place(path: Path) -> Path:
    """Where a path leads to: a symbolic link stays, and what it points to is written."""
    place = Path(os.path.realpath(path))
    link = next((part for part in (place, *place.parents) if part.is_symlink()), None)  # one that leads to itself
    if link is not None:
        where = "is" if link == place else f"{link}, in which it would be, is"
        raise InputError(f"{path}: {where} a symbolic link that leads nowhere; choose another place")
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
    """Reject a path where no file can or may be written."""
    _check_is_file(path)
    if path.exists() and not overwrite:
        raise InputError(f"{path}: exists already; choose another place, or pass overwrite=True (--overwrite)")


def check_folder_place(path: Path, *, overwrite: bool, kind: str, own: Callable[[Path], Collection[str]]) -> None:
    """Reject an existing folder, unless it may be replaced and contains nothing but what conal wrote.

    Parameters
    ----------
    kind : str
        What the folder must be, such as "a conal model folder".
    own : callable
        The names of the files that conal wrote into such a folder; an :class:`InputError` if it is none.
    """
    check_place(path)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not overwrite:
        raise InputError(f"{path}: exists already; choose another place, or pass overwrite=True (--overwrite)")
    try:
        expected = set(own(path))
    except InputError as error:
        raise InputError(f"{path}: is not {kind}, so it is not overwritten; choose another place") from error
    foreign = [entry.name for entry in path.iterdir() if not _is_own(entry, expected)]
    if foreign:
        raise InputError(
            f"{path}: contains {examples(sorted(foreign))}, which conal did not write, so it is not overwritten; move "
            "what you want to keep, or choose another place"
        )


def _is_own(entry: Path, expected: Collection[str]) -> bool:
    """Whether conal wrote it: a file of an expected name, or a folder that a killed process left."""
    if entry.is_symlink():
        return False
    return entry.name in expected if entry.is_file() else entry.name.startswith(ASIDE) and entry.is_dir()


def _check_is_file(path: Path) -> None:
    check_place(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder; choose another name for the file")
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is not a file that can be replaced; choose another place")


def _with_parents(path: Path) -> Path:
    """Where a path leads to, with its folder made."""
    check_place(path)
    place = real_place(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written, {error}; choose another place") from error
    return place


@contextmanager
def _aside(place: Path) -> Iterator[Path]:
    """A path on the same disk, in a folder of its own that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix=ASIDE, dir=place.parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "new"


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _finish(aside: Path, place: Path, mode: int) -> None:
    """Give a result the mode of what it replaces, or else the usual one, and flush it to the disk.

    What is new in a folder has the folder's mode, so that a private folder stays private.
    """
    mode = _mode(place) if place.exists() else mode
    if aside.is_dir():
        for entry in aside.iterdir():
            _finish(entry, place / entry.name, mode if entry.is_dir() else mode & 0o666)
    _flush(aside)
    aside.chmod(mode)


def _flush(path: Path) -> None:
    is_folder = path.is_dir()
    with suppress(OSError) if is_folder else nullcontext():  # not every system and file system flushes folders
        handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _replace_folder(aside: Path, place: Path) -> None:
    old = aside.with_name("old")
    try:
        if place.exists():
            os.rename(place, old)
        os.rename(aside, place)
    except BaseException:
        if old.exists() and not place.exists():
            os.rename(old, place)
        raise
