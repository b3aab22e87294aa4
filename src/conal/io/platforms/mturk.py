"""Mechanical Turk's batch results: a table with Input. and Answer. columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conal.data.frames import is_name_column
from conal.errors import InputError, examples
from conal.io.annotation_file import AnnotationFile, Collector, Question, ask
from conal.io.platforms import Importer, register
from conal.io.platforms.files import Head, Sheet, parse_cell, read_sheet
from conal.parameters.reading import ReadOptions

INPUT, ANSWER = "Input.", "Answer."
JSON_ANSWERS = "Answer.taskAnswers"


@register("mturk")
class MTurk(Importer):
    """One row per assignment: ``HITId``, ``WorkerId``, ``AssignmentStatus``, inputs and answers.

    An answer is a column ``Answer.<name>``, ``Answer.<name>.label``, one true or false column per choice
    (``Answer.<name>.<choice>``), or an entry of the JSON in ``Answer.taskAnswers``. HITs that show several items
    number their answers (``q1``, ``q2``): ``--question "q*"`` makes each a separate task, called ``<HITId>/1``, or
    by its own input with ``--task-column "text*"``. An input that is called like a true label is one.
    """

    title = "MTurk batch CSV"
    expects = "a table with 'WorkerId' and 'Answer...' columns"
    kinds = ("table",)
    takes = ("question", "task", "worker", "label", "keep_rejected")

    def sniff(self, head: Head) -> bool:
        answers = any(name.startswith(ANSWER) for name in head.header)
        return answers and any(name.lower() == "workerid" for name in head.header)

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        sheet = read_sheet(path)
        worker = options.worker or next((name for name in sheet.names if name.lower() == "workerid"), None)
        if worker is None or not any(name.startswith(ANSWER) for name in sheet.names):
            self.unlike(path, f"a table with the columns {examples(sheet.names, 8)}")
        rejected = 0 if options.keep_rejected else sheet.drop_values("AssignmentStatus", ["Rejected"])
        answers = _answers(sheet)
        named = options.question or options.label
        wanted = None if named is None else _stripped(named)
        items = _items(answers, wanted)
        question = _of_items(str(wanted)) if items else self._question(answers, wanted, path)
        inputs = [name for name in sheet.names if name.startswith(INPUT)]
        truth = next((name for name in inputs if _is_truth(name)), None)
        task = sheet.task_column(options.task, "HITId", [name for name in inputs if not _is_truth(name)], INPUT)
        if "*" in task and not items:
            raise InputError(f"{path}: a task column {options.task!r} needs a question such as 'q*' (--question)")
        shown = sheet.fields([name for name in inputs if name != truth], INPUT)
        gold = [None] * len(shown) if truth is None or items else sheet.column(truth).to_pylist()
        workers, times = sheet.column(worker).to_pylist(), sheet.values("SubmitTime")
        found = Collector(self, path, options, question, blank_is_no=True)
        found.dropped["rejected by the requester"] += rejected
        for number, name in (items or {"": question.name}).items():
            hits = sheet.column(task.replace("*", number)).to_pylist()
            if number and "*" not in task:
                hits = [f"{hit}/{number}" for hit in hits]
            for hit, who, answer, known, when, fields in zip(
                hits, workers, answers[name], gold, times, shown, strict=True
            ):
                found.show(hit, fields)
                found.add_gold(hit, known)
                found.add(hit, who, answer, when)
        return found.finish(untyped=sheet.untyped)

    def _question(self, answers: Iterable[str], wanted: str | None, path: Path) -> Question:
        names = list(answers)
        stems = {re.sub(r"\d+$", "", name) for name in names}
        if wanted is None and len(names) > 1 and len(stems) == 1 and stems != set(names):
            raise InputError(
                f"{path}: has several answers: {examples(names, 10)}; choose one with question= (--question), or, if "
                f"every HIT shows several items, take them all with --question '{stems.pop()}*'"
            )
        return ask(names, wanted, path, "answer")


def _answers(sheet: Sheet) -> dict[str, list[Any]]:
    """Name of every question to its answers, row by row; several choices are a list."""
    found: dict[str, list[Any]] = {}
    choices: dict[str, dict[str, str]] = {}
    for column in (name for name in sheet.names if name.startswith(ANSWER) and name != JSON_ANSWERS):
        name, dot, choice = column.removeprefix(ANSWER).rpartition(".")
        if not dot or choice == "label" or not _is_flag(sheet, column):
            found[_stripped(column)] = sheet.column(column).to_pylist()
        else:
            choices.setdefault(name, {})[choice] = column
    found |= {name: _chosen(sheet, flags) for name, flags in choices.items()}
    if JSON_ANSWERS in sheet.names:
        rows = [_json_answers(text) for text in sheet.texts(JSON_ANSWERS)]
        found |= {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    return found


def _is_flag(sheet: Sheet, column: str) -> bool:
    return {text.lower() for text in sheet.texts(column)} <= {"true", "false", ""}


def _chosen(sheet: Sheet, flags: dict[str, str]) -> list[Any]:
    """The choices whose flags are true, row by row; None where no flag is set, not even to false."""
    columns = [[text.lower() for text in sheet.texts(column)] for column in flags.values()]
    return [
        [choice for choice, text in zip(flags, row, strict=True) if text == "true"] if any(row) else None
        for row in zip(*columns, strict=True)
    ]


def _json_answers(text: str) -> dict[str, Any]:
    """Answers in ``[{"q": {"label": "cat"}}]``, ``[{"q": {"cat": true, "dog": false}}]`` or ``[{"q": "cat"}]``."""
    try:
        parsed = parse_cell(text) if text else []
    except ValueError:
        return {}
    merged: dict[str, Any] = {}
    for part in parsed if isinstance(parsed, list) else [parsed]:
        merged |= part if isinstance(part, dict) else {}
    return {name: _json_answer(value) for name, value in merged.items()}


def _json_answer(value: Any) -> Any:
    if isinstance(value, dict) and "label" in value:
        return _json_answer(value["label"])
    if isinstance(value, dict):
        return [name for name, yes in value.items() if yes is True]
    return value


def _of_items(wanted: str) -> Question:
    """``q*`` or ``q*=CHOICE``."""
    name, _, choice = wanted.partition("*=")
    return Question(f"{name}*", choice) if choice else Question(wanted)


def _items(answers: Iterable[str], wanted: str | None) -> dict[str, str]:
    """Number of the item to name of its answer, for a question such as ``q*``."""
    stem = "" if wanted is None else _of_items(wanted).name
    if not stem.endswith("*"):
        return {}
    matches = ((re.fullmatch(re.escape(stem[:-1]) + r"(\d+)", name), name) for name in answers)
    found = {match[1]: name for match, name in matches if match}
    if not found:
        raise InputError(f"there are no answers {stem!r} with a number; there are {examples(answers, 10)}")
    return found


def _is_truth(name: str) -> bool:
    own = name.removeprefix(INPUT)
    return is_name_column(own, ("truth",)) and not is_name_column(own, ("label",)) and own.lower() != "class"


def _stripped(name: str) -> str:
    return name.removeprefix(ANSWER).removesuffix(".label")
