"""Argilla 2: records with several users' responses, nested or flat."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from conal.errors import DataWarning, InputError, examples, warn
from conal.io.annotation_file import UNLABELLED, AnnotationFile, Collector, Question, ask
from conal.io.platforms import Importer, register
from conal.io.platforms.files import Head, load_records
from conal.parameters.reading import ReadOptions

FLAT_FIELDS = ("id", "status", "_server_id", "inserted_at", "updated_at")
"""What flat records have beside the fields, the first three of them always."""


class Response(NamedTuple):
    """The answer of one user; exports without a status do not distinguish submitted responses."""

    value: Any
    user: Any
    status: str | None


class Record(NamedTuple):
    """A record of either layout."""

    task: Any
    data: dict[str, Any]
    responses: dict[str, list[Response]]


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
        loaded = load_records(path)
        records = [_parsed(record, k, options.task, path) for k, record in enumerate(loaded)]
        names = [name for record in records for name in record.responses]
        if not names and not (options.unlabelled and records):
            self._refuse(loaded, path)
        question = _asked(names, options, path)
        found = Collector(self, path, options, question)
        unmarked = sum(_collect(record, question.name, found) for record in records)
        if unmarked and not options.unlabelled:
            warn(
                f"{path}: does not say which of its {unmarked:,} responses are drafts or discarded, so that all count; "
                "export flat records, which do: records.to_list(flatten=True), or records.to_datasets()",
                DataWarning,
            )
        return found.finish()

    def _refuse(self, records: list[dict[str, Any]], path: Path) -> NoReturn:
        if (records and self.sniff(Head("json", record=records[0]))) or any("fields" in record for record in records):
            raise InputError(
                f"{path}: contains {len(records):,} records and no response; label some records and export again"
            )
        self.unlike(path, f"objects with {examples(records[0], 8)}" if records else "an empty list")


def _collect(record: Record, question: str, found: Collector) -> int:
    """Collect the responses to one record; returns how many of them have no status."""
    if record.data:
        found.show(record.task, record.data)
    responses = record.responses.get(question, [])
    if not responses:
        found.dropped[UNLABELLED] += 1
    for response in responses:
        if response.status not in (None, "submitted"):
            found.dropped[f"{response.status} responses"] += 1
        else:
            found.add(record.task, response.user, response.value)
    return sum(response.status is None for response in responses)


def _asked(names: list[str], options: ReadOptions, path: Path) -> Question:
    """The question; if nobody has answered any, that of the user, or one without a name."""
    if names or not options.unlabelled:
        return ask(names, options.question, path, "question")
    return Question(options.question or "", named=options.question is not None)


def _parsed(record: dict[str, Any], k: int, task: str | None, path: Path) -> Record:
    """A record of either layout; ``k`` counts from 0."""
    where = f"{path}: record {k + 1}"
    asked = [name.removesuffix(".responses") for name in record if name.endswith(".responses")]
    if "fields" in record and not asked:
        fields, given = record["fields"], record.get("responses")
        data = fields if isinstance(fields, dict) else {}
        responses = {name: _listed(each) for name, each in given.items()} if isinstance(given, dict) else {}
    else:
        data = {k: v for k, v in record.items() if k not in FLAT_FIELDS and k.split(".")[0] not in asked}
        responses = {name: _parallel(record, name, where) for name in asked}
    return Record(_task_name(record, data, k, task, where), data, responses)


def _listed(responses: Any) -> list[Response]:
    """Responses that are objects."""
    found = [each for each in responses if isinstance(each, dict)] if isinstance(responses, list) else []
    return [Response(_value(each.get("value")), each.get("user_id"), each.get("status")) for each in found]


def _parallel(record: dict[str, Any], question: str, where: str) -> list[Response]:
    """Responses from lists of values, users and, if there is one, statuses."""
    values, users, statuses = (record.get(f"{question}.responses{part}") or [] for part in ("", ".users", ".status"))
    if not all(isinstance(part, list) for part in (values, users, statuses)):
        raise InputError(f"{where}: question {question!r}: responses, users and statuses are not all lists")
    statuses = statuses or [None] * len(values)
    if not len(values) == len(users) == len(statuses):
        raise InputError(
            f"{where}: question {question!r}: {len(values)} responses, {len(users)} users and {len(statuses)} "
            "statuses; expected one each"
        )
    return [Response(_value(value), *about) for value, *about in zip(values, users, statuses, strict=True)]


def _value(value: Any) -> Any:
    """Some versions wrap an answer once more: ``{"value": "yes"}``."""
    return value["value"] if isinstance(value, dict) and set(value) == {"value"} else value


def _task_name(record: dict[str, Any], data: dict[str, Any], k: int, field: str | None, where: str) -> Any:
    if field is not None:
        if isinstance(data.get(field), str | int | float):
            return data[field]
        raise InputError(f"{where} has no field {field!r}; it has {examples(data, 8)}")
    return next((record[key] for key in ("id", "external_id", "_server_id") if record.get(key) is not None), k)
