"""Exports of annotation platforms, one module each: how to recognise and read them.

Each module of this package with a class decorated with :func:`register` adds a format; the command line, the table in
``docs/files.md`` and the contract tests follow.

>>> from conal.io import platforms
>>> "label-studio" in platforms.names()
True
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, NoReturn

from conal._registry import Registry
from conal.errors import InputError
from conal.io.annotation_file import AnnotationFile
from conal.io.platforms.files import Head
from conal.parameters.reading import ReadOptions

__all__ = ["Importer", "get", "names", "register"]


class Reader(ABC):
    """Reads annotation files of one kind.

    Attributes
    ----------
    title : str
        What people call the kind.
    takes : tuple of str
        Which options it has a use for, of those that only some formats take
        (:class:`~conal.parameters.reading.ReadOptions`).
    """

    title: ClassVar[str]
    takes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        """Read the whole file."""


class Importer(Reader):
    """One format: how to recognise it, and how to read it.

    Attributes
    ----------
    expects : str
        What a file of this format looks like, for messages.
    kinds : tuple of str
        Kinds of files (:class:`~conal.io.platforms.files.Head`) that it can be.
    shows_tasks : bool
        Whether a file contains the tasks' data, such as their texts.
    """

    name: ClassVar[str]
    expects: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    shows_tasks: ClassVar[bool] = True

    def takes_kind(self, kind: str) -> bool:
        """Whether it reads files of this kind; what is a table may be a sheet of Excel."""
        return kind in self.kinds or (kind == "xlsx" and "table" in self.kinds)

    @abstractmethod
    def sniff(self, head: Head) -> bool:
        """Whether the beginning of a file looks like this format."""

    def unlike(self, where: object, found: str) -> NoReturn:
        """Reject a file of another format; the error says what was expected and what was found."""
        raise InputError(
            f"{where}: is not {self.title}: expected {self.expects}, found {found}; "
            "set its format with format= (--set format=NAME), or omit it to detect the format"
        )


importers: Registry[Importer] = Registry("format", "conal.io.platforms", makes_instances=True)
register, names, get = importers.register, importers.names, importers.get
