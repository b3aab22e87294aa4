"""The content of an annotation file: annotations, true labels, names, what was dropped, and remedies."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import pyarrow as pa

from conal.data.annotations import Annotations
from conal.data.cleaning import Labels, read_labels
from conal.data.frames import find_annotators, find_first, is_name_column
from conal.errors import DataWarning, InputError, examples, warn
from conal.io.limits import VALUE_ERRORS, refusing
from conal.io.tables import coerce_classes, read_table, refuse_line_ends
from conal.parameters import json_or_text
from conal.parameters.reading import ReadOptions

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


# Names of annotators, from a table of the platform's users.


def read_people(path: str | PathLike[str]) -> dict[str, str]:
    """Annotator, as text, to name: from a table with the annotators' ids, and their names or e-mail addresses.

    The column of ids is called ``worker``, ``annotator``, ``user``, ``id`` or similar; that of names ``name``,
    ``full_name``, or ``first_name`` and ``last_name``. An annotator without a name is called by e-mail address.
    """
    where = str(path)
    table = read_table(Path(path))
    columns = [str(name) for name in table.column_names]
    roles = ("name", "address", "first_name", "last_name")
    ids = find_annotators([name for name in columns if not is_name_column(name, roles)], where)
    kinds, parts = ([name for role in some if (name := find_first(columns, role))] for some in (roles[:2], roles[2:]))
    if ids is None or not (kinds or parts):
        raise InputError(
            f"{where}: expected a column with the annotators' ids (worker, id, ...) and one with their names (name, "
            f"email, ...); it has {examples(columns, 8)}"
        )
    with refusing(VALUE_ERRORS, f"{where}: contains values that cannot be read: {{}}; write names as text"):
        rows = table.select(list(dict.fromkeys([ids, *kinds, *parts]))).to_pylist()
    found: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        called = _name(row, kinds, parts)
        if row[ids] is not None and called and found.setdefault(str(row[ids]), called) != called:
            raise InputError(f"{where}: {row[ids]!r} has two names, the second is in row {number}; keep one")
    return found


def _name(row: dict[str, Any], kinds: list[str], parts: list[str]) -> str:
    joined = " ".join(str(row[part]).strip() for part in parts if row[part] is not None).strip()
    candidates = (str(row[kind]).strip() for kind in kinds if row[kind] is not None)
    return joined or next((name for name in candidates if name), "")


# The content of an annotation file.

MIN_TASKS_TO_COMPARE = 10
"""Tasks below which one label each is no sign of a mistake."""


@dataclass(frozen=True)
class Control:
    """The control of a Label Studio project, or the question of an Argilla dataset, and the tasks there.

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
        Name of a task, as text, to what has it: numbers of Label Studio's tasks, or Argilla's records.
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
        Of Label Studio and Argilla, the control or question that was read.
    choice_question : str or None
        Where answers with several choices were dropped, a question about one of them, such as ``topics=sport``.
    people : dict
        Annotator, as text, to name, where the file has names beside what it calls the annotators.
    numbered : bool
        Whether the file has no names for its tasks, so that they are row numbers.
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
    try:
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
            on_duplicate=options.on_duplicate,
            times=times,
            where=str(where),
        )
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise InputError(f"{where}: a name contains an incomplete character ({half!r}); export it again") from error
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
