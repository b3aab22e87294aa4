"""Base classes: readers of annotation files, and importers, which read the format of a platform."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, NoReturn, TypeVar

from conal._support.registry import Registry
from conal.errors import InputError, examples
from conal.io.annotation_file import AnnotationFile
from conal.io.platforms.head import Head
from conal.parameters.reading import ReadOptions

__all__ = ["Importer", "Reader", "choose_question", "importers", "register"]

I = TypeVar("I", bound="type[Importer]")  # noqa: E741


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

    def check_options(self, options: ReadOptions) -> None:
        """Reject an option that the format does not use, instead of ignoring it."""
        options.refuse_unused(self.takes, self.title)


class Importer(Reader):
    """One format: how to recognise it, and how to read it.

    Attributes
    ----------
    expects : str
        What a file of this format looks like, for messages.
    kinds : tuple of str
        Kinds of files (:class:`~conal.io.platforms.head.Head`) that it can be.
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
            "set its format with format= (--format), or omit it to detect the format"
        )


importers: Registry[Importer] = Registry("format", "conal.io.platforms")


def register(name: str) -> Callable[[I], I]:
    """Decorate an :class:`Importer` to register its format as ``name``."""

    def enter(cls: I) -> I:
        cls.name = name
        importers.register(name)(cls())
        return cls

    return enter


def choose_question(names: Iterable[str], wanted: str | None, where: object, kind: str) -> str:
    """The chosen question, or the only one; the error lists them if there are several."""
    known = list(dict.fromkeys(names))
    if wanted is not None:
        if wanted in known:
            return wanted
        raise InputError(f"{where}: there is no {kind} {wanted!r}; it has {examples(known, 10) or 'none'}")
    if len(known) == 1:
        return known[0]
    if not known:
        raise InputError(
            f"{where}: no {kind} has a single choice per annotation; only single choices can be aggregated"
        )
    raise InputError(f"{where}: has several {kind}s: {examples(known, 10)}; choose one with question= (--question)")
