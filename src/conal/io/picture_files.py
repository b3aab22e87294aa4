"""Pictures of tasks in files: a folder whose file names are the tasks' ids, and files that an export names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from conal._support.paths import real_path
from conal.errors import DataWarning, InputError, examples, warn
from conal.io.pictures import SUFFIXES, FromUri, Source

__all__ = ["NamedPictures", "PictureFolder", "is_inline", "is_local"]

MAX_FILES = 2_000_000
"""Files that a folder may have: more is rather somebody's whole disk."""


@dataclass(frozen=True)
class PictureFolder:
    """A folder of pictures. The picture of a task is the file that is called like it, with or without its ending.

    Attributes
    ----------
    path : path
    files : dict
        Name of a file, with and without its ending, and with and without the folders that it is in, to the file; None
        for a name that several files have.
    """

    path: Path
    files: Mapping[str, Path | None] = field(repr=False)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> PictureFolder:
        """List a folder and the folders inside."""
        path = Path(path)
        if not path.is_dir():
            raise InputError(f"{path}: is no folder; pass the folder of the pictures (--images)")
        exact: dict[str, Path | None] = {}
        bare: dict[str, Path | None] = {}
        count = 0
        for place, folders, names in os.walk(path):
            folders.sort()
            count += len(names)
            if count > MAX_FILES:
                raise InputError(f"{path}: contains more than {MAX_FILES:,} files; pass the folder of the pictures")
            for name in sorted(names):
                file = Path(place, name)
                if file.suffix.lower() in SUFFIXES:
                    _enter(exact, file.relative_to(path), file)
                    _enter(bare, Path(name), file)
        if not exact:
            raise InputError(f"{path}: contains no picture ({', '.join(sorted(SUFFIXES - {'.svg'}))})")
        return cls(path, bare | exact)

    def of(self, task: Any) -> Source | None:
        """The picture that is called like the task."""
        return self.files.get(str(task))

    def warn_of_ambiguous(self, tasks: list[Any]) -> None:
        """Tell which tasks have no picture because several files have their name."""
        several = [task for task in tasks if str(task) in self.files and self.files[str(task)] is None]
        if several:
            warn(
                f"{self.path}: several files are called like {len(several):,} tasks, which are shown without a "
                f"picture: {examples(several)}; keep one file of each name",
                DataWarning,
            )


def _enter(found: dict[str, Path | None], name: Path, file: Path) -> None:
    for key in (name.as_posix(), name.with_suffix("").as_posix()):
        found[key] = None if key in found else file


@dataclass(frozen=True)
class NamedPictures:
    """Pictures that an export names: ``data:`` URIs, and files beside the export or in the user's folder.

    Files elsewhere are not read, whatever an export says: it may come from anybody, and the report may be shared.

    Attributes
    ----------
    values : dict
        Task, as text, to what the export has for its picture.
    beside : path
        The folder of the export.
    folder : PictureFolder or None
        The user's pictures, found by the names of files in the export.
    """

    values: Mapping[str, str] = field(repr=False)
    beside: Path
    folder: PictureFolder | None = None

    def of(self, task: Any) -> Source | None:
        """The picture that the export names for the task."""
        value = self.values.get(str(task), "")
        if is_inline(value):
            return FromUri(value)
        if not is_local(value):
            return None
        inside = None if self.folder is None else self.folder.files.get(_last_part(value))
        return inside or _beside(value, self.beside)


def is_inline(value: str) -> bool:
    """Whether this is a picture inside a ``data:`` URI.

    >>> is_inline("data:image/png;base64,iVBO"), is_inline("data:text/html,x")
    (True, False)
    """
    return value[:11].lower() == "data:image/"


def is_local(value: str) -> bool:
    """Whether this is the path of a picture, not its address on the network.

    >>> is_local("cats/1.JPG"), is_local("https://x.org/1.jpg"), is_local("a cat")
    (True, False, False)
    """
    if len(value) > 1000 or "\n" in value or ("://" in value and not value.lower().startswith("file://")):
        return False
    return PureWindowsPath(value).suffix.lower() in SUFFIXES  # knows both kinds of slashes


def _last_part(value: str) -> str:
    return PureWindowsPath(value).name


def _beside(value: str, folder: Path) -> Path | None:
    """The file, if it is in the folder or in one inside of it."""
    plain = value[7:] if value.lower().startswith("file://") else value
    place, root = Path(folder, *PurePosixPath(plain.replace("\\", "/")).parts), real_path(folder)
    try:
        found = real_path(place)
    except (OSError, ValueError):  # a name that no file can have
        return None
    return found if found.is_relative_to(root) and found.is_file() else None
