"""Prodigy's JSON Lines: one line per annotation, chosen from options or accepted and rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conal.errors import examples
from conal.io.annotation_file import AnnotationFile, Collector, Question, ask
from conal.io.platforms import Importer, register
from conal.io.platforms.files import Head, load_records
from conal.parameters.reading import ReadOptions

CHOICE = Question("accept", named=False)
"""What was chosen from options: Prodigy has no name for the question; its answers are called so."""

OWN_FIELDS = ("label", "answer", "options", "accept", "spans", "tokens", "config", "style", "meta", "priority", "score")


@register("prodigy")
class Prodigy(Importer):
    """Lines with ``_input_hash``, ``answer`` and ``_annotator_id`` or ``_session_id``.

    With options, the label is what was chosen (``accept``), and a rejected line is left out. Without, the annotator
    accepted or rejected the line's ``label``: the classes are that label and ``not <label>``; if there are several
    such labels, each is a separate question. Ignored lines are left out. Who accepts a line without a choice says that
    none applies, which is a "no" to a question about one choice.
    """

    title = "Prodigy JSONL"
    expects = "lines with '_input_hash', 'answer' and '_annotator_id' or '_session_id'"
    kinds = ("json",)
    takes = ("question", "task")

    def sniff(self, head: Head) -> bool:
        return {"_input_hash", "answer"} <= head.fields

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        records = load_records(path)
        if not any({"_input_hash", "answer"} <= set(record) for record in records):
            self.unlike(path, f"objects with {examples(records[0], 8)}" if records else "nothing")
        found = Collector(self, path, options, _question(records, options.question, path), blank_is_no=True)
        for record in records:
            self._read_record(record, found)
        return found.finish()

    def _read_record(self, record: dict[str, Any], found: Collector) -> None:
        task = record.get(found.options.task or "_input_hash")
        answer = record.get("answer")
        found.show(task, {k: v for k, v in record.items() if not k.startswith("_") and k not in OWN_FIELDS})
        if not _is_about(record, found):
            found.dropped["about another label"] += 1
        elif answer not in ("accept", "reject"):
            found.dropped["ignored by the annotator" if answer == "ignore" else "without an answer"] += 1
        elif _is_choice(record) and answer == "reject":
            found.dropped["rejected by the annotator"] += 1
        elif not _is_choice(record) and not _is_binary(record):
            found.dropped["with neither options nor a label"] += 1
        else:
            worker = record.get("_annotator_id") or record.get("_session_id")
            found.add(task, worker, _label(record, answer), record.get("_timestamp"))


def _question(records: list[dict[str, Any]], wanted: str | None, path: Path) -> Question | None:
    """What was chosen, if lines have options, or one of the labels that were accepted and rejected."""
    choices = any(_is_choice(record) for record in records)
    asked = [str(record["label"]) for record in records if _is_binary(record)]
    if wanted is None and (choices or not asked):
        return CHOICE if choices else None
    question = ask([*([CHOICE.name] if choices else []), *asked], wanted, path, "label")
    return CHOICE._replace(choice=question.choice) if choices and question.name == CHOICE.name else question


def _is_about(record: dict[str, Any], found: Collector) -> bool:
    """Whether a line is about the question; unless one was asked for, all lines with options or a label are."""
    question = found.question
    if question is None or (question.name == CHOICE.name and found.options.question is None):
        return True
    return _is_choice(record) if question.name == CHOICE.name else str(record.get("label")) == question.name


def _is_choice(record: dict[str, Any]) -> bool:
    return isinstance(record.get("accept"), list) or (isinstance(record.get("options"), list) and "label" not in record)


def _is_binary(record: dict[str, Any]) -> bool:
    return not _is_choice(record) and record.get("label") not in (None, "")


def _label(record: dict[str, Any], answer: str) -> Any:
    if _is_choice(record):
        return record.get("accept")
    return record["label"] if answer == "accept" else f"not {record['label']}"
