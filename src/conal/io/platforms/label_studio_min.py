"""Label Studio's JSON_MIN and CSV: one row per annotation, data and answers side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conal.io.annotation_file import AnnotationFile, Control
from conal.io.platforms.base import Importer, register
from conal.io.platforms.collector import Collector
from conal.io.platforms.head import Head, read_head
from conal.io.platforms.json_files import load_records, parse_cell
from conal.io.platforms.label_studio import choice_of
from conal.io.platforms.questions import ask
from conal.io.platforms.sheet import read_sheet
from conal.io.remedies import UNLABELLED
from conal.parameters.reading import ReadOptions

__all__ = ["LabelStudioMin"]

OWN = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement", "history")
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
        own = {*OWN, control} - {options.task}
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
    others = [name for name in names if name not in OWN and not name.startswith("_data_")]
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
