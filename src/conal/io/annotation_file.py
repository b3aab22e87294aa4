"""The content of an annotation file: what it is, which question it answers, and how readers collect it."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from conal.data.annotations import Annotations
from conal.data.cleaning import Labels, missing_rule, read_labels
from conal.data.encoding import Names, spelling
from conal.data.scales import read_times
from conal.errors import DataWarning, InputError, examples, people, warn
from conal.io.tables import coerce_classes, refuse_line_ends
from conal.parameters import json_or_text
from conal.parameters.reading import ReadOptions

if TYPE_CHECKING:
    from conal.io.platforms import Importer

# Remedies for dropped annotations and for warnings about a file.

SEVERAL_ANSWERS_REASON = "several answers"
"""Why an annotation with several choices is left out."""

UNLABELLED = "tasks without a label"
"""Why a task has no annotation: nobody has labelled it yet. ``conal fit`` does not leave it out, but predicts it."""

REMEDIES = {
    SEVERAL_ANSWERS_REASON: "ask about one choice at a time: --question NAME=CHOICE makes a yes-or-no question of it",
    "no single choice": "choose another question with --question",
    "without an answer": "nothing to do, unless it should have one: check --question and --label-column",
    "rejected by the requester": "keep them with --set keep_rejected=true",
    "drafts or discarded": "export flat records: records.to_list(flatten=True), or records.to_datasets()",
    "contradict": "correct the true labels on the platform",
    "repeat a (task, worker) pair": "keep the first, or refuse the file, by --set on_duplicate=first or =error",
    "differ only in case": "correct the labels, or they count as different classes",
    UNLABELLED: "nothing to do: conal fit predicts them, given their features or texts",
    "differ only in type": "make the labels all text or all numbers",
    "without an annotator": "let every annotator log in with a separate name",
}
"""What to do about a problem, by words that occur in it."""


def remedy(problem: str, otherwise: str = "nothing to do if this is meant") -> str:
    """The remedy for a problem.

    >>> remedy("rejected by the requester")
    'keep them with --set keep_rejected=true'
    """
    return next((advice for words, advice in REMEDIES.items() if words in problem), otherwise)


# The content of an annotation file.

MIN_TASKS_TO_COMPARE = 10
"""Tasks below which one label each is no sign of a mistake."""


@dataclass(frozen=True)
class Control:
    """The control of a Label Studio project, and the tasks there.

    Attributes
    ----------
    from_name, to_name, type : str
        The control or question, the object that it refers to (None if the file does not say) and its kind, as in
        Label Studio's ``result``.
    key : str
        The key of ``value`` that contains the answer; "choices" if answers are lists.
    answers : dict
        Label, as text, to the answer as the project writes it: the path of a taxonomy, say. None is no answer, such as
        "no" to a question about one choice.
    tasks : dict
        Name of a task, as text, to the numbers of Label Studio's tasks that have it.
    """

    from_name: str
    to_name: str | None
    type: str
    key: str
    answers: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def answer(self, label: Any) -> Any:
        """The label as this control has it.

        >>> Control("kind", "text", "choices", "choices").answer(1)
        ['1']
        >>> Control("kind", "text", "taxonomy", "taxonomy").answer("Food / Fruit")
        [['Food', 'Fruit']]
        """
        if str(label) in self.answers:
            return self.answers[str(label)]
        if self.key == "taxonomy":
            return [str(label).split(" / ")]
        if self.key in ("rating", "number"):
            return json_or_text(label) if isinstance(label, str) else label
        return [str(label)] if self.key == "choices" else label  # choices are text

    def about(self, choice: str | None) -> Control:
        """The control of a question about one choice; itself for another question."""
        return self if choice is None else replace(self, answers={"yes": self.answer(choice), "no": None})


@dataclass(frozen=True)
class AnnotationFile:
    """The content of an annotation file.

    Attributes
    ----------
    path : path
    format, title : str
        Name of the format, and what people call it.
    annotations : Annotations
    question : str or None
        The control or question that was read, where the format has such.
    true_labels : dict
        Task to true label, where the file carries some.
    dropped : dict
        Reason to the number of annotations (or tasks) that were left out for it.
    fields : dict
        Data of the tasks, such as their texts, by task; values may be lists and objects.
    control : Control or None
        Of Label Studio, the control that was read.
    choice_question : str or None
        Where answers with several choices were dropped, a question about one of them, such as ``topics=sport``.
    people : dict
        Annotator, as text, to name, where the file has names beside what it calls the annotators.
    numbered : bool
        Whether the file has no names for its tasks, so that they are row numbers.
    columns : dict
        Role (task, worker, label) to the column of a table in which it was found, and the user's options of such names.
    parts : tuple of AnnotationFile
        The files, each by itself, if several were read as one; ``path`` is then the first of them.
    """

    path: Path
    format: str
    title: str
    annotations: Annotations
    question: str | None = None
    true_labels: Mapping[Any, Any] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    fields: Mapping[Any, Mapping[str, Any]] = field(default_factory=dict)
    control: Control | None = None
    choice_question: str | None = None
    people: Mapping[str, str] = field(default_factory=dict)
    numbered: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[AnnotationFile, ...] = ()

    @property
    def where(self) -> str:
        """How messages name the file, or all files."""
        return ", ".join(str(part.path) for part in self.parts) or str(self.path)

    def contributions(self) -> list[dict[str, Any]]:
        """What each of several files contributes, before labels that two of them repeat are left out."""
        return [
            {
                "file": str(part.path),
                "format": part.format,
                "title": part.title,
                "n_annotations": part.annotations.n_annotations,
                "n_tasks": part.annotations.n_tasks,
                "n_annotators": part.annotations.n_annotators,
            }
            for part in self.parts
        ]

    def all_tasks(self) -> Annotations:
        """The annotations of all tasks in the file; those that nobody has labelled come last."""
        labelled = self.annotations.task_ids.tolist()
        known = set(labelled)
        rest = [name for name in self.fields if name is not None and name not in known]
        return self.annotations.reindex([*labelled, *rest]) if rest else self.annotations

    @cached_property
    def data(self) -> pa.Table | None:
        """The fields as an Arrow table, ``task`` and a column per field; None if there are none."""
        return _data_table(self.fields)

    def task_data(self) -> Mapping[str, Mapping[str, Any]]:
        """The data of each task, by its name as text."""
        return {str(name): fields for name, fields in self.fields.items()}

    def warn_of_single_labels(self) -> None:
        """Say that no task has two labels, as where the ids of labels are taken for those of tasks."""
        crowd = self.annotations
        if crowd.n_annotators > 1 and crowd.n_tasks >= MIN_TASKS_TO_COMPARE and crowd.labels_per_task().max() == 1:
            warn(
                f"{self.where}: no task has two labels, so that annotators cannot be compared; if a column numbers the "
                "labels, name the one of the tasks (--task-column)",
                DataWarning,
            )

    def warn_of_dropped(self, *, unlabelled: bool = True) -> None:
        """Warn about dropped annotations, with the reasons; about tasks without a label only where they are dropped."""
        for part in self.parts:
            part.warn_of_dropped(unlabelled=unlabelled)
        dropped = {reason: n for reason, n in self.dropped.items() if unlabelled or reason != UNLABELLED}
        if dropped and not self.parts:
            advice = "" if self.choice_question is None else f"; {_one_choice(self.choice_question)}"
            warn(f"{self.path} ({self.title}): left out {_counted(dropped)}{advice}", DataWarning)

    def remedy(self, reason: str) -> str:
        """What to do about annotations that were dropped for this reason."""
        if SEVERAL_ANSWERS_REASON in reason and self.choice_question is not None:
            return _one_choice(self.choice_question)
        return remedy(reason)


def _data_table(data: Mapping[Any, Mapping[str, Any]]) -> pa.Table | None:
    """``task`` and a column per field; lists and objects as JSON text, mixed values as text."""
    fields = dict.fromkeys(name for row in data.values() for name in row)
    if not fields:
        return None
    columns = {"task": _data_column(list(data))}
    for name in fields:
        columns["task_" if name == "task" else name] = _data_column([row.get(name) for row in data.values()])
    return pa.table(columns)


def _data_column(values: list[Any]) -> pa.Array:
    plain = [
        json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else value
        for value in values
    ]
    try:
        return pa.array(plain)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        texts = (None if value is None else str(value) for value in plain)
        return pa.array([None if text is None else text.encode("utf-8", "replace").decode() for text in texts])


def agreed_labels(pairs: Iterable[tuple[Any, Any]]) -> tuple[dict[Any, Any], int]:
    """Task to its one label, and how many tasks have several."""
    found: dict[Any, set[Any]] = {}
    for task, label in pairs:
        found.setdefault(task, set()).add(label)
    agreed = {task: next(iter(labels)) for task, labels in found.items() if len(labels) == 1}
    return agreed, len(found) - len(agreed)


def annotations_from(
    tasks: Any,
    workers: Any,
    labels: Any,
    options: ReadOptions,
    *,
    where: Path,
    dropped: Mapping[str, int] = MappingProxyType({}),
    untyped: bool = False,
    choice_question: str | None = None,
    times: Any = None,
) -> Annotations:
    """The annotations in three equally long columns, once classes are matched and repeated pairs resolved.

    Of two labels by one worker for one task the older comes first, where the format has times. If there is no label at
    all, the error says what was ``dropped``, and names a question about one choice where answers had several.
    ``untyped`` columns are from a text file.
    """
    if not len(tasks) and options.unlabelled:
        return Annotations([], [], [], task_ids=[], annotator_ids=[], classes=[])
    if not len(tasks):
        _refuse_empty(where, dropped, choice_question)
    if not isinstance(labels, Labels):
        labels = read_labels(
            labels,
            missing=options.missing,
            abstain=options.abstain,
            classes=options.classes,
            untyped=untyped,
            where=str(where),
        )
    classes = coerce_classes(options.classes, labels.names)
    crowd = Annotations.from_triples(
        tasks,
        workers,
        labels,
        classes=classes,
        merge_spelling=options.merge_spelling,
        on_duplicate=options.on_duplicate,
        times=times,
        where=str(where),
    )
    if untyped:
        refuse_line_ends(where, task=crowd.task_ids, worker=crowd.annotator_ids, label=crowd.classes)
    return crowd


def _refuse_empty(where: object, dropped: Mapping[str, int], choice_question: str | None) -> NoReturn:
    reasons = f" ({_counted(dropped)})" if dropped else ""
    most = max(dropped, key=dropped.__getitem__, default="")
    advice = remedy(most, otherwise="finish labelling and export again")
    if SEVERAL_ANSWERS_REASON in most and choice_question is not None:
        advice = _one_choice(choice_question)
    raise InputError(f"{where}: contains no usable annotation{reasons}; {advice}")


def _one_choice(question: str) -> str:
    """The remedy for answers with several choices.

    >>> _one_choice("topics=fine art")
    "to use answers with several choices, ask about one choice at a time, such as --question 'topics=fine art'"
    """
    example = f"such as --question {shlex.quote(question)}"
    return f"to use answers with several choices, ask about one choice at a time, {example}"


def _counted(reasons: Mapping[str, int]) -> str:
    """``3 skipped, 1 draft``, the most frequent first.

    >>> _counted({"draft": 1, "skipped": 1200})
    '1,200 skipped, 1 draft'
    """
    ordered = sorted(reasons.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{count:,} {reason}" for reason, count in ordered)


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

    def name_of(self, fields: Mapping[str, Any], name: str, what: str) -> Any:
        """The field by which a task, which messages call ``what``, has its name."""
        if fields.get(name) in (None, ""):
            raise InputError(
                f"{self.where}: {what} has no {name!r}; it has {examples(fields, 8)}; choose another field with task= "
                "(--task-column)"
            )
        return fields[name]

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
        untyped: bool = False,
        control: Control | None = None,
    ) -> AnnotationFile:
        """Everything collected, older labels first.

        ``untyped`` labels are from a text file.
        """
        if self.question is not None and not self.options.unlabelled:
            self.question.check(self.choices, self.path)
        self.dropped = +self.dropped  # without counts of 0
        times = read_times(self.times)
        if times is not None and not np.isnat(times).any():
            order = np.argsort(times, kind="stable")
            self.rows, times = [self.rows[k] for k in order.tolist()], times[order]
        tasks, shown, known = _of_one_type(
            [row[0] for row in self.rows], list(self.fields), [task for task, _ in self.gold]
        )
        workers, labels = (_of_one_type([row[k] for row in self.rows])[0] for k in (1, 2))
        example = self._choice_question()
        crowd = annotations_from(
            tasks,
            workers,
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
