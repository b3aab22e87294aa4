"""Label Studio's JSON, JSON_MIN and CSV."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conal.errors import InputError, examples
from conal.io.annotation_file import UNLABELLED, AnnotationFile, Collector, Control, Question, ask, only_answer
from conal.io.platforms import Importer, register
from conal.io.platforms.files import Head, load_records, parse_cell, read_head, read_sheet
from conal.parameters.reading import ReadOptions

# Label Studio's JSON: tasks with their annotations inside.

FIELDS = {
    "choices": "choices",
    "rating": "rating",
    "taxonomy": "taxonomy",
    "number": "number",
    "pairwise": "selected",
}
"""Controls whose answer can be one label, and the field of ``value`` that contains it."""


@register("label-studio")
class LabelStudio(Importer):
    """A list of tasks: ``id``, ``data`` and ``annotations`` with ``completed_by`` and ``result``.

    Skipped annotations (``was_cancelled``, ``skipped``) and drafts are left out. An annotation that is marked as
    ``ground_truth`` is a true label and no vote. Exports from before version 1.0 say ``completions``.
    """

    title = "Label Studio JSON"
    expects = "a list of tasks with 'id', 'data' and 'annotations'"
    kinds = ("json",)
    takes = ("question", "task")

    def sniff(self, head: Head) -> bool:
        return "data" in head.fields and bool({"annotations", "completions"} & head.fields)

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        tasks = load_records(path)
        if not any("annotations" in task or "completions" in task for task in tasks):
            self.unlike(path, f"objects with {examples(tasks[0], 8)}" if tasks else "an empty list")
        question = self._question(tasks, path, options)
        found = Collector(self, path, options, question)
        for task in tasks:
            self._read_task(task, question, found)
        return found.finish(control=None if question is None else _control_of(tasks, question, found))

    def _question(self, tasks: list[dict[str, Any]], path: Path, options: ReadOptions) -> Question | None:
        results = [result for task in tasks for annotation in _annotations(task) for result in _results(annotation)]
        controls = [
            result["from_name"] for result in results if _field(result) and isinstance(result.get("from_name"), str)
        ]
        if not controls and options.unlabelled:
            return None
        if results and not controls:
            kinds = sorted({str(result.get("type")) for result in results})
            raise InputError(
                f"{path}: its annotations are {examples(kinds)}; conal reads only choices, ratings, numbers, "
                "taxonomies and pairwise comparisons"
            )
        if not controls:
            raise InputError(
                f"{path}: contains {len(tasks):,} tasks and no finished annotation; label some tasks and export again"
            )
        return ask(controls, options.question, path, "control")

    def _read_task(self, task: dict[str, Any], question: Question | None, found: Collector) -> None:
        name = _task_name(task, found)
        if data := _data(task):
            found.show(name, data)
        drafts = task.get("drafts")
        found.dropped.update({"drafts": len(drafts)} if isinstance(drafts, list) and drafts else {})
        annotations = list(_annotations(task))
        if not annotations:
            found.dropped[UNLABELLED] += 1
        for annotation in annotations:
            if annotation.get("was_cancelled") or annotation.get("skipped"):
                found.dropped["skipped by the annotator"] += 1
                continue
            label = None if question is None else _answer(annotation, question.name)
            if annotation.get("ground_truth"):
                found.add_gold(name, label)
                continue
            when = annotation.get("updated_at") or annotation.get("created_at")
            annotator = _annotator(annotation.get("completed_by"))
            found.add(name, annotator, label, when)
            if called := _full_name(annotation.get("completed_by")):
                found.people[str(annotator)] = called


def choice_of(value: Any) -> Any:
    """The answer in the ``value`` of a result: a list of choices, a rating, the paths of a taxonomy.

    >>> choice_of({"choices": ["cat"]}), choice_of({"rating": 4}), choice_of({"taxonomy": [["Food", "Fruit"]]})
    (['cat'], 4, ['Food / Fruit'])
    """
    if not isinstance(value, Mapping):
        return value
    field = next((field for field in FIELDS.values() if field in value), None)
    if field is None:
        return dict(value)
    answer = value[field]
    if field == "taxonomy" and isinstance(answer, list):
        return [" / ".join(map(str, path)) if isinstance(path, list) else path for path in answer]
    return answer


def _control_of(tasks: list[dict[str, Any]], question: Question, found: Collector) -> Control:
    """What the project calls the control and its object, how it writes each label, and the numbers of the tasks."""
    places: Counter[tuple[str | None, str, str]] = Counter({(None, "choices", "choices"): 0})
    answers: dict[str, Any] = {}
    numbers: dict[str, list[Any]] = {}
    for task in tasks:
        numbers.setdefault(str(_task_name(task, found)), []).append(task.get("id"))
        for result in (result for annotation in _annotations(task) for result in _results(annotation)):
            field, value = _field(result), result.get("value")
            if result.get("from_name") != question.name or not isinstance(value, Mapping) or field not in value:
                continue
            kind = result.get("type") or next(kind for kind in FIELDS if FIELDS[kind] == field)
            place = result.get("to_name")
            places[place if isinstance(place, str) else None, str(kind), str(field)] += 1
            label, reason = only_answer(choice_of(value))
            if reason is None:
                answers[str(label)] = value[field]
    (to_name, kind, field), _ = places.most_common(1)[0]
    return Control(question.name, to_name, kind, field, answers, numbers).about(question.choice)


def _annotations(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    found = task.get("annotations") or task.get("completions")
    for annotation in found if isinstance(found, list) else ():
        if isinstance(annotation, dict):  # exports without annotations list their numbers instead
            yield annotation


def _results(annotation: dict[str, Any]) -> list[dict[str, Any]]:
    results = annotation.get("result")
    return [result for result in results if isinstance(result, dict)] if isinstance(results, list) else []


def _field(result: dict[str, Any]) -> str | None:
    value = result.get("value")
    known = FIELDS.get(str(result.get("type", "")).lower())
    if known is None and "type" not in result and isinstance(value, dict):
        known = next((field for field in FIELDS.values() if field in value), None)
    return known


def _answer(annotation: dict[str, Any], control: str) -> Any:
    """The answer to one control; several results, for example for several regions, are several answers."""
    values = [choice_of(r.get("value")) for r in _results(annotation) if r.get("from_name") == control]
    return values[0] if len(values) == 1 else values


def _annotator(completed_by: Any) -> Any:
    if isinstance(completed_by, dict):
        return next((completed_by[key] for key in ("email", "username", "id") if completed_by.get(key)), None)
    return completed_by


def _full_name(completed_by: Any) -> str:
    parts = [completed_by.get(key) for key in ("first_name", "last_name")] if isinstance(completed_by, dict) else []
    return " ".join(part.strip() for part in parts if isinstance(part, str)).strip()


def _task_name(task: dict[str, Any], found: Collector) -> Any:
    if found.options.task is None:
        return found.name_of(task, "id", "a task")
    return found.name_of(_data(task), found.options.task, f"the data of task {task.get('id')!r}")


def _data(task: dict[str, Any]) -> dict[str, Any]:
    data = task.get("data")
    return data if isinstance(data, dict) else {}


# Label Studio's JSON_MIN and CSV: one row per annotation, data and answers side by side.

OWN_COLUMNS = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement", "history")
"""Columns that Label Studio writes beside the data and the answers."""


@register("label-studio-min")
class LabelStudioMin(Importer):
    """One record per annotation: ``id``, ``annotator``, ``annotation_id`` and a column per control.

    The format does not mark the columns of controls. In JSON_MIN they are between ``id`` and ``annotator``; in CSV,
    whose columns are sorted, they are those that differ between annotations of one task.
    """

    title = "Label Studio JSON_MIN or CSV"
    expects = "rows with 'id', 'annotator', 'annotation_id' and a column per control"
    kinds = ("json", "table")
    takes = ("question", "task", "label")

    def sniff(self, head: Head) -> bool:
        return {"id", "annotator", "annotation_id"} <= head.fields and "annotations" not in head.fields

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        kind = read_head(path).kind
        records = load_records(path) if kind == "json" else read_sheet(path).table.to_pylist()
        names = list(dict.fromkeys(name for record in records for name in record))
        if not {"id", "annotator"} <= set(names):
            self.unlike(path, f"rows with {', '.join(map(repr, names[:8])) or 'nothing'}")
        wanted = options.question if options.label is None else options.label
        named = wanted is not None and any(wanted == name or wanted.startswith(f"{name}=") for name in names)
        question = ask(names if named else _controls(records, names), wanted, path, "control")
        control = question.name
        found = Collector(self, path, options, question)
        own = {*OWN_COLUMNS, control} - {options.task}
        for record in records:
            task = record.get(options.task or "id")
            found.show(task, {name: value for name, value in record.items() if name not in own})
            if record.get("annotation_id", 0) in (None, ""):  # a task without an annotation is a row too
                found.dropped[UNLABELLED] += 1
                continue
            when = record.get("updated_at") or record.get("created_at")
            found.add(task, record.get("annotator"), _label(record.get(control)), when)
        unplaced = Control(control, None, "choices", "choices")  # the format does not name the control's object
        return found.finish(untyped=kind == "table", control=unplaced)


def _controls(records: list[dict[str, Any]], names: list[str]) -> list[str]:
    """Candidates for the control that contains the labels."""
    others = [name for name in names if name not in OWN_COLUMNS and not name.startswith("_data_")]
    at = {name: k for k, name in enumerate(names)}
    between = [name for name in others if at["id"] < at[name] < at["annotator"]]
    if between and sorted(names) != names:
        return between
    if len(others) < 2:
        return others
    seen: dict[tuple[str, str], str] = {}
    differ = {}
    for record in records:
        task = json.dumps(record.get("id"), default=str)  # whatever it is: a damaged file may have a list there
        for name in others:
            text = json.dumps(record.get(name), default=str)
            if seen.setdefault((name, task), text) != text:
                differ[name] = True
    return [name for name in others if name in differ] or others


def _label(value: Any) -> Any:
    """A single choice is written as text; anything else as JSON, in CSV as JSON text."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = parse_cell(value)
        except ValueError:
            return value
    if isinstance(value, list):
        return [choice_of(item) for item in value] if len(value) != 1 else choice_of(value[0])
    return choice_of(value)
