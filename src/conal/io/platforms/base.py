"""What an importer is, what it is told, and what it gives back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar

import pyarrow as pa

from conal._support.registry import Registry
from conal.data.annotations import Annotations, OnDuplicate
from conal.data.encoding import Names
from conal.errors import InputError, examples
from conal.io.platforms.head import Head
from conal.io.platforms.remedies import remedy
from conal.io.tables import coerce_classes

__all__ = ["Imported", "Importer", "Options", "choose_question", "counted", "importers", "register"]

I = TypeVar("I", bound="type[Importer]")  # noqa: E741


@dataclass(frozen=True)
class Options:
    """What the user chose; each format says which of these it takes.

    Parameters
    ----------
    question : str, optional
        Which control, question or answer field holds the labels, where a file has several.
    task, worker, label : str, optional
        Columns or data fields in place of the format's own.
    keep_rejected : bool
        Keep the work that the requester refused.
    classes : sequence, optional
        Classes that the labels will be matched with; a word for "missing" among them is a label.
    """

    question: str | None = None
    task: str | None = None
    worker: str | None = None
    label: str | None = None
    keep_rejected: bool = False
    classes: Sequence[Any] | Names | None = None


@dataclass(frozen=True)
class Imported:
    """What was read from a file.

    Attributes
    ----------
    format : str
        Name of the format.
    where : str
        How messages name the file.
    tasks, workers, labels : equally long columns
        One entry per annotation, the older of two labels first where the format has times.
    question : str or None
        The control or question that was read.
    gold : dict
        Task to true label, where the format carries some.
    dropped : dict
        Reason to the number of annotations (or tasks) that were left out for it.
    data : Arrow table or None
        What the tasks show, such as their texts: ``task`` and a column per field.
    """

    format: str
    where: str
    tasks: Any
    workers: Any
    labels: Any
    question: str | None = None
    gold: Mapping[Any, Any] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    data: pa.Table | None = None

    def annotations(
        self, *, classes: Sequence[Any] | Names | None = None, on_duplicate: OnDuplicate = "last"
    ) -> Annotations:
        """The annotations, once classes are matched and repeated pairs resolved."""
        if not len(self.labels):
            reasons = f" ({counted(self.dropped)})" if self.dropped else ""
            most = max(self.dropped, key=self.dropped.__getitem__, default="")
            advice = remedy(most, otherwise="finish labelling and export again")
            raise InputError(f"{self.where}: holds no annotation that can be used{reasons}; {advice}")
        if classes is not None and isinstance(self.labels, pa.ChunkedArray):
            classes = coerce_classes(classes, self.labels)
        elif classes is not None:
            classes = coerce_classes(classes, pa.chunked_array([_typed(self.labels)]))
        try:
            return Annotations.from_triples(
                self.tasks, self.workers, self.labels, classes=classes, on_duplicate=on_duplicate, where=self.where
            )
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise InputError(f"{self.where}: a name holds half a character ({half!r}); export it again") from error


class Importer(ABC):
    """One format: how to know it, and how to read it.

    Attributes
    ----------
    title : str
        What people call the format.
    expects : str
        What a file of this format looks like, for messages.
    kinds : tuple of str
        Kinds of files (:class:`~conal.io.platforms.head.Head`) that it can be.
    takes : tuple of str
        Which of ``question``, ``task``, ``worker``, ``label`` and ``keep_rejected`` the format has a use for.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    expects: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    takes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def sniff(self, head: Head) -> bool:
        """Whether the beginning of a file looks like this format."""

    @abstractmethod
    def read(self, path: Path, options: Options) -> Imported:
        """Read the whole file."""

    def unlike(self, where: object, found: str) -> NoReturn:
        """Refuse a file that is not of this format, with what was expected and what was found."""
        raise InputError(
            f"{where}: is not {self.title}: expected {self.expects}, found {found}; "
            "name its format with format= (--format), or leave that out to have it recognised"
        )

    def check_options(self, options: Options) -> None:
        """An option that the format has no use for is refused, not ignored."""
        given = {
            "question": ("question= (--question)", options.question),
            "task": ("task= (--task-column)", options.task),
            "worker": ("worker= (--worker-column)", options.worker),
            "label": ("label= (--label-column)", options.label),
            "keep_rejected": ("keep_rejected= (--keep-rejected)", options.keep_rejected),
        }
        strange = [word for name, (word, value) in given.items() if value and name not in self.takes]
        if strange:
            known = ", ".join(given[name][0] for name in self.takes) or "none of these"
            raise InputError(f"{strange[0]} has no meaning for {self.title}; it takes {known}")


importers: Registry[Importer] = Registry("format", "conal.io.platforms")


def register(name: str) -> Callable[[I], I]:
    """Decorate an :class:`Importer` to make its format known as ``name``."""

    def enter(cls: I) -> I:
        cls.name = name
        importers.register(name)(cls())
        return cls

    return enter


def choose_question(names: Iterable[str], options: Options, where: object, kind: str) -> str:
    """The question that was asked for, else the only one; several are listed."""
    known = list(dict.fromkeys(names))
    wanted = options.question
    if wanted is not None:
        if wanted in known:
            return wanted
        raise InputError(f"{where}: no {kind} is called {wanted!r}; it has {examples(known, 10) or 'none'}")
    if len(known) == 1:
        return known[0]
    if not known:
        raise InputError(f"{where}: no {kind} holds a single choice per annotation, and nothing else can be aggregated")
    raise InputError(f"{where}: has several {kind}s: {examples(known, 10)}; say which with question= (--question)")


def counted(reasons: Mapping[str, int]) -> str:
    """``3 skipped, 1 draft``, the most frequent first.

    >>> counted({"draft": 1, "skipped": 1200})
    '1,200 skipped, 1 draft'
    """
    ordered = sorted(reasons.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{count:,} {reason}" for reason, count in ordered)


def _typed(values: Any) -> pa.Array:
    """The labels' type, which classes given as text are to have; mixed ones stay text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        return pa.array([], pa.string())
