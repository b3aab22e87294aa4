"""Lists per row, as Hugging Face datasets have them: a row per task, with its annotators and their labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from conal.data.frames import find_column, is_name_column
from conal.errors import InputError, examples
from conal.io.annotation_file import UNLABELLED, AnnotationFile
from conal.io.binary_tables import class_names, name_of, table_schema
from conal.io.platforms.base import NO_ANSWER, Collector, Importer, register
from conal.io.platforms.files import Head, load_records, read_head
from conal.parameters.reading import ReadOptions


@register("lists")
class Lists(Importer):
    """Two columns of equally long lists, such as ``annotators`` and ``labels``; rows are tasks.

    The tasks are in a column with a usual name of task ids, and otherwise row numbers. Labels that a dataset stores as
    numbers (``ClassLabel``) get their names; -1 means that there is no label.
    """

    title = "lists of annotators and labels"
    expects = "a row per task, with a list of annotators and a list of labels"
    kinds = ("parquet", "arrow", "json")
    takes = ("task", "worker", "label")

    def sniff(self, head: Head) -> bool:
        columns = _lists(head.record or {})
        return all(any(_is_called(name, role) for name in columns) for role in ("worker", "label"))

    def read(self, path: Path, options: ReadOptions) -> AnnotationFile:
        records = load_records(path)
        columns = list(dict.fromkeys(name for record in records for name in record))
        lists = list(dict.fromkeys(name for record in records for name in _lists(record)))
        if not lists:
            self.unlike(path, f"records with {examples(columns, 8) or 'nothing'}")
        worker, label = (
            _choose(lists, role, named, path) for role, named in (("worker", options.worker), ("label", options.label))
        )
        plain = [name for name in columns if name not in lists]
        task = find_column(plain, "task", options.task, str(path))
        names = class_names(table_schema(path, read_head(path).kind))
        found = Collector(self, path, options)
        for row, record in enumerate(records):
            name = row if task is None else record.get(task)
            if name is None:
                raise InputError(f"{path}: row {row + 1} has no {task!r}; fill it in, or choose another --task-column")
            found.show(name, {field: record.get(field) for field in plain if field != task})
            who, given = record.get(worker) or [], record.get(label) or []
            if not isinstance(who, list) or not isinstance(given, list) or len(who) != len(given):
                raise InputError(
                    f"{path}: row {row + 1} has {_count(who)} in {worker!r} and {_count(given)} in {label!r}; each "
                    "annotator of the list needs one label in the other"
                )
            if not given:
                found.dropped[UNLABELLED] += 1
            for person, value in zip(who, given, strict=True):
                if label in names:
                    value = name_of(value, names[label], f"{path}: row {row + 1}, column {label!r}")
                if value is None:
                    found.dropped[NO_ANSWER] += 1
                else:
                    found.add(name, person, value)
        return replace(found.finish(), numbered=task is None)


def _lists(record: Mapping[str, Any]) -> list[str]:
    return [name for name, value in record.items() if isinstance(value, list)]


def _is_called(name: str, role: str) -> bool:
    """Whether a column of lists has a usual name, in the singular or plural."""
    return is_name_column(name, [role]) or is_name_column(name.removesuffix("s"), [role])


def _choose(lists: Iterable[str], role: str, named: str | None, where: object) -> str:
    known = list(lists)
    if named is not None:
        if named not in known:
            raise InputError(f"{where}: column {named!r} contains no lists; those that do are {examples(known, 10)}")
        return named
    fitting = [name for name in known if _is_called(name, role)]
    if len(fitting) == 1:
        return fitting[0]
    problem = f"columns {examples(fitting, 10)} could all be" if fitting else "no column of lists is called like"
    raise InputError(
        f"{where}: {problem} the {role}s; columns with lists are {examples(known, 10)}; choose one with {role}= "
        f"(--{role}-column)"
    )


def _count(values: Any) -> str:
    """How many; what is no list may be the name of an annotator, which messages must not quote."""
    return f"{len(values)} entries" if isinstance(values, list) else "no list"
