"""Registries: modules register classes or functions under names, from which commands and documentation derive.

A package that owns a registry calls :meth:`Registry.discover` to import its own modules, so that adding a
method or a dataset means adding a file and editing nothing. Other distributions join by an entry point in the group
of the package's name, whose value is a module that registers: ``[project.entry-points."conal.methods"]``.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import importlib.util
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from conal.errors import InputError

C = TypeVar("C")
T = TypeVar("T")


class Registry(Generic[T]):
    """A registry of named objects of one kind.

    Parameters
    ----------
    kind : str
        What the things are, for error messages ("method", "dataset").
    package : str
        The package whose modules register themselves; imported on first use.
    makes_instances : bool
        Whether an object of a registered class is kept, in place of the class.

    Examples
    --------
    >>> fruit = Registry("fruit", package="")
    >>> @fruit.register("plum")
    ... def plum() -> int:
    ...     return 1
    >>> fruit.get("plum") is plum
    True
    """

    def __init__(self, kind: str, package: str, *, makes_instances: bool = False) -> None:
        self.kind, self.package, self.makes_instances = kind, package, makes_instances
        self._entries: dict[str, Any] = {}
        self._discovered = not package

    def register(self, name: str) -> Callable[[C], C]:
        """Decorate a class or function to register it under ``name``, which a class has as an attribute then."""

        def enter(thing: C) -> C:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            if isinstance(thing, type):
                thing.name = name  # type: ignore[attr-defined]
            self._entries[name] = thing() if self.makes_instances else thing  # type: ignore[operator]
            return thing

        return enter

    def discover(self) -> None:
        """Import every module of the package once, so that each can register itself."""
        if self._discovered:
            return
        paths = importlib.import_module(self.package).__path__
        for module in pkgutil.iter_modules(paths):
            importlib.import_module(f"{self.package}.{module.name}")
        for plugin in importlib.metadata.entry_points(group=self.package):
            plugin.load()
        self._discovered = True

    def names(self) -> list[str]:
        """All names, sorted."""
        self.discover()
        return sorted(self._entries)

    def get(self, name: str) -> T:
        """The object registered as ``name``; an unknown name is an error that lists the known ones.

        A module of that name is imported alone, because importing all of them takes as long as a small job.
        """
        own = f"{self.package}.{str(name).replace('-', '_')}"
        if not self._discovered and name not in self._entries and _is_module(own):
            importlib.import_module(own)
        if name not in self._entries:
            self.discover()
        if name in self._entries:
            found: T = self._entries[name]
            return found
        close = closest(str(name).lower(), self.names())
        hint = f"; did you mean {close!r}?" if close else "."
        raise InputError(f"there is no {self.kind} {name!r}{hint} Known: {', '.join(self.names())}")


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # no name that a module can have
        return False


def closest(name: str, known: Sequence[str]) -> str | None:
    """The known name that was probably meant: one that is spelled alike, or that ``name`` abbreviates.

    >>> closest("ds", ["bayes-dawid-skene", "dawid-skene"]), closest("ds", ["conal", "dl-ds"])
    ('dawid-skene', 'dl-ds')
    """
    alike = difflib.get_close_matches(name, known, n=1)
    parts = {other: other.split("-") for other in known}
    short = [other for other in known if name == "".join(part[:1] for part in parts[other])]
    inside = [other for other in known if name in parts[other]]
    return next(iter([*alike, *short, *inside]), None)
