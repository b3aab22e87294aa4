"""Mechanical Turk's batch results: a table with Input. and Answer. columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from conal.data.frames import is_name_column
from conal.errors import InputError, examples
from conal.io.annotation_file import AnnotationFile
from conal.io.platforms.base import SEVERAL_ANSWERS, Importer, Question, ask, register, ticked
from conal.io.platforms.head import Head
from conal.io.platforms.json_files import parse_cell
from conal.io.platforms.sheet import Sheet, read_sheet
from conal.parameters.reading import ReadOptions

INPUT, ANSWER = "Input.", "Answer."
JSON_ANSWERS = "Answer.taskAnswers"
Column = Callable[[], list[Any]]
"""How to get the answers of a column; several choices are a list."""


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
        if not options.keep_rejected:
            sheet.drop_values("AssignmentStatus", ["Rejected"], "rejected by the requester")
        _sort_by_submission(sheet)
        answers = _answers(sheet)
        named = options.question or options.label
        wanted = None if named is None else _stripped(named)
        items = _items(answers, wanted)
        question = _of_items(str(wanted)) if items else self._question(answers, wanted, path)
        task = _task_column(sheet, options.task, bool(items))
        shown = [name for name in sheet.names if name.startswith(INPUT)]
        truth = gold = next((name for name in shown if _is_truth(name)), None)
        if gold is not None and question.choice is not None:
            gold = _choice_of_truth(sheet, gold, question)
        sheet, choices = _with_items(sheet, answers, items or {"": question.name}, task, question)
        if not options.unlabelled:
            question.check(choices, path)
        several = sheet.dropped[SEVERAL_ANSWERS] and choices
        return sheet.finish(
            self,
            options,
            task="task*",
            worker=worker,
            label="label*",
            time="SubmitTime",
            question=str(question),
            choice_question=str(question._replace(choice=choices.most_common(1)[0][0])) if several else None,
            gold=None if items else gold,
            data=[name for name in shown if name != truth],
            prefix=INPUT,
        )

    def _question(self, answers: Iterable[str], wanted: str | None, path: Path) -> Question:
        names = list(answers)
        stems = {re.sub(r"\d+$", "", name) for name in names}
        if wanted is None and len(names) > 1 and len(stems) == 1 and stems != set(names):
            raise InputError(
                f"{path}: has several answers: {examples(names, 10)}; choose one with question= (--question), or, if "
                f"every HIT shows several items, take them all with --question '{stems.pop()}*'"
            )
        return ask(names, wanted, path, "answer")


def _answers(sheet: Sheet) -> dict[str, Column]:
    """Name of every answer, and how to get its column."""
    found: dict[str, Column] = {}
    choices: dict[str, dict[str, str]] = {}
    for column in (name for name in sheet.names if name.startswith(ANSWER) and name != JSON_ANSWERS):
        name, dot, choice = column.removeprefix(ANSWER).rpartition(".")
        if not dot or choice == "label" or not _is_flag(sheet, column):
            found[_stripped(column)] = partial(_values, sheet, column)
        else:
            choices.setdefault(name, {})[choice] = column
    found |= {name: partial(_chosen, sheet, flags) for name, flags in choices.items()}
    if JSON_ANSWERS in sheet.names:
        rows = [_json_answers(text) for text in sheet.texts(JSON_ANSWERS)]
        found |= {name: partial(_entries, rows, name) for name in dict.fromkeys(name for row in rows for name in row)}
    return found


def _values(sheet: Sheet, column: str) -> list[Any]:
    return list(sheet.column(column).to_pylist())


def _entries(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row.get(name) for row in rows]


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


def _with_items(
    sheet: Sheet, answers: dict[str, Column], items: dict[str, str], task: str, question: Question
) -> tuple[Sheet, Counter[str]]:
    """The rows once per item, with columns ``task*`` and ``label*``, and how often each choice was made."""
    tasks: list[Any] = []
    found: list[tuple[Any, str | None]] = []
    choices: Counter[str] = Counter()
    for number, name in items.items():
        values = answers[name]()
        choices.update(choice for value in values for choice in ticked(value))
        found += [question.label(value, blank_is_no=True) for value in values]
        names = sheet.column(task.replace("*", number)) if "*" in task else sheet.column(task)
        tasks += [f"{hit}/{number}" for hit in names.to_pylist()] if number and "*" not in task else names.to_pylist()
    table = pa.concat_tables([sheet.table] * len(items)).append_column("task*", _one_column(tasks))
    table = table.append_column("label*", _one_column([label for label, _ in found]))
    several = pa.array([reason == SEVERAL_ANSWERS for _, reason in found], pa.bool_())
    whole = Sheet(table.append_column("several*", several), sheet.path)
    whole.dropped = sheet.dropped
    whole.drop(whole.column("several*"), SEVERAL_ANSWERS)
    return whole, choices


def _choice_of_truth(sheet: Sheet, gold: str, question: Question) -> str:
    """A column with the true answer to a question about one choice; its name."""
    answers = [question.label(text)[0] for text in sheet.texts(gold)]
    sheet.table = sheet.table.append_column("truth*", pa.array(answers, pa.string()))
    return "truth*"


def _one_column(names: list[Any]) -> pa.Array:
    """Names of one type, or as text: several items may have numbers here and text there."""
    try:
        return pa.array(names)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if name is None else str(name) for name in names])


def _task_column(sheet: Sheet, wanted: str | None, items: bool) -> str:
    if wanted is not None:
        named = wanted if wanted in sheet.names or wanted.startswith(INPUT) else INPUT + wanted
        if "*" in named and not items:
            raise InputError(f"{sheet.where}: a task column {wanted!r} needs a question such as 'q*' (--question)")
        return named
    if "HITId" in sheet.names:
        return "HITId"
    inputs = [name for name in sheet.names if name.startswith(INPUT) and not _is_truth(name)]
    if len(inputs) == 1:
        return inputs[0]
    raise InputError(
        f"{sheet.where}: has no 'HITId', and {len(inputs)} inputs: {examples(inputs, 10)}; choose the one with the "
        "task ids with task= (--task-column)"
    )


def _is_truth(name: str) -> bool:
    own = name.removeprefix(INPUT)
    return is_name_column(own, ("truth",)) and not is_name_column(own, ("label",)) and own.lower() != "class"


def _stripped(name: str) -> str:
    return name.removeprefix(ANSWER).removesuffix(".label")


def _sort_by_submission(sheet: Sheet) -> None:
    """The older assignment first, where the times are as MTurk writes them: Wed Dec 08 14:26:17 PST 2010."""
    if "SubmitTime" not in sheet.names:
        return
    # Time zones are those of one requester.
    plain = pc.replace_substring_regex(sheet.column("SubmitTime").cast(pa.string()), r" [A-Z]{3,4} (\d{4})$", r" \1")
    times = pc.strptime(plain, format="%a %b %d %H:%M:%S %Y", unit="s", error_is_null=True)
    if not times.null_count:
        sheet.table = sheet.table.take(pc.sort_indices(times))
