"""Zooniverse's classification export: a table with JSON in its cells, one row per person and subject."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conal.errors import InputError
from conal.io.annotation_file import NO_ANSWER, AnnotationFile, Collector, ask, ticked
from conal.io.platforms import Importer, register
from conal.io.platforms.files import Head, Sheet, parse_cell, read_sheet
from conal.parameters.reading import ReadOptions

COLUMNS = ("classification_id", "user_name", "annotations", "subject_data", "subject_ids")
SEVERAL_SUBJECTS = "of several subjects at once"


@register("zooniverse")
class Zooniverse(Importer):
    """One row per classification: ``annotations`` has the answers by task (T0, T1, ...), ``subject_data`` the subject.

    A task of the workflow is a question here, a subject a task. If the export has several workflows, questions are
    called ``WORKFLOW/T0``. People who were not logged in are distinguished by ``user_name``, which Zooniverse makes of
    their address. Classifications marked as gold standard are true labels.
    """

    title = "Zooniverse classification export"
    expects = "a table with 'classification_id', 'user_name', 'annotations', 'subject_data' and 'subject_ids'"
    kinds = ("table",)
    takes = ("question", "task")

    def sniff(self, head: Head) -> bool:
        return set(COLUMNS) <= head.fields

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        sheet = read_sheet(path)
        if not set(COLUMNS) <= set(sheet.names):
            self.unlike(path, Head("table", header=tuple(sheet.names)).describe())
        answers = _answers(sheet)
        names = sorted({name for given in answers for name, value in given.items() if ticked(value)})
        question = ask(names, options.question, path, "task")
        found = Collector(self, path, options, question, blank_is_no=True)
        people, subjects = (sheet.column(name).to_pylist() for name in ("user_name", "subject_ids"))
        times, gold = sheet.values("created_at"), sheet.values("gold_standard")
        for row, (given, fields) in enumerate(zip(answers, _subjects(sheet), strict=True)):
            if fields is None:
                found.dropped[SEVERAL_SUBJECTS] += 1
                continue
            subject = f"row {row + 1}: the subject"
            task = subjects[row] if options.task is None else found.name_of(fields, options.task, subject)
            found.show(task, fields)
            if question.name not in given:
                found.dropped[NO_ANSWER] += 1
            elif str(gold[row]).lower() == "true":
                found.add_gold(task, given[question.name])
            else:
                found.add(task, people[row], given[question.name], times[row])
        return found.finish()


def _answers(sheet: Sheet) -> list[dict[str, Any]]:
    """The answers of each classification, by the name of the question."""
    workflows = sheet.values("workflow_id")
    prefixes = [f"{each}/" for each in workflows] if len(set(workflows)) > 1 else [""] * len(workflows)
    rows = enumerate(zip(prefixes, sheet.texts("annotations"), strict=True))
    lists = ((prefix, _flat(_cell(text, sheet, row, "annotations", list))) for row, (prefix, text) in rows)
    return [{prefix + name: value for name, value in flat} for prefix, flat in lists]


def _flat(annotations: list[Any]) -> Iterator[tuple[str, Any]]:
    """Task and value, also of tasks that are combined in one."""
    for entry in annotations:
        if not isinstance(entry, dict) or not isinstance(entry.get("task"), str):
            continue
        value = entry.get("value")
        if isinstance(value, list) and any(isinstance(inner, dict) and "task" in inner for inner in value):
            yield from _flat(value)
        else:
            yield entry["task"], value


def _subjects(sheet: Sheet) -> Iterator[dict[str, Any] | None]:
    """The fields of each classification's subject, without the state of its retirement; None for several subjects."""
    for row, text in enumerate(sheet.texts("subject_data")):
        data = _cell(text, sheet, row, "subject_data", dict)
        fields = next((value for value in data.values() if isinstance(value, dict)), {})
        yield None if len(data) > 1 else {name: value for name, value in fields.items() if name != "retired"}


def _cell(text: str, sheet: Sheet, row: int, column: str, kind: type) -> Any:
    try:
        value = parse_cell(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{sheet.where}: row {row + 1}, column {column!r} is not JSON ({error}); export the classifications again"
        ) from error
    if not isinstance(value, kind):
        raise InputError(f"{sheet.where}: row {row + 1}, column {column!r} is no JSON {kind.__name__}; export it again")
    return value
