"""Base classes of readers and importers, which question of an export is read, and annotations from records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from conal._registry import Registry
from conal.data.cleaning import missing_rule
from conal.data.encoding import Names, spelling
from conal.data.scales import read_times
from conal.errors import InputError, examples, people
from conal.io.annotation_file import AnnotationFile, Control, agreed_labels, annotations_from
from conal.io.platforms.files import Head
from conal.parameters.reading import ReadOptions

# Base classes: readers of annotation files, and importers, which read the format of a platform.


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
register = importers.register


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


# Which question of an export is read: one of several, or whether annotators ticked one choice of it.

YES, NO = "yes", "no"
"""The classes of a question about one choice."""

NO_ANSWER = "without an answer"
SEVERAL_ANSWERS = "with several answers"
OTHER_ANSWER = "with an answer that is no single choice"


class Question(NamedTuple):
    """A question of an export; with a ``choice``, whether annotators ticked it.

    ``named`` is false where the platform has no name for its only question.

    >>> str(Question("topics", "sport"))
    'topics=sport'
    """

    name: str
    choice: str | None = None
    named: bool = True

    def __str__(self) -> str:
        return self.name if self.choice is None else f"{self.name}={self.choice}"

    def label(self, value: Any, *, blank_is_no: bool = False) -> tuple[Any, str | None]:
        """The label in an answer, or the reason why there is none.

        An annotator who chose something else says "no". Nothing chosen is no answer, unless ``blank_is_no``: few
        platforms tell "none of these" from "not answered".

        >>> Question("topics", "sport").label(["art", "sport"]), Question("topics", "sport").label(["art"])
        (('yes', None), ('no', None))
        >>> Question("topics").label(["art", "sport"])
        (None, 'with several answers')
        """
        if self.choice is None:
            return only_answer(value)
        chosen = ticked(value)
        if chosen or (blank_is_no and isinstance(value, list) and not value):
            return YES if self.choice in chosen else NO, None
        return only_answer(value)

    def check(self, known: Iterable[str], where: object) -> None:
        """Reject a choice that nobody made."""
        choices = list(dict.fromkeys(known))
        if self.choice is not None and self.choice not in choices:
            raise InputError(
                f"{where}: nobody chose {self.choice!r} in {self.name!r}; the choices are "
                f"{examples(choices, 20) or 'none'}"
            )


def ask(names: Iterable[str], wanted: str | None, where: object, kind: str) -> Question:
    """The question that is wanted, as ``NAME`` or ``NAME=CHOICE``, or the only one.

    >>> ask(["topics", "mood"], "topics=sport", "export.json", "control")
    Question(name='topics', choice='sport', named=True)
    """
    known = list(dict.fromkeys(names))
    if wanted is not None and wanted not in known:
        for name in sorted(known, key=len, reverse=True):  # names may contain "=" too
            if wanted.startswith(f"{name}="):
                return Question(name, wanted.removeprefix(f"{name}="))
    return Question(choose_question(known, wanted, where, kind))


def only_answer(value: Any) -> tuple[Any, str | None]:
    """The one answer in a value, or the reason why there is none.

    >>> only_answer(["cat"]), only_answer(["cat", "dog"]), only_answer([])
    (('cat', None), (None, 'with several answers'), (None, 'without an answer'))
    """
    if isinstance(value, list | tuple):
        if len(value) > 1:
            return None, SEVERAL_ANSWERS
        return only_answer(value[0]) if value else (None, NO_ANSWER)
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return None, NO_ANSWER
    if isinstance(value, dict):
        return None, OTHER_ANSWER
    return value, None


def ticked(value: Any) -> list[str]:
    """The choices in an answer, as text; none if it is missing, no choice, or about several regions of a task.

    >>> ticked(["art", "sport"]), ticked(4), ticked([]), ticked([["cat"], ["dog"]])
    (['art', 'sport'], ['4'], [], [])
    """
    while isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    values = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(part, list | tuple | dict) for part in values):
        return []
    return [str(part) for part in values if only_answer(part)[1] is None]


# Collects annotations from records, and counts dropped ones by reason.

NO_ANNOTATOR = "without an annotator"


@dataclass
class Collector:
    """Annotations collected so far, and counts of dropped ones by reason.

    Answers are those to the ``question``. If it is about one choice and ``blank_is_no``, an empty list of choices is
    an answer too.
    """

    importer: Importer
    path: Path
    options: ReadOptions
    question: Question | None = None
    blank_is_no: bool = False
    rows: list[tuple[Any, Any, Any]] = field(default_factory=list)
    times: list[Any] = field(default_factory=list)
    gold: list[tuple[Any, Any]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    choices: Counter[str] = field(default_factory=Counter)
    fields: dict[Any, Mapping[str, Any]] = field(default_factory=dict)
    people: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """How messages name the file."""
        return str(self.path)

    def add(self, task: Any, worker: Any, value: Any, when: Any = None) -> None:
        """Add an annotation, unless the answer is missing, multiple or not a label."""
        self._check_name(task, "task")
        self._check_name(worker, "annotator")
        label, reason = self._label(value)
        if reason is None and (worker is None or not str(worker).strip()):
            reason = NO_ANNOTATOR
        if reason is not None:
            self.dropped[reason] += 1
            return
        self.rows.append((task, worker, label))
        self.times.append(when)

    def show(self, task: Any, fields: Mapping[str, Any]) -> None:
        """Add the data of a task; the first data count."""
        self._check_name(task, "task")
        self.fields.setdefault(task, fields)

    def add_gold(self, task: Any, value: Any) -> None:
        """Add a true label; two different labels cancel each other."""
        self._check_name(task, "task")
        label, reason = self._label(value)
        if reason is None:
            self.gold.append((task, label))

    def _label(self, value: Any) -> tuple[Any, str | None]:
        """The label in an answer, or the reason why there is none."""
        self.choices.update(ticked(value))
        return only_answer(value) if self.question is None else self.question.label(value, blank_is_no=self.blank_is_no)

    def _check_name(self, name: Any, role: str) -> None:
        if isinstance(name, dict | list):
            shown = f"{name!r:.60}" if role == "task" else people([name])
            raise InputError(f"{self.where}: the name of a {role} is {shown}; expected text or a number")

    def finish(
        self,
        *,
        names: Callable[[list[Any]], Any] | None = None,
        untyped: bool = False,
        control: Control | None = None,
    ) -> AnnotationFile:
        """Everything collected, older labels first.

        ``names`` converts the names of tasks and workers; ``untyped`` labels are from a text file.
        """
        if self.question is not None and not self.options.unlabelled:
            self.question.check(self.choices, self.path)
        self.dropped = +self.dropped  # without counts of 0
        times = read_times(self.times)
        if times is not None and not np.isnat(times).any():
            order = np.argsort(times, kind="stable")
            self.rows, times = [self.rows[k] for k in order.tolist()], times[order]
        asked = _of_one_type([row[0] for row in self.rows], list(self.fields), [task for task, _ in self.gold])
        tasks, shown, known = asked
        workers, labels = (_of_one_type([row[k] for row in self.rows])[0] for k in (1, 2))
        example = self._choice_question()
        crowd = annotations_from(
            tasks if names is None else names(tasks),
            workers if names is None else names(workers),
            labels,
            self.options,
            where=self.path,
            dropped=self.dropped,
            untyped=untyped,
            choice_question=example,
            times=times,
        )
        gold = zip(known, (label for _, label in self.gold), strict=True)
        return AnnotationFile(
            self.path,
            self.importer.name,
            self.importer.title,
            crowd,
            question=self._question_name(),
            true_labels=true_labels_of(gold, crowd.classes, self.options, self.dropped),
            dropped=dict(self.dropped),
            fields=dict(zip(shown, self.fields.values(), strict=True)),
            control=control,
            choice_question=example,
            people=self.people,
        )

    def _question_name(self) -> str | None:
        if self.question is None or not (self.question.named or self.question.choice):
            return None
        return str(self.question)

    def _choice_question(self) -> str | None:
        """A question about one choice, where answers with several were dropped: the most frequent choice."""
        if self.question is None or not self.dropped[SEVERAL_ANSWERS] or not self.choices:
            return None
        return str(self.question._replace(choice=self.choices.most_common(1)[0][0]))


def _of_one_type(*columns: list[Any]) -> list[list[Any]]:
    """Names unchanged, or all as text if some are text: 7 and "ann" cannot be sorted or stored together."""
    kinds = {type(name) for names in columns for name in names if name is not None}
    if len(kinds) < 2 or kinds == {int, float}:
        return list(columns)
    return [[None if name is None else str(name) for name in names] for names in columns]


def true_labels_of(
    pairs: Iterable[tuple[Any, Any]], classes: Names, options: ReadOptions, dropped: Counter[str], **rule: bool
) -> dict[Any, Any]:
    """Task to its one true label, spelled as the classes are; tasks with several are dropped and counted."""
    is_missing = missing_rule(options.missing, options.classes, **rule)
    known = {spelling(name): name for name in classes.tolist()}
    is_text = any(isinstance(name, str) for name in classes.tolist())
    given = ((task, label) for task, label in pairs if task is not None and label is not None and not is_missing(label))
    found, disputed = agreed_labels(
        (task, known.get(spelling(label), spelling(label) if is_text else label)) for task, label in given
    )
    if disputed:
        dropped["true labels that contradict each other"] += disputed
    return found
