"""Argilla 2: records with several users' responses, nested or flat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from conal.errors import DataWarning, InputError, examples, warn
from conal.io.annotation_file import UNLABELLED, AnnotationFile, Collector, Control, Question, ask, only_answer
from conal.io.platforms import Importer, register
from conal.io.platforms.files import Head, load_records
from conal.parameters.reading import ReadOptions

Record = dict[str, Any]

WRITTEN_FIELDS = ("id", "fields", "metadata", "vectors", "_server_id")
"""What a nested record is written back with."""
FLAT_FIELDS = ("id", "status", "_server_id", "inserted_at", "updated_at")
"""What flat records have beside the fields, the first three of them always."""


class Response(NamedTuple):
    """The answer of one user; exports without a status do not distinguish submitted responses."""

    value: Any
    user: Any
    status: str | None


@register("argilla")
class Argilla(Importer):
    """Records with ``responses`` by question (``to_json``), or ``<question>.responses`` (flattened).

    Drafts and discarded responses are left out. The nested export does not say which they are: all of its responses
    count, with a warning.
    """

    title = "Argilla"
    expects = "records with 'responses' or '<question>.responses'"
    kinds = ("json", "parquet", "arrow")
    takes = ("question", "task")

    def sniff(self, head: Head) -> bool:
        if any(name.endswith(".responses.users") for name in head.fields):
            return True
        record = head.record or {}
        nested = isinstance(record.get("responses"), dict) and "fields" in record
        flat = FLAT_FIELDS[:3] == tuple(record)[:3]  # without any response, the client writes no column for them
        return nested or flat

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        records = load_records(path)
        shape = next((shape for record in records for shape in SHAPES if any(shape.questions(record))), None)
        if shape is None and not (options.unlabelled and records):
            self._refuse(records, path)
        if shape is None:
            shape = SHAPES[0] if "fields" in records[0] else SHAPES[1]
        names = [name for record in records for name in shape.questions(record)]
        question = _asked(names, options, path)
        found = Collector(self, path, options, question)
        unmarked = sum(self._read_record(record, k, shape, question.name, found) for k, record in enumerate(records))
        if unmarked and not options.unlabelled:
            warn(
                f"{path}: does not say which of its {unmarked:,} responses are drafts or discarded, so that all count; "
                "export flat records, which do: records.to_list(flatten=True), or records.to_datasets()",
                DataWarning,
            )
        return found.finish(control=_control_of(records, shape, question, found))

    def _refuse(self, records: list[Record], path: Path) -> NoReturn:
        if (records and self.sniff(Head("json", record=records[0]))) or any("fields" in record for record in records):
            raise InputError(
                f"{path}: contains {len(records):,} records and no response; label some records and export again"
            )
        self.unlike(path, f"objects with {examples(records[0], 8)}" if records else "an empty list")

    def _read_record(self, record: Record, k: int, shape: Shape, question: str, found: Collector) -> int:
        """Collect the responses to one record; returns how many of them have no status."""
        data = shape.data(record)
        task = _task_name(record, data, k, found.options.task, found.where)
        if data:
            found.show(task, data)
        try:
            responses = list(shape.responses(record, question))
        except (ValueError, TypeError) as error:
            raise InputError(f"{found.where}: record {k + 1}: question {question!r}: {error}") from error
        if not responses:
            found.dropped[UNLABELLED] += 1
        for response in responses:
            if response.status not in (None, "submitted"):
                found.dropped[f"{response.status} responses"] += 1
            else:
                found.add(task, response.user, response.value)
        return sum(response.status is None for response in responses)


def _asked(names: list[str], options: ReadOptions, path: Path) -> Question:
    """The question; if nobody has answered any, that of the user, or one without a name."""
    if names or not options.unlabelled:
        return ask(names, options.question, path, "question")
    return Question(options.question or "", named=options.question is not None)


def _control_of(records: list[Record], shape: Shape, question: Question, found: Collector) -> Control:
    """The question, how the dataset writes each label, and its records without responses, if they are complete."""
    answers: dict[str, Any] = {}
    several = False
    own: dict[str, list[Record]] = {}
    for k, record in enumerate(records):
        for response in shape.responses(record, question.name):
            several |= isinstance(response.value, list)
            label, reason = only_answer(response.value)
            answers |= {str(label): response.value} if reason is None else {}
        if isinstance(record.get("fields"), dict):
            name = _task_name(record, shape.data(record), k, found.options.task, found.where)
            kept = {key: value for key, value in record.items() if key in WRITTEN_FIELDS}
            own.setdefault(str(name), []).append(kept)
    key = "choices" if several else "value"
    return Control(question.name, None, "suggestion", key, answers, own).about(question.choice)


class Shape(NamedTuple):
    """One of the layouts: its questions, one question's responses, and the data of the record."""

    questions: Callable[[Record], Iterator[str]]
    responses: Callable[[Record, str], Iterator[Response]]
    data: Callable[[Record], Record]


def _nested_questions(record: Record) -> Iterator[str]:
    responses = record.get("responses")
    yield from responses if isinstance(responses, dict) else ()


def _nested_responses(record: Record, question: str) -> Iterator[Response]:
    responses = record.get("responses")
    yield from _listed(responses.get(question) if isinstance(responses, dict) else None)


def _nested_data(record: Record) -> Record:
    fields = record.get("fields")
    return fields if isinstance(fields, dict) else {}


def _flat_questions(record: Record) -> Iterator[str]:
    return (name.removesuffix(".responses") for name in record if name.endswith(".responses"))


def _flat_responses(record: Record, question: str) -> Iterator[Response]:
    lists = (record.get(f"{question}.responses{part}") for part in ("", ".users", ".status"))
    yield from _parallel(*lists)


def _flat_data(record: Record) -> Record:
    asked = {name.removesuffix(".responses") for name in record if name.endswith(".responses")}
    return {k: v for k, v in record.items() if k not in FLAT_FIELDS and k.split(".")[0] not in asked}


SHAPES = (
    Shape(_nested_questions, _nested_responses, _nested_data),
    Shape(_flat_questions, _flat_responses, _flat_data),
)


def _listed(responses: Any) -> Iterator[Response]:
    for response in responses if isinstance(responses, list) else ():
        if isinstance(response, dict):
            yield Response(_value(response.get("value")), response.get("user_id"), response.get("status"))


def _parallel(values: Any, users: Any, statuses: Any) -> Iterator[Response]:
    """Responses from lists of values, users and, if there is one, statuses."""
    values, users = ([] if part is None else part for part in (values, users))
    statuses = statuses or [None] * len(values)
    if not all(isinstance(part, list) for part in (values, users, statuses)):
        raise ValueError("responses, users and statuses are not all lists")
    if not len(values) == len(users) == len(statuses):
        raise ValueError(f"{len(values)} responses, {len(users)} users and {len(statuses)} statuses; expected one each")
    for value, user, status in zip(values, users, statuses, strict=True):
        yield Response(_value(value), user, status)


def _value(value: Any) -> Any:
    """Some versions wrap an answer once more: ``{"value": "yes"}``."""
    return value["value"] if isinstance(value, dict) and set(value) == {"value"} else value


def _task_name(record: Record, data: Record, k: int, field: str | None, where: str) -> Any:
    if field is not None:
        if isinstance(data.get(field), str | int | float):
            return data[field]
        raise InputError(f"{where}: record {k + 1} has no field {field!r}; it has {examples(data, 8)}")
    return next((record[key] for key in ("id", "external_id", "_server_id") if record.get(key) is not None), k)
